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
package pacer

import (
	"context"
	"time"
)

// Pacer waits for points in time, one after the other. The zero value is ready
// for use. It serves one goroutine at a time, and one testing/synctest bubble:
// its timer belongs to the bubble of the first wait.
type Pacer struct {
	timer *time.Timer
}

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
	// clock was set back during the wait.
	for wait := time.Until(t); wait > 0; wait = time.Until(t) {
		if p.timer == nil {
			p.timer = time.NewTimer(wait)
		} else {
			p.timer.Reset(wait)
		}
		select {
		case <-p.timer.C:
		case <-ctx.Done():
			p.timer.Stop()
			if time.Now().Before(t) {
				return ctx.Err()
			}
		}
	}
	return nil
}
