// Package pacer wakes a goroutine at an absolute time. The fake server paces
// its events with it and the load generator its sends; it imports none of this
// module's packages.
//
//	var p pacer.Pacer // one per goroutine
//	start := time.Now()
//	for i := range events {
//		due := start.Add(time.Duration(i) * 10 * time.Millisecond)
//		if err := p.Until(ctx, due); err != nil {
//			return err
//		}
//		send(events[i])
//	}
//
// Deadlines are absolute, so a late wake-up, or a slow send, delays nothing but
// itself: the next deadline stands where it stood. Adding up pauses would carry
// every lateness on.
//
// # How it wakes
//
// Go's own timers are up to a millisecond late on an idle Linux machine: the
// scheduler sleeps in epoll_wait, whose time-out has that grain. There all
// pacers of a process share one timerfd, which is read through the same epoll
// and is exact to the kernel's clock, and one heap of deadlines. One goroutine
// serves them; it runs only while somebody waits, so that it is never found as a
// leak. Elsewhere, where a timerfd cannot be had, and in the bubbles of
// testing/synctest each pacer has a time.Timer.
//
// A bubble is known by its clock: inside it, time.Now has no monotonic reading,
// and outside it always has one. (The kernel knows nothing of virtual time, and a
// goroutine that waits for it keeps virtual time from going on.)
package pacer

import (
	"context"
	"runtime"
	"time"
)

// Pacer waits for points in time, one after the other. The zero value is ready
// for use. It serves one goroutine at a time, and one testing/synctest bubble:
// its timer belongs to the bubble of the first wait.
type Pacer struct {
	// Spin is how long before its time a wait stops sleeping and yields in a
	// loop instead, until the time has come: it takes away the 30 to 100 µs that
	// waking a goroutine costs, and costs as much processor time per wait. It is
	// for a single goroutine whose lateness falsifies what is measured, not for
	// many: they would take the processors from each other. 0 is not to spin.
	// In a bubble, and where deadlines are kept by time.Timer, nothing spins.
	Spin time.Duration

	timer  *time.Timer
	waiter waiter
}

// hold is how long before its time a spinning wait stops to yield: what it yields
// to may take longer.
const hold = 40 * time.Microsecond

// Until blocks until t has come and returns nil, at once if t is past. It never
// returns nil before t.
//
// If ctx ends first, it returns ctx.Err(). A ctx that has ended before the call
// is an error also for a past t, so a loop that is behind its schedule stops
// too. If ctx ends during the wait at the very time t, t wins: the outcome does
// not depend on which of the two woke the goroutine.
//
// Calls after the first that had to wait do not allocate.
func (p *Pacer) Until(ctx context.Context, t time.Time) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	// More than one round is taken when t has no monotonic reading and the wall
	// clock was set back during the wait, and when the timerfd is lost.
	for now := time.Now(); ; now = time.Now() {
		wait := t.Sub(now)
		if wait <= 0 {
			return nil
		}
		if inBubble(now) || !p.waiter.possible() {
			p.sleep(ctx, wait)
		} else {
			if wait > p.Spin && !p.waiter.wait(ctx, now, wait-p.Spin) {
				continue
			}
			for left := time.Until(t); left > 0 && left <= p.Spin && ctx.Err() == nil; left = time.Until(t) {
				if left > hold {
					runtime.Gosched()
				}
			}
		}
		if err := ctx.Err(); err != nil && time.Now().Before(t) {
			return err
		}
	}
}

// GiveWay lets those whose time has come go first. It is for work that can wait a
// little, between one piece of it and the next, in a process that also keeps
// deadlines: the runtime looks for what has become due when it has nothing else to do.
// Where nobody waits it costs a nanosecond. Outside Linux it does nothing.
func GiveWay() { giveWay() }

// sleep waits by time.Timer.
func (p *Pacer) sleep(ctx context.Context, wait time.Duration) {
	if p.timer == nil {
		p.timer = time.NewTimer(wait)
	} else {
		p.timer.Reset(wait)
	}
	select {
	case <-p.timer.C:
	case <-ctx.Done():
		p.timer.Stop()
	}
}

// inBubble reports whether now, which time.Now just returned, is virtual time.
func inBubble(now time.Time) bool { return now == now.Round(0) }
