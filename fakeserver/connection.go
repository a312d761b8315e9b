package fakeserver

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// connKey is the key under which a request's context holds its *connection.
type connKey struct{}

// connection is a connection that net/http serves, and what faults do to it behind net/http's back.
type connection struct {
	net.Conn

	mu     sync.Mutex
	idle   time.Duration // close when idle for so long; -1 = never
	timer  *time.Timer
	closed bool
	entry  *entry // of the request that asked for it
}

// ConnContext makes the connection known to the handler. It is for an http.Server of the caller's own that serves
// Handler: without it, faults that need the connection itself (a reset, broken HTTP, closing an idle connection) are
// answered 500. Serve needs no such help.
//
// Closing idle connections also needs the server's ConnState to be Server.ConnState.
func (s *Server) ConnContext(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, &connection{Conn: c, idle: -1})
}

// connectionOf returns the connection of a request, nil if it is not known or not the request's own, as in HTTP/2.
func connectionOf(r *http.Request) *connection {
	if r.ProtoMajor != 1 {
		return nil
	}
	c, _ := r.Context().Value(connKey{}).(*connection)
	return c
}

// ConnState follows connections that a fault closes when they are idle. See ConnContext.
func (s *Server) ConnState(c net.Conn, state http.ConnState) {
	v, ok := s.idling.Load(c)
	if !ok {
		return
	}
	own := v.(*connection)
	switch state {
	case http.StateIdle:
		own.whenIdle()
	case http.StateActive:
		own.stop()
	case http.StateClosed, http.StateHijacked:
		own.stop()
		s.idling.Delete(c)
	}
}

// closeWhenIdle arms the connection: it is closed d after its answer unless another request comes first.
func (s *Server) closeWhenIdle(c *connection, d time.Duration, e *entry) {
	c.mu.Lock()
	c.idle, c.entry = d, e
	c.mu.Unlock()
	s.idling.Store(c.Conn, c)
}

func (c *connection) whenIdle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.idle < 0 || c.closed:
	case c.idle == 0:
		c.closeLocked()
	default:
		c.timer = time.AfterFunc(c.idle, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			if c.idle >= 0 && c.timer != nil {
				c.closeLocked()
			}
		})
	}
}

func (c *connection) closeLocked() {
	c.closed = true
	c.entry.closeIdle(c.idle)
	c.Close()
}

func (c *connection) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle = -1
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
}

// gone reports whether the connection was closed while it was idle: a request that was read from it nevertheless has
// come too late, and no server would know of it.
func (c *connection) gone() bool {
	if c == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// reset makes the close that follows a reset.
func (c *connection) reset() {
	under := c.Conn
	if tls, ok := under.(interface{ NetConn() net.Conn }); ok {
		under = tls.NetConn()
	}
	switch conn := under.(type) {
	case interface{ Reset() }: // in memory
		conn.Reset()
	case interface{ SetLinger(int) error }: // TCP
		conn.SetLinger(0)
	}
}
