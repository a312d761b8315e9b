package h1

import (
	"io"
	"net"
	"net/http/httptrace"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

const hi = ok + "Content-Length: 2\r\n\r\nhi"

// get sends a request and reads the answer to its end.
func get(t *testing.T, tr *Transport, url string) (reused bool) {
	t.Helper()
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) { reused = info.Reused },
	})
	resp, err := tr.RoundTrip(newRequest(t, "GET", url, "").WithContext(ctx))
	require.NoError(t, err)
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, "hi", string(body))
	return reused
}

func TestReuse(t *testing.T) {
	s := &scripted{steps: []step{{1, hi}}}
	inBubble(t, s, func(t *testing.T, tr *Transport) {
		require.False(t, get(t, tr, memURL))
		for range 10 {
			require.True(t, get(t, tr, memURL))
		}
		conns, _ := s.count()
		require.Equal(t, 1, conns)
		require.False(t, get(t, tr, "http://other.invalid/"), "another host is another pool")
	})
}

func TestBodyNotReadToItsEnd(t *testing.T) {
	for name, steps := range map[string][]step{
		"sized":               {{1, ok + "Content-Length: 3\r\n\r\nhi"}, {2, "!"}},
		"chunked":             {{1, chunkedHead + "2\r\nhi\r\n"}, {2, "0\r\n\r\n"}},
		"inside the last LF":  {{1, chunkedHead + "2\r\nhi\r\n0\r\n\r"}, {2, "\n"}},
		"bytes behind it":     {{1, hi + "!"}},
		"more than its reads": {{1, ok + "Content-Length: 4\r\n\r\nhiho"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &scripted{steps: steps}
			inBubble(t, s, func(t *testing.T, tr *Transport) {
				resp, err := tr.RoundTrip(newRequest(t, "GET", memURL, ""))
				require.NoError(t, err)
				n, err := resp.Body.Read(make([]byte, 2))
				require.Equal(t, 2, n)
				require.Equal(t, name == "bytes behind it", err == io.EOF)
				require.NoError(t, resp.Body.Close())
				require.NoError(t, resp.Body.Close())
				require.Zero(t, idle(tr))
				time.Sleep(10 * time.Millisecond) // the server's next step
				synctest.Wait()
				_, gone := s.count()
				require.Equal(t, 1, gone)
			})
		})
	}
}

// The connection that was used last is used next, so that the others may grow
// old.
func TestLastUsedFirst(t *testing.T) {
	s := &scripted{steps: []step{{10, hi}}}
	inBubble(t, s, func(t *testing.T, tr *Transport) {
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() { get(t, tr, memURL) })
		}
		wg.Wait()
		require.Equal(t, 3, idle(tr))
		for range 10 {
			require.True(t, get(t, tr, memURL))
			time.Sleep(10 * time.Second)
		}
		synctest.Wait()
		require.Equal(t, 1, idle(tr))
		_, gone := s.count()
		require.Equal(t, 2, gone)
	})
}

func TestIdleTimeout(t *testing.T) {
	for timeout, lives := range map[time.Duration]time.Duration{
		0:                DefaultIdleTimeout,
		7 * time.Second:  7 * time.Second,
		-1 * time.Second: 0,
	} {
		s := &scripted{steps: []step{{0, hi}}}
		inBubble(t, s, func(t *testing.T, tr *Transport) {
			tr.IdleTimeout = timeout
			get(t, tr, memURL)
			if lives == 0 {
				time.Sleep(24 * time.Hour)
				require.True(t, get(t, tr, memURL))
				return
			}
			time.Sleep(lives - time.Nanosecond)
			require.True(t, get(t, tr, memURL))
			time.Sleep(lives - time.Nanosecond)
			require.Equal(t, 1, idle(tr), "the time runs from the last use")
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			require.Zero(t, idle(tr))
			_, gone := s.count()
			require.Equal(t, 1, gone)
			require.False(t, get(t, tr, memURL))
		})
	}
}

func TestCloseIdleConnections(t *testing.T) {
	s := &scripted{steps: []step{{0, hi}}}
	inBubble(t, s, func(t *testing.T, tr *Transport) {
		tr.CloseIdleConnections()
		for range 2 {
			require.False(t, get(t, tr, memURL))
			tr.CloseIdleConnections()
			require.Zero(t, idle(tr))
		}
		synctest.Wait()
		conns, gone := s.count()
		require.Equal(t, 2, conns)
		require.Equal(t, 2, gone)
	})
}

func TestWarm(t *testing.T) {
	s := &scripted{steps: []step{{10, hi}}}
	inBubble(t, s, func(t *testing.T, tr *Transport) {
		require.NoError(t, tr.Warm(t.Context(), memURL, 200))
		require.Equal(t, 200, idle(tr))
		require.NoError(t, tr.Warm(t.Context(), memURL, 150))
		synctest.Wait() // for the server to count
		conns, _ := s.count()
		require.Equal(t, 200, conns)
		var wg sync.WaitGroup
		for range 200 {
			wg.Go(func() {
				if !get(t, tr, memURL) {
					t.Error("a connection was opened")
				}
			})
		}
		wg.Wait()
	})
	refused := &Transport{}
	var connect *net.OpError
	require.ErrorAs(t, refused.Warm(t.Context(), "http://127.0.0.1:1/", 100), &connect)
	require.Zero(t, idle(refused))
	var bad *RequestError
	require.ErrorAs(t, refused.Warm(t.Context(), "gopher://127.0.0.1/", 1), &bad)
	require.ErrorAs(t, refused.Warm(t.Context(), "http://[::1", 1), &bad)
}

func TestFreshConnection(t *testing.T) {
	s := &scripted{steps: []step{{0, hi}}}
	inBubble(t, s, func(t *testing.T, tr *Transport) {
		get(t, tr, memURL)
		resp, err := tr.RoundTripFresh(newRequest(t, "GET", memURL, ""), time.Time{})
		require.NoError(t, err)
		_, err = io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Equal(t, 2, idle(tr))
	})
}

// A connection that dies under a request says so, and whether it was an old one.
func TestClosedUnderRequest(t *testing.T) {
	s := &scripted{steps: []step{{0, hi}}, close: true}
	inBubble(t, s, func(t *testing.T, tr *Transport) {
		get(t, tr, memURL)
		synctest.Wait()
		_, err := tr.RoundTrip(newRequest(t, "GET", memURL, ""))
		var closed *ClosedError
		require.ErrorAs(t, err, &closed)
		require.True(t, closed.Reused)
		s.steps = nil
		_, err = tr.RoundTrip(newRequest(t, "GET", memURL, ""))
		require.ErrorAs(t, err, &closed)
		require.False(t, closed.Reused)
		require.Equal(t, io.EOF, closed.Err)
	})
}

// What happened to an idle socket meanwhile is seen before it is used.
func TestIdleSocketsAreLookedAt(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		for name, meanwhile := range map[string]func(net.Conn){
			"closed":        func(c net.Conn) { c.Close() },
			"half closed":   func(c net.Conn) { _ = c.(interface{ CloseWrite() error }).CloseWrite() },
			"unasked bytes": func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 408 Request Timeout\r\n\r\n") },
		} {
			t.Run(network+", "+name, func(t *testing.T) {
				s := &scripted{steps: []step{{0, hi}}}
				l, url := listen(t, network)
				served := make(chan struct{})
				go func() { defer close(served); s.serve(l) }()
				tr := &Transport{}
				require.False(t, get(t, tr, url))
				require.True(t, get(t, tr, url), "nothing happened")
				s.mu.Lock()
				meanwhile(s.conns[0])
				s.mu.Unlock()
				// The bytes cross the kernel in their own time.
				c := tr.hosts[onlyKey(tr)].idle[0]
				require.Eventually(t, func() bool { return !c.sock.usable(false) }, 5*time.Second, time.Millisecond)
				require.False(t, get(t, tr, url))
				tr.CloseIdleConnections()
				l.Close()
				<-served
			})
		}
	}
}

func onlyKey(tr *Transport) hostKey {
	for k := range tr.hosts {
		return k
	}
	return hostKey{}
}

func listen(t *testing.T, network string) (l net.Listener, url string) {
	t.Helper()
	if network == "tcp" {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		return l, "http://" + l.Addr().String() + "/"
	}
	path := t.TempDir() + "/s.sock"
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	return l, "http://unix:" + path + ":/"
}
