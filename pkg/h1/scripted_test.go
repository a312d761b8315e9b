package h1

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/tokpace/pkg/memnet"
)

// A step is bytes that a scripted server writes so many milliseconds after it
// has read the request.
type step struct {
	ms   int
	data string
}

// A scripted server answers each request with the same steps, and closes its
// connections after the last one if asked to.
type scripted struct {
	steps  []step
	close  bool
	unread bool // answer without reading the request's body

	mu    sync.Mutex
	conns []net.Conn
	gone  int // connections that the client has closed
}

func (s *scripted) serve(l net.Listener) {
	var wg sync.WaitGroup
	for {
		c, err := l.Accept()
		if err != nil {
			break
		}
		s.mu.Lock()
		s.conns = append(s.conns, c)
		s.mu.Unlock()
		wg.Go(func() {
			defer c.Close()
			s.answer(c)
		})
	}
	s.mu.Lock()
	for _, c := range s.conns {
		c.Close()
	}
	s.mu.Unlock()
	wg.Wait()
}

func (s *scripted) answer(c net.Conn) {
	r := bufio.NewReader(c)
	for {
		req, err := http.ReadRequest(r)
		if err == nil && !s.unread {
			_, err = io.Copy(io.Discard, req.Body)
		}
		if err != nil {
			s.mu.Lock()
			s.gone++
			s.mu.Unlock()
			return
		}
		start := time.Now()
		for _, st := range s.steps {
			time.Sleep(time.Until(start.Add(time.Duration(st.ms) * time.Millisecond)))
			if _, err := io.WriteString(c, st.data); err != nil {
				break
			}
		}
		if s.close {
			return
		}
	}
}

func (s *scripted) count() (conns, gone int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns), s.gone
}

// inBubble runs f with a transport to a scripted server, in virtual time.
func inBubble(t *testing.T, s *scripted, f func(t *testing.T, tr *Transport)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := memnet.Listen()
		served := make(chan struct{})
		go func() {
			defer close(served)
			s.serve(l)
		}()
		tr := &Transport{Dial: l.DialContext}
		defer func() {
			tr.CloseIdleConnections()
			l.Close()
			<-served
		}()
		f(t, tr)
	})
}

// onTCP is inBubble on loopback sockets and real time.
func onTCP(t *testing.T, serve func(net.Listener), f func(t *testing.T, tr *Transport, url string)) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		serve(l)
	}()
	tr := &Transport{}
	defer func() {
		tr.CloseIdleConnections()
		l.Close()
		<-served
	}()
	f(t, tr, "http://"+l.Addr().String()+"/")
}

const memURL = "http://mem.invalid/"

// idle is the number of a transport's idle connections.
func idle(tr *Transport) int {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return tr.idle
}
