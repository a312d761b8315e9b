//go:build linux && (amd64 || arm64) && !race

package h1

import (
	"syscall"
	"unsafe"
)

// A receiver is what recvmsg is told. It lives in the socket so that a read allocates
// nothing.
type receiver struct {
	msg syscall.Msghdr
	iov syscall.Iovec
}

// receive reads to p, and to control what the kernel tells of it. The descriptor does
// not block, so the scheduler need not know of the call, which is a tenth of its price;
// nobody asks for the sender's address either. (The race detector does not see it, and
// has the calls of package syscall.)
func (r *receiver) receive(fd int, p []byte, control unsafe.Pointer, size int) (n, noted int, err error) {
	if len(p) == 0 {
		return 0, 0, nil
	}
	r.iov.Base = unsafe.SliceData(p)
	r.iov.SetLen(len(p))
	r.msg = syscall.Msghdr{Iov: &r.iov, Iovlen: 1, Control: (*byte)(control)}
	r.msg.SetControllen(size)
	got, _, errno := syscall.RawSyscall(syscall.SYS_RECVMSG, uintptr(fd), uintptr(unsafe.Pointer(&r.msg)), 0)
	r.iov.Base = nil // nobody's memory is held
	switch errno {
	case 0:
		return int(got), int(r.msg.Controllen), nil
	case syscall.EAGAIN:
		return 0, 0, errAgain
	}
	return 0, 0, errno
}

// errAgain is made once: to make an error of a number allocates.
var errAgain error = syscall.EAGAIN

// send writes what the socket takes.
func send(fd int, p []byte) (n int, err error) {
	got, _, errno := syscall.RawSyscall6(syscall.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)),
		syscall.MSG_NOSIGNAL|syscall.MSG_DONTWAIT, 0, 0)
	switch errno {
	case 0:
		return int(got), nil
	case syscall.EAGAIN:
		return 0, errAgain
	}
	return 0, errno
}

// look looks at the next byte without taking it.
func look(fd int, one *[1]byte) (n int, err error) {
	got, _, errno := syscall.RawSyscall6(syscall.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(one)), 1,
		syscall.MSG_PEEK|syscall.MSG_DONTWAIT, 0, 0)
	switch errno {
	case 0:
		return int(got), nil
	case syscall.EAGAIN:
		return 0, errAgain
	}
	return 0, errno
}
