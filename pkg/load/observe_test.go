package load_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/tokpace/pkg/client"
	"example.com/tokpace/pkg/load"
)

// An observer sees every exchange before it is counted, also those of the warm-up
// and those that are cut off, with all that the load knows of it.
func TestObserve(t *testing.T) {
	limits, warmup := load.Limits{Duration: 250 * ms}, load.Warmup{Requests: 2}
	for name, l := range map[string]load.Load{
		"closed":          load.Closed{N: 2, Limits: limits, Warmup: warmup},
		"open":            load.Open{Schedule: load.Constant{Rate: 20}, Limits: limits, Warmup: warmup},
		"open with a cap": load.Open{Schedule: load.Constant{Rate: 20}, MaxConcurrency: 2, Limits: limits, Warmup: warmup},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &server{takes: constant(100 * ms)}
				var mu sync.Mutex
				var seen []*client.Exchange
				ctx := load.Observe(t.Context(), func(ex *client.Exchange) {
					time.Sleep(ms) // it takes a while, and has no part in the run's time
					mu.Lock()
					defer mu.Unlock()
					seen = append(seen, ex)
				})
				warm, err := l.WarmUp(ctx, s.do, &numbers{})
				require.NoError(t, err)
				require.Len(t, warm, 2)
				require.ElementsMatch(t, warm, seen)

				seen = nil
				start := time.Now()
				run := l.Start(ctx, s.do, &numbers{}, 0)
				for ex := range run.Done() {
					mu.Lock()
					require.Contains(t, seen, ex, "observed before it is delivered")
					mu.Unlock()
				}
				all, elapsed, err := run.Wait()
				require.NoError(t, err)
				require.LessOrEqual(t, elapsed, 250*ms)
				require.Greater(t, len(seen), len(all), "what was cut off too")
				require.Subset(t, seen, all)
				indices := map[int]bool{}
				for _, ex := range seen {
					indices[ex.Index] = true
					if _, open := l.(load.Open); open {
						require.Equal(t, time.Duration(ex.Index)*50*ms, ex.Scheduled.Sub(start))
						require.False(t, ex.Ready.IsZero())
					}
				}
				require.Len(t, indices, len(seen))
			})
		})
	}
}
