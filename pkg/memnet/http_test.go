package memnet_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"example.com/tokpace/pkg/memnet"

	"github.com/stretchr/testify/require"
)

// serve starts a server on a new listener and returns a client for it and a
// count of the connections made. Both end with the test, inside its bubble.
func serve(t *testing.T, h http.HandlerFunc) (*http.Client, *atomic.Int64) {
	t.Helper()
	l := memnet.Listen()
	srv := &http.Server{Handler: h}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	var dials atomic.Int64
	tr := &http.Transport{
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			dials.Add(1)
			return l.DialContext(ctx, network, addr)
		},
	}
	t.Cleanup(func() {
		tr.CloseIdleConnections()
		if err := srv.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("serve: %v", err)
		}
	})
	return &http.Client{Transport: tr}, &dials
}

const anyURL = "http://memnet.invalid/"

func TestStreamTimesAreExactInVirtualTime(t *testing.T) {
	const first, gap, events = 137 * time.Millisecond, 7 * time.Millisecond, 50
	conns := 64
	if raceEnabled {
		conns = 16
	}
	synctest.Test(t, func(t *testing.T) {
		client, dials := serve(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			start := time.Now()
			for i := range events {
				time.Sleep(time.Until(start.Add(first + time.Duration(i)*gap)))
				fmt.Fprintf(w, "data: %d\n\n", i)
				w.(http.Flusher).Flush()
			}
		})
		want := make([]time.Duration, events)
		for i := range want {
			want[i] = gap
		}
		want[0] = first

		got := make([][]time.Duration, conns)
		var wg sync.WaitGroup
		for i := range got {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * 11 * time.Microsecond)
				last := time.Now()
				resp, err := client.Get(anyURL)
				if err != nil {
					t.Errorf("get: %v", err)
					return
				}
				defer resp.Body.Close()
				for sc := bufio.NewScanner(resp.Body); sc.Scan(); {
					if strings.HasPrefix(sc.Text(), "data: ") {
						got[i] = append(got[i], time.Since(last))
						last = time.Now()
					}
				}
			})
		}
		wg.Wait()
		for i := range got {
			require.Equal(t, want, got[i], "stream %d", i)
		}
		require.EqualValues(t, conns, dials.Load())
	})
}

// Requests one after the other all use one connection. net/http hides a lost
// idle connection from requests that it may repeat, so these may not be.
func TestKeepAliveNeverBreaks(t *testing.T) {
	requests := 20_000
	if testing.Short() || raceEnabled {
		requests = 1000
	}
	client, dials := serve(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(w, r.Body)
	})
	for i := range requests {
		body := fmt.Sprintf("request %d", i)
		resp, err := client.Post(anyURL, "text/plain", io.NopCloser(strings.NewReader(body)))
		require.NoError(t, err, body)
		got, err := io.ReadAll(resp.Body)
		require.NoError(t, err, body)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, body, string(got))
	}
	require.EqualValues(t, 1, dials.Load())
}

func TestServerSeesTheClientLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		left := make(chan time.Time, 1)
		client, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			left <- time.Now()
		})
		client.Timeout = 30 * time.Second
		start := time.Now()
		resp, err := client.Get(anyURL)
		require.NoError(t, err)
		_, err = io.ReadAll(resp.Body)
		require.True(t, err.(net.Error).Timeout())
		require.NoError(t, resp.Body.Close())
		require.Equal(t, 30*time.Second, time.Since(start))
		require.Equal(t, 30*time.Second, (<-left).Sub(start))
	})
}

func TestSlowReaderHoldsTheServerBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const chunk = 16 << 10
		var sent atomic.Int64
		client, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
			for range 100 {
				if _, err := w.Write(make([]byte, chunk)); err != nil {
					t.Errorf("write: %v", err)
				}
				sent.Add(chunk)
			}
		})
		resp, err := client.Get(anyURL)
		require.NoError(t, err)
		time.Sleep(time.Hour)
		// In flight are the connection's buffer and net/http's own, of 4 KiB each.
		require.LessOrEqual(t, sent.Load(), int64(memnet.BufferSize+2*4<<10))
		n, err := io.Copy(io.Discard, resp.Body)
		require.NoError(t, err)
		require.EqualValues(t, 100*chunk, n)
		require.NoError(t, resp.Body.Close())
	})
}

func TestResetInTheMiddleOfABody(t *testing.T) {
	client, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		c, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Errorf("hijack: %v", err)
			return
		}
		if r.URL.Path == "/head" {
			rw.WriteString("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this")
			rw.Flush()
			rw.Reader.Peek(1) // until the client has the head and says so
		}
		c.(*memnet.Conn).Reset()
	})
	_, err := client.Get(anyURL)
	require.ErrorIs(t, err, syscall.ECONNRESET)

	body, tell := io.Pipe()
	req, err := http.NewRequest("POST", anyURL+"head", body)
	require.NoError(t, err)
	resp, err := client.Do(req)
	require.NoError(t, err)
	go tell.Write([]byte("x"))
	_, err = io.ReadAll(resp.Body)
	require.ErrorIs(t, err, syscall.ECONNRESET)
	require.NoError(t, resp.Body.Close())
	tell.Close()
}

func TestRefusedConnection(t *testing.T) {
	l := memnet.Listen()
	require.NoError(t, l.Close())
	client := &http.Client{Transport: &http.Transport{DialContext: l.DialContext}}
	_, err := client.Get(anyURL)
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
}

func Example() {
	l := memnet.Listen()
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "hello from ", r.Host)
	})}
	go srv.Serve(l)
	defer srv.Close()

	tr := &http.Transport{DialContext: l.DialContext}
	defer tr.CloseIdleConnections()
	client := &http.Client{Transport: tr}
	resp, err := client.Get("http://" + l.Addr().String() + "/")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	fmt.Println(string(body))
	// Output: hello from memnet.invalid:80
}

// One request and answer over a kept-alive connection.
func BenchmarkRoundTrip(b *testing.B) {
	l := memnet.Listen()
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "ok")
	})}
	go srv.Serve(l)
	defer srv.Close()
	tr := &http.Transport{DialContext: l.DialContext}
	defer tr.CloseIdleConnections()
	client := &http.Client{Transport: tr}
	b.ReportAllocs()
	for b.Loop() {
		resp, err := client.Get(anyURL)
		if err != nil {
			b.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
}
