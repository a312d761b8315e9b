//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package ab

import (
	"os"
	"syscall"
)

// lockFolder opens a folder and locks it, for as long as it is open, against
// other processes that want to write results there.
func lockFolder(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err == syscall.EWOULDBLOCK {
		f.Close()
		return nil, inputError("another comparison is writing to %s: wait for its end, or give another -out", dir)
	}
	return f, nil // some network file systems have no locks
}
