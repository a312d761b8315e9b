package client_test

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/tokpace/pkg/api"
	"example.com/tokpace/pkg/client"
)

// A server or a proxy that drips several events into one HTTP chunk: each has its
// own time. net/http's reader gives all of them the last one's.
func TestDripInsideOneHTTPChunk(t *testing.T) {
	noLeaks(t)
	events := []string{tok("a"), tok("b"), tok("c"), fins + use(2, 3) + done}
	size := fmt.Sprintf("%x\r\n", len(strings.Join(events, "")))
	playOn(t, client.H1, chatRequest(t), want{events: [][]int{{50, 100, 150}}, in: "2 server", out: "3 server", text: "abc",
		check: func(t *testing.T, ex *client.Exchange, _ *scriptServer) {
			require.Zero(t, ex.MergedReads)
		},
	}, script{steps: []step{
		at(0, streamHead), at(50, size, events[0]), at(100, events[1]), at(150, events[2]), at(160, events[3], "\r\n0\r\n\r\n"),
	}})
}

// An answer without a stream ends when its last byte has come.
func TestDripOfPlainBody(t *testing.T) {
	noLeaks(t)
	body := `{"choices":[{"index":0,"message":{"content":"hi"},"finish_reason":"stop"}],"usage":` + usage(1, 1) + `}`
	whole := plain(0, 200, jsonType, body).steps[0].data
	cut := len(whole) - 10
	req, err := api.NewChat("m", []api.Message{{Role: "user", Content: "hi"}}, api.Generation{})
	require.NoError(t, err)
	play(t, req, want{e2e: 90, in: "1 server", out: "1 server", text: "hi", check: func(t *testing.T, ex *client.Exchange, _ *scriptServer) {
		require.Less(t, ex.Headers.V, 90*time.Millisecond)
	}}, script{steps: []step{at(10, whole[:cut]), at(90, whole[cut:])}})
}

// Each way in which an answer can be wrong has its class and its words.
func TestFailuresOfH1(t *testing.T) {
	noLeaks(t)
	const head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
	for _, c := range []struct {
		raw   string
		class api.Class
		words string
	}{
		{"", api.Truncated, "connection closed before an answer"},
		{"HTTP/1.1 200", api.Truncated, "connection closed inside the answer's header"},
		{head + "Content-Length: 10\r\n\r\n: ping", api.Truncated, "connection closed inside the answer's body"},
		{head + "Content-Length: 10\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", api.Malformed, "both Content-Length and Transfer-Encoding"},
		{head + "Content-Length: 1\r\nContent-Length: 2\r\n\r\n", api.Malformed, "differing Content-Lengths"},
		{head + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", api.Malformed, "Transfer-Encoding"},
		{head + "X: y\n\r\n", api.Malformed, "bare LF"},
		{"220 mail.invalid ESMTP\r\n", api.Malformed, "status line"},
		{streamHead + "5\r\n: pin\n", api.Malformed, "end of chunk"},
		{streamHead + "ffffffffffffffff\r\n", api.Malformed, "chunk size too large"},
	} {
		playOn(t, client.H1, chatRequest(t), want{class: c.class, check: func(t *testing.T, ex *client.Exchange, _ *scriptServer) {
			require.Contains(t, ex.Error.Message, c.words)
			require.Equal(t, 1, ex.Attempts)
		}}, script{steps: []step{at(10, c.raw)}, end: fin})
	}
}

// Connections that Warm has made serve the first exchanges, through whatever
// transport.
func TestWarm(t *testing.T) {
	noLeaks(t)
	const n = 50
	for _, transport := range client.TransportNames() {
		t.Run(transport, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			s := &scriptServer{scripts: []script{stream(at(0, tok("a"), fins, done))}}
			served := make(chan struct{})
			go func() { defer close(served); _ = s.serve(l) }()
			tr, err := client.NamedTransport(transport, nil)
			require.NoError(t, err)
			c := &client.Client{BaseURL: "http://" + l.Addr().String(), Transport: tr}
			c.Warm(t.Context(), n, "/v1/models")
			conns, requests := s.counts()
			require.Equal(t, n, conns)
			require.Equal(t, n, requests)
			var wg sync.WaitGroup
			for range n {
				wg.Go(func() {
					if ex := c.Do(t.Context(), chatRequest(t)); !ex.OK || !ex.ConnReused {
						t.Error(ex.ConnReused, ex.Error)
					}
				})
			}
			wg.Wait()
			conns, _ = s.counts()
			require.Equal(t, n, conns)
			c.CloseIdleConnections()
			l.Close()
			<-served
			c.Warm(t.Context(), n, "/v1/models") // nobody is there, and that is no hang
		})
	}
}

func TestUnixSocket(t *testing.T) {
	noLeaks(t)
	path := t.TempDir() + "/server.sock"
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	s := &scriptServer{scripts: []script{stream(at(0, tok("a"), fins, done))}}
	served := make(chan struct{})
	go func() { defer close(served); _ = s.serve(l) }()
	for _, base := range []string{":", ":/", ":/v1", ":/gw/v1"} {
		c := &client.Client{BaseURL: "http://unix:" + path + base}
		ex := c.Do(t.Context(), chatRequest(t))
		require.True(t, ex.OK, "%v", ex.Error)
		require.Equal(t, "a", ex.Text)
		c.CloseIdleConnections()
	}
	l.Close()
	<-served
}

func TestUnknownTransport(t *testing.T) {
	noLeaks(t)
	_, err := client.NamedTransport("h3", nil)
	require.EqualError(t, err, `unknown transport "h3": choose one of h1, net/http`)
}
