package client

import (
	"context"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync"
	"time"

	"example.com/tokpace/pkg/api"
	"example.com/tokpace/pkg/sse"
)

// warmTimeout bounds Warm when a server accepts fewer connections than asked.
const warmTimeout = 10 * time.Second

// Warm opens n connections and leaves them idle, and makes the buffers for n
// exchanges at once, so that the first exchanges of a run count the making of
// neither. It sends n GET requests for
// path, and holds each at its connection until all n have one; what the server
// answers does not matter. A server that cannot be reached is no error here: the
// exchanges will say so.
func (c *Client) Warm(ctx context.Context, n int, path string) {
	c.once.Do(c.init)
	sse.Reserve(n)
	recorders.Reserve(n)
	pieces.Reserve(min(n, 64))
	url, err := api.JoinURL(c.BaseURL, path)
	if err != nil {
		return
	}
	limit := warmTimeout
	if c.Timeout > 0 {
		limit = min(limit, c.Timeout)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if t, ok := c.transport.(interface {
		Warm(ctx context.Context, url string, n int) error
	}); ok && t.Warm(ctx, url, n) != nil {
		return
	}
	// A connection that was opened is not one that the server has accepted: the
	// request sees to that, and to what the server sets up with the first one.
	var (
		mu      sync.Mutex
		waiting = n
		all     = make(chan struct{})
		wg      sync.WaitGroup
	)
	arrive := func(k int) {
		mu.Lock()
		defer mu.Unlock()
		if waiting > 0 {
			if waiting -= k; waiting <= 0 {
				close(all)
			}
		}
	}
	for range n {
		wg.Go(func() {
			req, err := c.get(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
				GotConn: func(httptrace.GotConnInfo) {
					arrive(1)
					select {
					case <-all:
					case <-ctx.Done():
					}
				},
			}), url)
			if err == nil {
				var resp *http.Response
				if resp, err = c.transport.RoundTrip(req); err == nil {
					_, _ = io.CopyN(io.Discard, resp.Body, drain)
					resp.Body.Close()
				}
			}
			if err != nil {
				arrive(n) // nobody waits for a connection that will not come
			}
		})
	}
	wg.Wait()
}
