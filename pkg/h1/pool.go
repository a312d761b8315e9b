package h1

import (
	"context"
	"net/url"
	"sync"
	"time"
)

// warmers is how many connections Warm opens at a time: more would overflow the
// queue of servers that accept slowly, and an overflow costs a second.
const warmers = 64

// Warm opens connections to the host of a URL until n are idle, and leaves them
// so. On an error those that were opened stay.
func (t *Transport) Warm(ctx context.Context, rawURL string, n int) error {
	bufferPool.Reserve(n)
	smallPool.Reserve(n)
	heads.Reserve(n)
	u, err := url.Parse(rawURL)
	if err != nil {
		return &RequestError{err}
	}
	h, _, err := t.find(u)
	if err != nil {
		return &RequestError{err}
	}
	t.mu.Lock()
	missing := n - len(h.idle)
	t.mu.Unlock()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		wg   sync.WaitGroup
		free = make(chan struct{}, warmers)
	)
	for range missing {
		free <- struct{}{}
		wg.Go(func() {
			defer func() { <-free }()
			c, err := t.connect(ctx, h, nil)
			if err != nil {
				cancel(err)
				return
			}
			t.put(c)
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// CloseIdleConnections closes the connections that no request uses.
func (t *Transport) CloseIdleConnections() {
	t.mu.Lock()
	var all []*conn
	for _, h := range t.hosts {
		all = append(all, h.idle...)
		h.idle = nil
	}
	t.idle = 0
	if t.reaper != nil {
		t.reaper.Stop()
		t.armed = false
	}
	t.mu.Unlock()
	for _, c := range all {
		c.close()
	}
}

// take returns an idle connection, nil when there is none. Those that the server
// has closed meanwhile are dropped, where that can be seen. deadline is the exchange's.
func (t *Transport) take(h *host, deadline time.Time) *conn {
	for {
		t.mu.Lock()
		last := len(h.idle) - 1
		if last < 0 {
			t.mu.Unlock()
			return nil
		}
		c := h.idle[last]
		h.idle[last] = nil
		h.idle = h.idle[:last]
		t.idle--
		t.mu.Unlock()
		c.setDeadline(deadline) // that of the exchange before may have passed
		if c.sock.usable(c.secure()) {
			return c
		}
		c.close()
	}
}

// put makes a connection idle.
func (t *Transport) put(c *conn) {
	c.pooled = true
	c.since = time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	c.host.idle = append(c.host.idle, c)
	t.idle++
	if timeout := t.idleTimeout(); timeout > 0 && !t.armed {
		t.arm(timeout)
	}
}

// arm makes the reaper run after d. One timer serves all connections, and is
// touched once an idle time-out and not once a request.
func (t *Transport) arm(d time.Duration) {
	t.armed = true
	if t.reaper == nil {
		t.reaper = time.AfterFunc(d, t.reap)
		return
	}
	t.reaper.Reset(d)
}

// reap closes what was idle for too long.
func (t *Transport) reap() {
	t.mu.Lock()
	now, timeout := time.Now(), t.idleTimeout()
	next := timeout
	var old []*conn
	for _, h := range t.hosts {
		n := 0
		for n < len(h.idle) && now.Sub(h.idle[n].since) >= timeout {
			n++
		}
		old = append(old, h.idle[:n]...)
		kept := copy(h.idle, h.idle[n:])
		clear(h.idle[kept:])
		h.idle = h.idle[:kept]
		if kept > 0 {
			next = min(next, timeout-now.Sub(h.idle[0].since))
		}
	}
	t.idle -= len(old)
	t.armed = false
	if t.idle > 0 {
		t.arm(next)
	}
	t.mu.Unlock()
	for _, c := range old {
		c.close()
	}
}
