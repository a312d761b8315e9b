package h1

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/tokpace/pkg/memnet"
)

// A window is when a server wrote a piece of an answer.
type window struct{ begin, end time.Time }

// onDemand is a handler that writes a piece whenever it is asked to, and says when
// it did so.
func onDemand(ask <-chan struct{}, wrote chan<- window) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		flush := http.NewResponseController(w).Flush
		for range ask {
			begin := time.Now()
			_, _ = io.WriteString(w, "piece")
			_ = flush()
			wrote <- window{begin, time.Now()}
		}
	})
}

// Bytes that nobody reads for a while have the time of their arrival where the
// kernel tells it, and that of the read elsewhere.
func TestKernelStamps(t *testing.T) {
	const pieces = 50
	for _, network := range []string{"tcp", "tls", "unix", "memnet"} {
		t.Run(network, func(t *testing.T) {
			ask, wrote := make(chan struct{}), make(chan window)
			srv := httptest.NewUnstartedServer(onDemand(ask, wrote))
			tr := &Transport{}
			url := ""
			switch network {
			case "unix":
				srv.Listener.Close()
				srv.Listener, url = listen(t, network)
			case "memnet":
				srv.Listener.Close()
				m := memnet.Listen()
				srv.Listener, tr.Dial, url = m, m.DialContext, memURL
			}
			if network == "tls" {
				srv.StartTLS()
				tr.TLS = srv.Client().Transport.(*http.Transport).TLSClientConfig
			} else {
				srv.Start()
			}
			defer srv.Close()
			defer tr.CloseIdleConnections()
			if url == "" {
				url = srv.URL + "/"
			}

			go func() { ask <- struct{}{} }()
			answered := make(chan window, 1)
			go func() { answered <- <-wrote }()
			resp, err := tr.RoundTrip(newRequest(t, "GET", url, ""))
			require.NoError(t, err)
			<-answered
			body := resp.Body.(*Body)
			p := make([]byte, 100)
			n, err := body.Read(p)
			require.NoError(t, err)
			require.Equal(t, "piece", string(p[:n]))

			stamped := runtime.GOOS == "linux" && (network == "tcp" || network == "tls")
			early, last := 0, body.Arrived()
			// A loaded kernel begins to stamp late, and delivers some bytes after the
			// write has returned.
			for i := 0; i < pieces || stamped && early == 0; i++ {
				ask <- struct{}{}
				w := <-wrote
				before := body.Reads()
				n, err := body.Read(p)
				require.NoError(t, err)
				require.Equal(t, "piece", string(p[:n]))
				at := body.Arrived()
				require.False(t, at.Before(last))
				require.False(t, at.After(time.Now()))
				// Two readings of two clocks lie between the server's and ours.
				require.False(t, at.Before(w.begin.Add(-2*tolerance)), "%v before it was written", w.begin.Sub(at))
				if at.Before(w.end) {
					early++
					require.Greater(t, body.Reads().Stamped, before.Stamped)
				}
				last = at
			}
			close(ask)
			_, err = body.Read(p)
			require.Equal(t, io.EOF, err)
			require.NoError(t, body.Close())
			reads := body.Reads()
			require.Greater(t, reads.Total, pieces)
			if !stamped {
				require.Zero(t, reads.Stamped)
				require.Zero(t, early)
			}
		})
	}
}

// A read before which the wall clock was set has its own time.
func TestKernelStampsWhileTheClockIsSet(t *testing.T) {
	ask, wrote := make(chan struct{}), make(chan window)
	srv := httptest.NewServer(onDemand(ask, wrote))
	defer srv.Close()
	var ahead time.Duration // of the kernel's wall clock
	tr := &Transport{clock: func() moment {
		m := now()
		m.wall += int64(ahead)
		return m
	}}
	defer tr.CloseIdleConnections()
	go func() { ask <- struct{}{} }()
	go func() { <-wrote }()
	resp, err := tr.RoundTrip(newRequest(t, "GET", srv.URL, ""))
	require.NoError(t, err)
	body := resp.Body.(*Body)
	p := make([]byte, 100)
	_, err = body.Read(p)
	require.NoError(t, err)
	for _, step := range []time.Duration{time.Hour, -time.Hour, time.Second, -time.Second} {
		before := body.Reads()
		ask <- struct{}{}
		w := <-wrote
		ahead += step
		_, err = body.Read(p)
		require.NoError(t, err)
		require.Equal(t, before.Stamped, body.Reads().Stamped)
		require.Equal(t, before.Total+1, body.Reads().Total)
		require.False(t, body.Arrived().Before(w.end), "the time of the read")
		require.False(t, body.Arrived().After(time.Now()))
	}
	close(ask)
	_, err = body.Read(p)
	require.Equal(t, io.EOF, err)
}

// A stamp of the kernel costs no allocation.
func TestReadsAllocateNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	defer c.Close()
	peer, err := l.Accept()
	require.NoError(t, err)
	defer peer.Close()
	s := newSocket(c, nil)
	p := make([]byte, 10)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if _, err := peer.Write(p); err != nil {
			t.Fatal(err)
		}
		if n, err := s.Read(p); n != len(p) || err != nil {
			t.Fatal(n, err)
		}
	}))
}

// What a server did before it answered is known to have happened once the answer is
// there, to the race detector, too.
func TestAnswersAreOrdered(t *testing.T) {
	var did int
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { did++ }))
	defer srv.Close()
	tr := &Transport{}
	defer tr.CloseIdleConnections()
	for i := range 3 {
		resp, err := tr.RoundTrip(newRequest(t, "GET", srv.URL, ""))
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, i+1, did)
	}
}
