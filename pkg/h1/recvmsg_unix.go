//go:build unix && !(linux && (amd64 || arm64) && !race)

package h1

import "syscall"

// look looks at the next byte without taking it.
func look(fd int, one *[1]byte) (n int, err error) {
	n, _, err = syscall.Recvfrom(fd, one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	return n, err
}

// send writes what the socket takes.
func send(fd int, p []byte) (n int, err error) { return syscall.Write(fd, p) }
