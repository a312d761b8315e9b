//go:build linux && (!(amd64 || arm64) || race)

package h1

import (
	"syscall"
	"unsafe"
)

type receiver struct{}

// receive reads to p, and to control what the kernel tells of it.
func (receiver) receive(fd int, p []byte, control unsafe.Pointer, size int) (n, noted int, err error) {
	n, noted, _, _, err = syscall.Recvmsg(fd, p, unsafe.Slice((*byte)(control), size), 0)
	return n, noted, err
}
