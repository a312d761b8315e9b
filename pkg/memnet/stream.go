package memnet

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// stream is one direction of a connection: a bounded buffer between the
// writing end and the reading end.
type stream struct {
	mu sync.Mutex // never held while blocked: that would stop virtual time

	// Either is broadcast at any change that may let its waiters go on.
	readable, writable sync.Cond

	buf      ring
	writing  bool // a Write is between its first and last byte
	finished bool // the writing end sends no more
	broken   bool // reset by either end

	readerClosed, writerClosed  bool
	readDeadline, writeDeadline deadline
}

func (s *stream) init() {
	s.readable.L = &s.mu
	s.writable.L = &s.mu
}

func (s *stream) read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case s.readerClosed:
			return 0, net.ErrClosed
		case len(p) == 0:
			return 0, nil
		case s.readDeadline.expired:
			return 0, os.ErrDeadlineExceeded
		case s.broken:
			return 0, syscall.ECONNRESET
		case s.buf.n > 0:
			n := s.buf.read(p)
			s.writable.Broadcast()
			return n, nil
		case s.finished:
			return 0, io.EOF
		}
		s.readable.Wait()
	}
}

func (s *stream) write(p []byte) (n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.writing && s.writeError() == nil {
		s.writable.Wait()
	}
	if err := s.writeError(); err != nil {
		return 0, err
	}
	s.writing = true
	defer func() {
		s.writing = false
		s.writable.Broadcast()
	}()
	for {
		if m := s.buf.write(p[n:]); m > 0 {
			n += m
			s.readable.Broadcast()
		}
		if n == len(p) {
			return n, nil
		}
		s.writable.Wait()
		if err := s.writeError(); err != nil {
			return n, err
		}
	}
}

// writeError tells why nothing can be written now or later.
func (s *stream) writeError() error {
	switch {
	case s.writerClosed:
		return net.ErrClosed
	case s.writeDeadline.expired:
		return os.ErrDeadlineExceeded
	case s.broken:
		return syscall.ECONNRESET
	case s.finished, s.readerClosed:
		return syscall.EPIPE
	}
	return nil
}

// finish ends the direction; what is buffered can still be read.
func (s *stream) finish() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.writerClosed {
		return net.ErrClosed
	}
	s.finished = true
	s.wake()
	return nil
}

// closeWriter closes the writing end and reports whether it was open. A hard
// close drops what is buffered and is an error for the reading end.
func (s *stream) closeWriter(hard bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.writerClosed {
		return false
	}
	s.writerClosed = true
	s.finished = true
	s.writeDeadline.stop()
	if hard {
		s.broken = true
		s.buf = ring{}
	}
	s.wake()
	return true
}

// closeReader closes the reading end and drops what is buffered. A hard close
// is a reset for the writing end, any other a broken pipe.
func (s *stream) closeReader(hard bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.readerClosed = true
	s.broken = s.broken || hard
	s.buf = ring{}
	s.readDeadline.stop()
	s.wake()
}

func (s *stream) setReadDeadline(t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.readerClosed {
		return net.ErrClosed
	}
	s.readDeadline.set(t, &s.readable)
	return nil
}

func (s *stream) setWriteDeadline(t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.writerClosed {
		return net.ErrClosed
	}
	s.writeDeadline.set(t, &s.writable)
	return nil
}

func (s *stream) wake() {
	s.readable.Broadcast()
	s.writable.Broadcast()
}
