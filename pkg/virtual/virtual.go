// Package virtual runs a client against a fake server in virtual time, so that
// tests can demand equality of every latency instead of tolerating a range. It
// joins fakeserver, client and memnet inside a testing/synctest bubble: the
// clock jumps to the next deadline whenever all goroutines wait, and computing
// takes no time at all.
//
//	func TestFirstToken(t *testing.T) {
//		cfg := fakeserver.Config{TTFT: 137 * time.Millisecond, ITL: 7 * time.Millisecond}
//		virtual.Run(t, cfg, func(t *testing.T, c *client.Client) {
//			ex := c.Do(t.Context(), request)
//			require.Equal(t, 137*time.Millisecond, ex.TTFT.V)
//		})
//	}
//
// Real sockets must not be used inside: waiting for them does not count as
// waiting, and time stands still.
package virtual

import (
	"net"
	"testing"
	"testing/synctest"

	"example.com/tokpace/fakeserver"
	"example.com/tokpace/pkg/client"
	"example.com/tokpace/pkg/h1"
	"example.com/tokpace/pkg/memnet"
	"example.com/tokpace/pkg/tokens"
)

// BaseURL is the base URL of clients in virtual time; the host is never
// resolved.
const BaseURL = "http://fake.invalid"

// Run starts a fake server of cfg in a bubble, calls f with a client of it, and
// takes both down again. A configuration error fails the test.
func Run(t *testing.T, cfg fakeserver.Config, f func(t *testing.T, c *client.Client)) {
	t.Helper()
	RunServer(t, cfg, func(t *testing.T, c *client.Client, _ *fakeserver.Server) { f(t, c) })
}

// RunServer is Run for tests that also look at the server, at its journal for
// example.
func RunServer(t *testing.T, cfg fakeserver.Config, f func(t *testing.T, c *client.Client, srv *fakeserver.Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		// What waits must have been made inside the bubble.
		srv, err := fakeserver.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer srv.Close()
		serve(t, srv.Serve, func(c *client.Client) { f(t, c, srv) })
	})
}

// Serve is Run for any server: serve is called inside the bubble and answers on
// the listener until that is closed. The error it then returns is not looked at.
func Serve(t *testing.T, serveOn func(net.Listener) error, f func(t *testing.T, c *client.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		serve(t, serveOn, func(c *client.Client) { f(t, c) })
	})
}

func serve(t *testing.T, serveOn func(net.Listener) error, f func(c *client.Client)) {
	t.Helper()
	l := memnet.Listen()
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = serveOn(l)
	}()
	c := &client.Client{
		BaseURL:     BaseURL,
		Transport:   &h1.Transport{Dial: l.DialContext},
		CountTokens: tokens.Count,
	}
	defer func() {
		c.CloseIdleConnections()
		l.Close()
		<-served
	}()
	f(c)
}
