package h1

import (
	"io"
	"net"
	"sync"
	"syscall"
)

// A socket is the lowest layer of a connection, below TLS: every byte that
// arrives passes through its two reads, and gets its time there.
type socket struct {
	net.Conn
	stamps

	// raw reads the descriptor itself; nil where there is none. It lets a read
	// wait without a buffer in its hands.
	raw syscall.RawConn
	in  transfer
	// writing: an upload writes on a goroutine of its own, and TLS may as well.
	writing sync.Mutex
	kernel  kernelStamp
}

// A transfer is one read of the descriptor in progress. It lives in the socket
// so that a read allocates nothing.
type transfer struct {
	dst  []byte
	lazy bool // take a buffer when there is something to read
	n    int
	err  error
	buf  *buffer // what was taken
	try  func(fd uintptr) bool

	pending, ended bool // what peek saw
	look           func(fd uintptr) bool
	one            [1]byte

	out  []byte // what is to be written yet
	fail error
	send func(fd uintptr) bool
}

func newSocket(c net.Conn, clock func() moment) *socket {
	if clock == nil {
		clock = now
	}
	s := &socket{Conn: c, stamps: newStamps(clock)}
	switch c := c.(type) {
	// Only what surely reads its descriptor and does nothing else: a type that
	// embeds one of these may have a Read of its own.
	case *net.TCPConn:
		s.useRaw(c)
		s.askKernel()
	case *net.UnixConn:
		s.useRaw(c)
	}
	return s
}

// Read waits for bytes and reads once.
func (s *socket) Read(p []byte) (int, error) {
	if s.raw != nil && len(p) > 0 {
		s.in.dst, s.in.lazy = p, false
		return s.receive()
	}
	n, err := s.Conn.Read(p)
	s.take(n, 0)
	return n, err
}

// readBuffer waits for bytes, then takes a buffer and reads once. Only sockets
// with raw can. The buffer is nil when nothing was read.
func (s *socket) readBuffer() (*buffer, int, error) {
	s.in.lazy = true
	n, err := s.receive()
	b := s.in.buf
	s.in.buf = nil
	return b, n, err
}

func (s *socket) receive() (int, error) {
	s.in.n, s.in.err = 0, nil
	err := s.raw.Read(s.in.try)
	s.in.dst = nil
	switch {
	case err != nil: // closed, or past the deadline
		return 0, err
	case s.in.err != nil:
		return 0, &net.OpError{Op: "read", Net: s.LocalAddr().Network(), Source: s.LocalAddr(), Addr: s.RemoteAddr(), Err: s.in.err}
	case s.in.n == 0:
		return 0, io.EOF
	}
	return s.in.n, nil
}

// Write writes all of p.
func (s *socket) Write(p []byte) (int, error) {
	if s.raw == nil || len(p) == 0 {
		return s.Conn.Write(p)
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	s.in.out, s.in.fail = p, nil
	err := s.raw.Write(s.in.send)
	n := len(p) - len(s.in.out)
	s.in.out = nil
	if err == nil && s.in.fail != nil {
		err = &net.OpError{Op: "write", Net: s.LocalAddr().Network(), Source: s.LocalAddr(), Addr: s.RemoteAddr(), Err: s.in.fail}
	}
	return n, err
}

// usable reports whether an idle connection can carry a request: the server has
// not closed it and has sent nothing unasked. Under TLS there may be records that
// are no answer, session tickets above all. Where it cannot be seen, it is taken to
// be so.
func (s *socket) usable(secure bool) bool {
	if s.raw == nil {
		return true
	}
	pending, ended := s.peek()
	return !ended && (secure || !pending)
}
