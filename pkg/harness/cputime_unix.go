//go:build unix

package harness

import (
	"time"

	"golang.org/x/sys/unix"

	"example.com/tokpace/pkg/api"
	"example.com/tokpace/pkg/client"
)

// processTime is the processor time of this process so far, user and system.
func processTime() client.Dur {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return client.Dur{}
	}
	return api.Some(time.Duration(u.Utime.Nano() + u.Stime.Nano()))
}
