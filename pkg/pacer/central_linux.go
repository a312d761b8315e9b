package pacer

import (
	"container/heap"
	"context"
	"math"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// A waiter is one pacer's place among those that wait.
type waiter struct {
	due   time.Duration // since central.base
	index int           // in central.heap, -1 when not there
	wake  chan struct{} // holds one token at most
}

// possible reports whether waiting by the timerfd can be tried.
func (w *waiter) possible() bool { return !central.lost.Load() }

// wait blocks until so long after now, or until ctx ends. It returns false when
// the timerfd has been lost.
func (w *waiter) wait(ctx context.Context, now time.Time, wait time.Duration) bool {
	if w.wake == nil {
		w.wake = make(chan struct{}, 1)
	}
	if !central.add(w, now, wait) {
		return false
	}
	select {
	case <-w.wake:
		central.woken.Add(-1)
	case <-ctx.Done():
		if !central.remove(w) {
			<-w.wake // it was on its way
			central.woken.Add(-1)
		}
	}
	return true
}

// giveWay is GiveWay.
func giveWay() {
	c := central
	first := time.Duration(c.first.Load())
	if first == nobody {
		return
	}
	if now := time.Since(c.base); now >= first {
		c.mu.Lock()
		c.releaseDue(now)
		c.mu.Unlock()
	}
	for i := 0; i < maxYields && c.woken.Load() > 0; i++ {
		runtime.Gosched()
	}
}

// maxYields keeps work that gives way from never being done.
const maxYields = 100

// central is the one timerfd of the process and those that wait for it.
var central = newClock()

// A clock wakes waiters in the order of their deadlines.
type clock struct {
	base time.Time // what deadlines count from; it has a monotonic reading
	lost atomic.Bool
	// first is the deadline of heap[0], nobody when the heap is empty.
	first atomic.Int64
	woken atomic.Int64 // waiters that were woken and do not run yet

	mu     sync.Mutex
	file   *os.File // the timerfd, nil before the first wait
	fd     int      // its descriptor, valid as long as file is
	offset int64    // the kernel's CLOCK_MONOTONIC at base, in nanoseconds
	heap   waiters
	next   time.Duration // when the timerfd may fire again
	fires  time.Duration // when it will
	lead   time.Duration // how long before the deadline that is
	serves bool          // the goroutine runs
	serve  func()
	read   [8]byte // what the timerfd says: how often it fired
}

func newClock() *clock {
	c := &clock{base: time.Now()}
	c.first.Store(int64(nobody))
	c.serve = c.wakeAll // a method value made at each start would allocate
	return c
}

// grain is the least time between two wake-ups of the goroutine. Deadlines that
// are nearer to each other are served together, the first of them later by less
// than this: with 64 goroutines that wait 2 ms each, it is a third less processor
// time for the same lateness.
const grain = 50 * time.Microsecond

// longest keeps sums of deadlines from overflowing; it is 73 years.
const longest = time.Duration(1) << 61

// maxLead bounds how much earlier than a deadline the goroutine is to be woken.
const maxLead = 60 * time.Microsecond

// early is for how long the goroutine rather waits than sleeps once more.
const early = 5 * time.Microsecond

// nobody is later than all deadlines.
const nobody = time.Duration(math.MaxInt64)

func (c *clock) add(w *waiter, now time.Time, wait time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lost.Load() || c.file == nil && !c.open() {
		return false
	}
	w.due = now.Sub(c.base) + min(wait, longest)
	// In a busy process the goroutine comes late: the runtime looks for what it
	// waits for when there is nothing else to do. So whoever comes by helps.
	c.releaseDue(now.Sub(c.base))
	heap.Push(&c.heap, w)
	if w.index == 0 {
		c.first.Store(int64(w.due))
		c.arm(w.due)
	}
	if !c.serves {
		c.serves = true
		go c.serve()
	}
	return true
}

// remove takes w out, and reports whether it was still there.
func (c *clock) remove(w *waiter) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.index < 0 {
		return false
	}
	heap.Remove(&c.heap, w.index)
	c.noteFirst()
	if len(c.heap) == 0 {
		c.arm(0) // so that the goroutine wakes, and ends
	}
	return true
}

// open makes the timerfd. It stays open as long as the process.
func (c *clock) open() bool {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		c.lost.Store(true)
		return false
	}
	// The kernel's clock and Go's are the same but for the zero point. Reading
	// the kernel's last makes the difference, and so every deadline, err to the
	// late side, by what the two readings take: never to the early one.
	var ts unix.Timespec
	since := time.Since(c.base)
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		_ = unix.Close(fd)
		c.lost.Store(true)
		return false
	}
	c.fd, c.offset = fd, ts.Nano()-int64(since)
	c.file = os.NewFile(uintptr(fd), "timerfd")
	return true
}

// arm sets the timerfd to fire so early that the goroutine runs at due; at once when
// that is past.
func (c *clock) arm(due time.Duration) {
	c.fires = max(due-c.lead, c.next)
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(max(1, c.offset+int64(c.fires)))}
	_ = unix.TimerfdSettime(c.fd, unix.TFD_TIMER_ABSTIME, &spec, nil) // only arguments can be wrong
}

// wakeAll wakes waiters until there are none.
func (c *clock) wakeAll() {
	for {
		_, err := c.file.Read(c.read[:])
		c.mu.Lock()
		if err != nil {
			c.lose()
		}
		now := time.Since(c.base)
		c.learn(now - c.fires)
		for len(c.heap) > 0 && c.heap[0].due > now && c.heap[0].due-now <= early {
			now = time.Since(c.base)
		}
		c.releaseDue(now)
		if len(c.heap) == 0 {
			c.serves = false
			c.mu.Unlock()
			return
		}
		c.next = now + grain
		if first := c.heap[0].due; first-now <= c.lead {
			c.next = max(c.next, first) // a lead has been tried, and was too long
		}
		c.arm(c.heap[0].due)
		c.mu.Unlock()
	}
}

// learn takes in how late the goroutine ran after the timerfd fired. The lead is a
// little less than that usually is: to be early costs processor time.
func (c *clock) learn(late time.Duration) {
	if late < 0 || late > 4*maxLead {
		return // it was set anew meanwhile, or the process was busy
	}
	c.lead += (min(late, maxLead)*3/4 - c.lead) / 16
}

// releaseDue wakes those whose time has come.
func (c *clock) releaseDue(now time.Duration) {
	if len(c.heap) == 0 || c.heap[0].due > now {
		return
	}
	for len(c.heap) > 0 && c.heap[0].due <= now {
		c.release()
	}
	c.noteFirst()
}

// release wakes the first waiter.
func (c *clock) release() {
	w := heap.Pop(&c.heap).(*waiter)
	c.woken.Add(1)
	w.wake <- struct{}{}
}

// noteFirst notes the first deadline for those who only look.
func (c *clock) noteFirst() {
	first := nobody
	if len(c.heap) > 0 {
		first = c.heap[0].due
	}
	c.first.Store(int64(first))
}

// lose gives the timerfd up: all are woken, and wait by time.Timer from now on.
func (c *clock) lose() {
	c.lost.Store(true)
	for len(c.heap) > 0 {
		c.release()
	}
	c.noteFirst()
}

// waiters is a heap by deadline.
type waiters []*waiter

func (h waiters) Len() int           { return len(h) }
func (h waiters) Less(i, j int) bool { return h[i].due < h[j].due }
func (h waiters) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *waiters) Push(x any) {
	w := x.(*waiter)
	w.index = len(*h)
	*h = append(*h, w)
}

func (h *waiters) Pop() any {
	old := *h
	w := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	w.index = -1
	return w
}
