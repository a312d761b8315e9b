//go:build unix

package h1

import (
	"os"
	"syscall"
)

func (s *socket) useRaw(c syscall.Conn) {
	raw, err := c.SyscallConn()
	if err != nil {
		return
	}
	s.raw = raw
	s.in.try, s.in.look, s.in.send = s.tryRead, s.tryPeek, s.trySend
}

// tryRead reads if there is something to read, and reports whether there was. It
// is the one place where bytes leave the kernel of systems with descriptors.
func (s *socket) tryRead(fd uintptr) bool {
	dst := s.in.dst
	var taken *buffer
	if s.in.lazy {
		taken = getBuffer()
		dst = taken[:]
	}
	n, kernel, err := s.kernel.read(int(fd), dst)
	for err == syscall.EINTR {
		n, kernel, err = s.kernel.read(int(fd), dst)
	}
	if err == syscall.EAGAIN {
		putBuffer(taken)
		return false
	}
	s.take(n, kernel)
	if err != nil {
		err, n = os.NewSyscallError("read", err), 0
	}
	if n == 0 {
		putBuffer(taken)
		taken = nil
	}
	s.in.n, s.in.err, s.in.buf = n, err, taken
	return true
}

// peek looks at an idle connection without waiting: whether bytes are there, and
// whether it has ended.
func (s *socket) peek() (pending, ended bool) {
	s.in.pending, s.in.ended = false, false
	if err := s.raw.Read(s.in.look); err != nil {
		return false, true
	}
	return s.in.pending, s.in.ended
}

func (s *socket) tryPeek(fd uintptr) bool {
	n, err := look(int(fd), &s.in.one)
	for err == syscall.EINTR {
		n, err = look(int(fd), &s.in.one)
	}
	switch {
	case err == syscall.EAGAIN:
	case err != nil || n == 0:
		s.in.ended = true
	default:
		s.in.pending = true
	}
	return true // in any case: there is no waiting
}

// trySend writes until nothing is left or the socket takes no more, and reports
// whether it need not wait.
func (s *socket) trySend(fd uintptr) bool {
	for len(s.in.out) > 0 {
		n, err := send(int(fd), s.in.out)
		switch {
		case err == syscall.EINTR:
		case err == syscall.EAGAIN:
			return false
		case err != nil:
			s.in.fail = os.NewSyscallError("write", err)
			return true
		default:
			s.in.out = s.in.out[n:]
		}
	}
	return true
}
