package benchtests

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// idle reports whether this machine has nothing else to do: threads that compute
// on each of its processors get all the time there is, but for one part in twenty.
func idle() bool {
	var wg sync.WaitGroup
	var disturbed atomic.Bool
	for range runtime.NumCPU() {
		wg.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			used := func() time.Duration {
				var u unix.Rusage
				if unix.Getrusage(unix.RUSAGE_THREAD, &u) != nil {
					return 0
				}
				return time.Duration(u.Utime.Nano() + u.Stime.Nano())
			}
			begun, before := time.Now(), used()
			for time.Since(begun) < 300*time.Millisecond {
			}
			if used()-before < time.Since(begun)*19/20 {
				disturbed.Store(true)
			}
		})
	}
	wg.Wait()
	return !disturbed.Load()
}
