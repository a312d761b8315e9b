//go:build unix

package harness

import (
	"os"

	"golang.org/x/sys/unix"
)

func openTTY() (*os.File, error) { return os.OpenFile("/dev/tty", os.O_WRONLY, 0) }

// ttyWidth is the number of columns of a terminal, 0 while another group of
// processes has it.
func ttyWidth(f *os.File) (columns int) {
	conn, err := f.SyscallConn()
	if err != nil {
		return 0
	}
	_ = conn.Control(func(fd uintptr) {
		if group, err := unix.IoctlGetInt(int(fd), unix.TIOCGPGRP); err != nil || group != unix.Getpgrp() {
			return
		}
		columns = 80
		size, err := unix.IoctlGetWinsize(int(fd), unix.TIOCGWINSZ)
		switch {
		case err != nil || size.Col == 0: // a terminal that does not tell
		case size.Row == 1:
			columns = 0 // no line below the cursor's
		default:
			columns = int(size.Col)
		}
	})
	return columns
}
