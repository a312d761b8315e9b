// Package freelist keeps buffers for their next use. It imports none of this
// module's packages.
//
//	var blocks = freelist.List[*[4096]byte]{New: func() *[4096]byte { return new([4096]byte) }}
//
//	b := blocks.Get()
//	defer blocks.Put(b)
//
// A sync.Pool would do it faster, by a few nanoseconds, and at random: what a
// Get finds there depends on the processor that the goroutine is on and on when the
// garbage was last collected. A benchmark of a few requests then allocates some
// buffers or not, and its B/op differs from run to run by more than the changes
// that somebody wants to find with it.
package freelist

import "sync"

// max is how many values a list keeps; more are left to the garbage collector.
const max = 256

// List is a list of values that nobody uses. New makes one when the list is
// empty. It is safe for concurrent use.
type List[T any] struct {
	New func() T

	mu   sync.Mutex
	free []T
}

// Get takes the value that was put last, or a new one.
func (l *List[T]) Get() T {
	l.mu.Lock()
	n := len(l.free)
	if n == 0 {
		l.mu.Unlock()
		return l.New()
	}
	v := l.free[n-1]
	var none T
	l.free[n-1] = none
	l.free = l.free[:n-1]
	l.mu.Unlock()
	return v
}

// Reserve makes values until the list holds n of them, or all that it keeps.
func (l *List[T]) Reserve(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.free) < min(n, max) {
		l.free = append(l.free, l.New())
	}
}

// Put gives a value back, which the caller must not use any more.
func (l *List[T]) Put(v T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.free) < max {
		l.free = append(l.free, v)
	}
}
