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
	s.in.try, s.in.look = s.tryRead, s.tryPeek
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
	n, err := retry(func() (int, error) {
		n, _, err := syscall.Recvfrom(int(fd), s.in.one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		return n, err
	})
	switch {
	case err == syscall.EAGAIN:
	case err != nil || n == 0:
		s.in.ended = true
	default:
		s.in.pending = true
	}
	return true // in any case: there is no waiting
}

// retry calls f again when a signal interrupted it.
func retry(f func() (int, error)) (int, error) {
	for {
		n, err := f()
		if err != syscall.EINTR {
			return n, err
		}
	}
}
