package memnet

import (
	"sync"
	"time"
)

// deadline is the point in time from which one kind of call fails. The lock of
// the condition it wakes guards all of it.
type deadline struct {
	expired bool
	at      time.Time // zero: none
	timer   *time.Timer
}

// set replaces the deadline and wakes waiters if it has passed already. The
// caller holds wake.L, and wake is the same on every call.
func (d *deadline) set(t time.Time, wake *sync.Cond) {
	d.stop()
	d.expired = false
	if t.IsZero() {
		return
	}
	now := time.Now()
	wait := t.Sub(now)
	if wait <= 0 {
		d.expired = true
		wake.Broadcast()
		return
	}
	// Not t: it may lack a monotonic reading, and the wall clock may step
	// between here and the timer.
	d.at = now.Add(wait)
	if d.timer != nil {
		d.timer.Reset(wait)
		return
	}
	d.timer = time.AfterFunc(wait, func() {
		wake.L.Lock()
		defer wake.L.Unlock()
		// A call that lost the race against stop or set finds a deadline that
		// is gone or still to come.
		if !d.at.IsZero() && !time.Now().Before(d.at) {
			d.expired = true
			wake.Broadcast()
		}
	})
}

// stop keeps a deadline that is still to come from passing.
func (d *deadline) stop() {
	d.at = time.Time{}
	if d.timer != nil {
		d.timer.Stop()
	}
}
