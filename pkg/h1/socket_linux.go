package h1

import (
	"sync"
	"syscall"
	"unsafe"
)

// A kernelStamp reads a TCP socket and asks the kernel when the bytes arrived.
type kernelStamp struct {
	asked bool
	receiver
	// note is the one control message that comes with a read. It lives here so
	// that a read allocates nothing.
	note struct {
		header syscall.Cmsghdr
		time   syscall.Timespec
	}
}

// askKernel makes the kernel stamp what arrives from now on, if it can.
func (s *socket) askKernel() {
	if s.raw == nil {
		return
	}
	holdStamps()
	_ = s.raw.Control(func(fd uintptr) { s.kernel.asked = askFor(int(fd)) == nil })
}

func askFor(fd int) error {
	return syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_TIMESTAMPNS, 1)
}

// holdStamps opens a socket that asks for stamps and does nothing else. Linux stamps
// while any socket of the machine asks, and begins some time (a millisecond, when it is
// busy) after the first one did. So only the first reads of a process may have none.
var holdStamps = sync.OnceFunc(func() {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
	if err == nil {
		_ = askFor(fd)
	}
})

// read reads once. stamp is the arrival of the last segment that bytes were taken
// from, in nanoseconds of the wall clock, 0 when the kernel does not say.
func (k *kernelStamp) read(fd int, p []byte) (n int, stamp int64, err error) {
	if !k.asked {
		n, err = syscall.Read(fd, p)
		return n, 0, err
	}
	const size = int(unsafe.Sizeof(k.note))
	n, noted, err := k.receive(fd, p, unsafe.Pointer(&k.note), size)
	if err == nil {
		acquire(fd)
	}
	h := &k.note.header
	if err == nil && noted >= size && h.Level == syscall.SOL_SOCKET && h.Type == syscall.SCM_TIMESTAMPNS {
		stamp = k.note.time.Nano()
	}
	return n, stamp, err
}
