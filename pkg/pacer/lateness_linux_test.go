package pacer

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"
)

// BenchmarkLateness tells how late waits end: p50 and p99 over all wake-ups of
// so many goroutines, each waiting 2 ms after 2 ms, out of step with each other;
// by time.Timer, by the timerfd, and by the timerfd with a spin at the end.
func BenchmarkLateness(b *testing.B) {
	for _, waiters := range []int{1, 64} {
		for _, by := range []string{"timer", "timerfd", "timerfd+spin"} {
			spin := 100 * time.Microsecond
			switch {
			case by != "timerfd+spin":
				spin = 0
			case waiters > 1:
				continue // it is not for many
			}
			b.Run(fmt.Sprintf("waiters=%d/by=%s", waiters, by), func(b *testing.B) {
				central.lost.Store(by == "timer")
				defer central.lost.Store(false)
				lateness := make([][]time.Duration, waiters)
				start := time.Now().Add(time.Millisecond)
				gap := 2 * time.Millisecond
				var wg sync.WaitGroup
				for w := range waiters {
					wg.Go(func() {
						p := Pacer{Spin: spin}
						first := start.Add(gap * time.Duration(w) / time.Duration(waiters))
						for i := range b.N {
							due := first.Add(time.Duration(i) * gap)
							if err := p.Until(b.Context(), due); err != nil {
								b.Error(err)
								return
							}
							lateness[w] = append(lateness[w], time.Since(due))
						}
					})
				}
				wg.Wait()
				all := slices.Sorted(slices.Values(slices.Concat(lateness...)))
				b.ReportMetric(float64(all[(len(all)*50+99)/100-1]), "late-p50-ns")
				b.ReportMetric(float64(all[(len(all)*99+99)/100-1]), "late-p99-ns")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}
