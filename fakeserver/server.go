package fakeserver

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const (
	readHeaderTimeout = 10 * time.Second
	closeTimeout      = 5 * time.Second // how long Close waits for connections
)

// Server is a fake inference server. Make one with New or Start. All methods may be called from many goroutines.
type Server struct {
	// URL is the base URL of a server made by Start, without a slash at its end. Set it by hand for one that serves
	// another listener.
	URL string

	state   atomic.Pointer[state]
	http    http.Server
	client  http.Client
	cancel  context.CancelFunc
	closed  atomic.Bool
	live    live
	idling  sync.Map // net.Conn -> *connection, of those that are closed when idle
	journal journal
	stats   stats
}

// New returns a server that listens nowhere yet: use Handler or Serve. An error names the bad field.
//
// For a testing/synctest bubble it must be made inside the bubble.
func New(cfg Config) (*Server, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	s := &Server{}
	s.state.Store(newState(cfg))
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	s.http = http.Server{
		Handler:           s.Handler(),
		ReadHeaderTimeout: readHeaderTimeout, // and no write timeout, which would cut long streams
		ErrorLog:          log.New(io.Discard, "", 0),
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ConnState:         s.connState,
		ConnContext:       s.ConnContext,
	}
	// Proxies from the environment are not used; as many idle connections are kept as a test may open.
	s.client.Transport = &http.Transport{MaxIdleConnsPerHost: 1024, DisableCompression: true}
	return s, nil
}

// Configure replaces the whole configuration, rules and their counts included, for the requests that come from now on; those
// being answered keep theirs. A bad cfg changes nothing; the error names the field.
func (s *Server) Configure(cfg Config) error {
	if err := cfg.check(); err != nil {
		return err
	}
	s.state.Store(newState(cfg))
	return nil
}

// Start serves on a loopback TCP port until the test or benchmark ends. A bad cfg, or no port, is fatal.
func Start(tb testing.TB, cfg Config) *Server {
	tb.Helper()
	s, err := New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatalf("fakeserver: %v", err)
	}
	s.URL = "http://" + l.Addr().String()
	tb.Cleanup(func() { s.Close() })
	s.live.enter()
	go func() {
		defer s.live.leave()
		s.Serve(l)
	}()
	return s
}

// connState counts connections. A connection's goroutine is its handler's, and it is closed as the last thing it does.
func (s *Server) connState(c net.Conn, state http.ConnState) {
	s.ConnState(c, state)
	switch state {
	case http.StateNew:
		s.live.enter()
	case http.StateClosed, http.StateHijacked:
		s.live.leave()
	}
}

// Client returns a client for URL. It does not ask for compression and uses no proxy; Close closes its idle connections.
func (s *Server) Client() *http.Client { return &s.client }

// Handler returns the server as a handler, for a server of the caller's own. Close and Shutdown do not end what it
// serves. Where an answer does not come to its proper end it panics with http.ErrAbortHandler, as net/http asks for.
func (s *Server) Handler() http.Handler { return http.HandlerFunc(s.serve) }

// Serve accepts connections from l until Close or Shutdown, after which it returns nil, or until l fails. It closes l.
// Several listeners may be served at once.
func (s *Server) Serve(l net.Listener) error {
	s.live.enter()
	defer s.live.leave()
	if err := s.http.Serve(l); err != http.ErrServerClosed {
		return fmt.Errorf("fakeserver: %w", err)
	}
	return nil
}

// Shutdown stops accepting, lets running requests end and returns when they have, or ctx.Err() when ctx ends first (then
// call Close).
func (s *Server) Shutdown(ctx context.Context) error {
	s.client.CloseIdleConnections()
	return s.http.Shutdown(ctx)
}

// Close ends all connections, idle and active, and returns when the handlers, the connections and Serve have ended; an
// error means that they had not after five seconds. It may be called more than once. The journal can still be read.
func (s *Server) Close() error {
	s.closed.Store(true)
	s.cancel()
	s.http.Close() // its error is that of a listener closed twice
	s.client.CloseIdleConnections()
	if !s.live.wait(closeTimeout) {
		return fmt.Errorf("fakeserver: connections are still open %v after Close", closeTimeout)
	}
	return nil
}

// Journal returns the records of the last requests (at most 4096, fewer if they have very many events), oldest first,
// running ones included. The copy is the caller's.
//
// A client can have read a whole answer a moment before its record says Complete; Close waits for that.
func (s *Server) Journal() []Record { return s.journal.snapshot() }

// Reset empties the journal, so that the next request has Index 0, and sets the counts of the rules to 0.
func (s *Server) Reset() {
	s.journal.reset()
	s.state.Load().rules.reset()
}

// live counts goroutines: one for each connection and each Serve. Unlike a sync.WaitGroup it can be waited for with a limit and entered while waiting.
type live struct {
	mu   sync.Mutex
	n    int
	zero chan struct{} // closed when n falls to 0; nil = nobody waits
}

func (l *live) enter() {
	l.mu.Lock()
	l.n++
	l.mu.Unlock()
}

func (l *live) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.n--; l.n == 0 && l.zero != nil {
		close(l.zero)
		l.zero = nil
	}
}

// wait reports whether n fell to 0 within d.
func (l *live) wait(d time.Duration) bool {
	l.mu.Lock()
	if l.n == 0 {
		l.mu.Unlock()
		return true
	}
	if l.zero == nil {
		l.zero = make(chan struct{})
	}
	zero := l.zero
	l.mu.Unlock()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-zero:
		return true
	case <-timer.C:
		return false
	}
}
