package h1

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/tokpace/pkg/memnet"
)

// variety answers the k-th request in the k-th way, so that one connection sees
// all kinds of framing.
func variety(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	k, _ := strconv.Atoi(r.URL.Query().Get("k"))
	answer := reply(k, len(body))
	switch k % 5 {
	case 0: // sized
		w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
		_, _ = io.WriteString(w, answer)
	case 1: // chunked, flushed in pieces
		for piece := range strings.SplitAfterSeq(answer, ";") {
			_, _ = io.WriteString(w, piece)
			_ = http.NewResponseController(w).Flush()
		}
	case 2: // no body
		w.WriteHeader(http.StatusNoContent)
	case 3: // large
		_, _ = io.WriteString(w, answer)
		_, _ = w.Write(make([]byte, 50_000))
	case 4: // chunked with a trailer
		w.Header().Set("Trailer", "X-Sum")
		_, _ = io.WriteString(w, answer)
		_ = http.NewResponseController(w).Flush()
		w.Header().Set("X-Sum", "1")
	}
}

func reply(k, n int) string { return fmt.Sprintf("request %d; had %d bytes;", k, n) }

// exchangeVariety sends the k-th request and checks its answer.
func exchangeVariety(t *testing.T, tr *Transport, url string, k int) error {
	body := strings.Repeat("x", []int{0, 10, 2000, 70_000}[k%4])
	req, err := http.NewRequestWithContext(t.Context(), "POST", fmt.Sprintf("%s?k=%d", url, k), strings.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := tr.RoundTrip(req)
	if err != nil {
		return fmt.Errorf("request %d: %w", k, err)
	}
	defer resp.Body.Close()
	data, err := readBy(resp.Body, []int{16 << 10, 512, 4096}[k%3])
	if err != nil {
		return fmt.Errorf("request %d: %w", k, err)
	}
	want := reply(k, len(body))
	switch k % 5 {
	case 2:
		want = ""
	case 3:
		want += string(make([]byte, 50_000))
	}
	if string(data) != want {
		return fmt.Errorf("request %d: %d bytes, %.100q", k, len(data), data)
	}
	return nil
}

func TestSequentialRequests(t *testing.T) {
	n := 20_000
	if raceEnabled || testing.Short() {
		n = 1000
	}
	l := memnet.Listen()
	srv := &http.Server{Handler: http.HandlerFunc(variety)}
	go func() { _ = srv.Serve(l) }()
	defer srv.Close()
	dials := 0
	tr := &Transport{Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
		dials++
		return l.DialContext(ctx, network, addr)
	}}
	defer tr.CloseIdleConnections()
	for k := range n {
		require.NoError(t, exchangeVariety(t, tr, memURL, k))
	}
	require.Equal(t, 1, dials)
}

func TestRequestsOverSockets(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			l, url := listen(t, network)
			srv := &http.Server{Handler: http.HandlerFunc(variety)}
			served := make(chan struct{})
			go func() { defer close(served); _ = srv.Serve(l) }()
			defer func() { srv.Close(); <-served }()
			tr := &Transport{}
			defer tr.CloseIdleConnections()
			for k := range 2000 {
				require.NoError(t, exchangeVariety(t, tr, url, k))
			}
			require.Equal(t, 1, idle(tr))
			// Then from many goroutines.
			var wg sync.WaitGroup
			for g := range 16 {
				wg.Go(func() {
					for k := range 50 {
						if err := exchangeVariety(t, tr, url, g+k); err != nil {
							t.Error(err)
						}
					}
				})
			}
			wg.Wait()
		})
	}
}

func tlsServer(t *testing.T) (*httptest.Server, *Transport) {
	t.Helper()
	srv := httptest.NewUnstartedServer(http.HandlerFunc(variety))
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.StartTLS()
	tr := &Transport{TLS: srv.Client().Transport.(*http.Transport).TLSClientConfig}
	t.Cleanup(func() {
		tr.CloseIdleConnections()
		srv.Close()
	})
	return srv, tr
}

func TestTLS(t *testing.T) {
	srv, tr := tlsServer(t)
	for k := range 200 {
		require.NoError(t, exchangeVariety(t, tr, srv.URL, k))
	}
	require.Equal(t, 1, idle(tr))
	resp, err := tr.RoundTrip(newRequest(t, "GET", srv.URL+"?k=2", ""))
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.NotNil(t, resp.TLS)
	require.Equal(t, "http/1.1", resp.TLS.NegotiatedProtocol)
}

func TestTLSFailures(t *testing.T) {
	srv, _ := tlsServer(t)
	for name, c := range map[string]struct {
		config *tls.Config
		url    string
	}{
		"unknown authority": {nil, srv.URL},
		"another name":      {&tls.Config{RootCAs: srv.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs, ServerName: "other.invalid"}, srv.URL},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := (&Transport{TLS: c.config}).RoundTrip(newRequest(t, "GET", c.url, ""))
			var connect *ConnectError
			require.ErrorAs(t, err, &connect)
		})
	}
	plain := httptest.NewServer(http.HandlerFunc(variety))
	defer plain.Close()
	_, err := (&Transport{}).RoundTrip(newRequest(t, "GET", strings.Replace(plain.URL, "http:", "https:", 1), ""))
	var connect *ConnectError
	require.ErrorAs(t, err, &connect)
}

// The hooks that net/http calls are called. Its order is not certain: it calls them
// from several goroutines.
func TestTraceHooks(t *testing.T) {
	srv, tr := tlsServer(t)
	theirs := srv.Client().Transport.(*http.Transport).Clone()
	defer theirs.CloseIdleConnections()
	addr := strings.TrimPrefix(srv.URL, "https://")
	want := []string{
		"GetConn " + addr, "ConnectStart tcp " + addr, "ConnectDone tcp " + addr + " <nil>",
		"TLSHandshakeStart", "TLSHandshakeDone true <nil>", "GotConn true false false", "WroteRequest <nil>", "GotFirstResponseByte",
		"GetConn " + addr, "GotConn true true true", "WroteRequest <nil>", "GotFirstResponseByte",
	}
	for _, length := range []int{10, 100_000} {
		tr.CloseIdleConnections()
		calls := traced(t, tr, srv.URL, length, len(want))
		require.ElementsMatch(t, want, calls)
		if length <= smallRequest {
			require.Equal(t, want, calls)
		}
	}
	require.ElementsMatch(t, want, traced(t, theirs, srv.URL, 10, len(want)))
}

// traced sends two requests one after the other, and returns the n calls of hooks.
func traced(t *testing.T, rt http.RoundTripper, url string, length, n int) []string {
	t.Helper()
	var (
		mu  sync.Mutex
		all []string
	)
	note := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, fmt.Sprintf(format, args...))
	}
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		GetConn:              func(addr string) { note("GetConn %s", addr) },
		GotConn:              func(i httptrace.GotConnInfo) { note("GotConn %v %v %v", i.Conn != nil, i.Reused, i.WasIdle) },
		ConnectStart:         func(network, addr string) { note("ConnectStart %s %s", network, addr) },
		ConnectDone:          func(network, addr string, err error) { note("ConnectDone %s %s %v", network, addr, err) },
		TLSHandshakeStart:    func() { note("TLSHandshakeStart") },
		TLSHandshakeDone:     func(s tls.ConnectionState, err error) { note("TLSHandshakeDone %v %v", s.HandshakeComplete, err) },
		WroteRequest:         func(i httptrace.WroteRequestInfo) { note("WroteRequest %v", i.Err) },
		GotFirstResponseByte: func() { note("GotFirstResponseByte") },
	})
	for range 2 {
		req, err := http.NewRequestWithContext(ctx, "POST", url+"?k=0", bytes.NewReader(make([]byte, length)))
		require.NoError(t, err)
		resp, err := rt.RoundTrip(req)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, resp.Body)
		require.NoError(t, err)
		resp.Body.Close()
	}
	require.Eventually(t, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(all) == n
	}, 5*time.Second, time.Millisecond)
	return all
}

func TestConnectErrors(t *testing.T) {
	for _, url := range []string{"http://127.0.0.1:1/", "http://unix:/nowhere/at/all.sock:/", "https://127.0.0.1:1/"} {
		_, err := (&Transport{}).RoundTrip(newRequest(t, "POST", url, "x"))
		var connect *ConnectError
		require.ErrorAs(t, err, &connect)
		var op *net.OpError
		require.ErrorAs(t, err, &op)
		require.Equal(t, "dial", op.Op)
	}
}
