package load_test

import (
	"context"
	"errors"
	"math"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/tokpace/pkg/api"
	"example.com/tokpace/pkg/client"
	"example.com/tokpace/pkg/load"
)

var (
	_ load.Load = load.Closed{}
	_ load.Load = load.Open{}
)

// each are the times of all exchanges since start, by the number of the request.
func each(exchanges []*client.Exchange, start time.Time, what func(*client.Exchange) time.Time) []time.Duration {
	times := make([]time.Duration, len(exchanges))
	for _, ex := range exchanges {
		times[ex.Index] = what(ex).Sub(start)
	}
	return times
}

func sent(ex *client.Exchange) time.Time      { return ex.Sent }
func scheduled(ex *client.Exchange) time.Time { return ex.Scheduled }

// every is n times, gap after gap.
func every(gap time.Duration, n int) []time.Duration {
	times := make([]time.Duration, n)
	for i := range times {
		times[i] = time.Duration(i) * gap
	}
	return times
}

// Without a cap each request leaves at its time, however slow the server is.
func TestOpenLoopKeepsItsSchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		s, src := &server{takes: constant(1234 * ms)}, &numbers{}
		r := load.Open{Schedule: load.Constant{Rate: 10}}.Start(t.Context(), s.do, src, 600)
		exchanges, elapsed, err := r.Wait()
		require.NoError(t, err)
		require.Equal(t, every(100*ms, 600), each(exchanges, start, sent))
		require.Equal(t, every(100*ms, 600), each(exchanges, start, scheduled))
		require.Equal(t, 59900*ms+1234*ms, elapsed)
		require.Equal(t, 13, s.peak)
		require.Equal(t, int64(600), src.asked.Load(), "no request is built in vain")
		require.Zero(t, r.Starved())
		require.Zero(t, r.Unfinished())
		for i, ex := range exchanges {
			require.Equal(t, i, ex.Index)
			require.Equal(t, api.Some(time.Duration(0)), ex.SendLag())
			require.Equal(t, api.Some(time.Duration(0)), ex.Queue())
		}
	})
}

// Under a cap requests wait for slots in the order of the schedule. The wait is in
// Queue, and not in the send lag.
func TestOpenLoopUnderACap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		s := &server{takes: constant(50 * ms)}
		l := load.Open{Schedule: load.Constant{Rate: 100}, MaxConcurrency: 2}
		exchanges, elapsed, err := l.Start(t.Context(), s.do, &numbers{}, 10).Wait()
		require.NoError(t, err)
		// Two slots of 50 ms: requests 2k and 2k+1 are sent at k·50 ms, the odd
		// ones 10 ms after the even ones.
		var want, queue []time.Duration
		for i := range 10 {
			at := time.Duration(i/2)*50*ms + time.Duration(i%2)*10*ms
			want, queue = append(want, at), append(queue, at-time.Duration(i)*10*ms)
		}
		require.Equal(t, want, each(exchanges, start, sent))
		require.Equal(t, every(10*ms, 10), each(exchanges, start, scheduled))
		for _, ex := range exchanges {
			require.Equal(t, api.Some(queue[ex.Index]), ex.Queue())
			require.Equal(t, api.Some(time.Duration(0)), ex.SendLag())
		}
		require.Equal(t, 260*ms, elapsed)
		require.Equal(t, 2, s.peak)
		for i, body := range s.bodies {
			require.Equal(t, strconv.Itoa(i), body, "in order")
		}
	})
}

// All at once under a cap is a closed loop.
func TestInfiniteRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{takes: constant(50 * ms)}
		l := load.Open{Schedule: load.Constant{Rate: math.Inf(1)}, MaxConcurrency: 4}
		exchanges, elapsed, err := l.Start(t.Context(), s.do, &numbers{}, 100).Wait()
		require.NoError(t, err)
		require.Len(t, exchanges, 100)
		require.Equal(t, 25*50*ms, elapsed)
		require.Equal(t, 4, s.peak)

		_, _, err = l.Start(t.Context(), s.do, &numbers{}, 0).Wait()
		require.EqualError(t, err, "load: a rate of +Inf without a number of requests never ends")
	})
}

func TestOpenLoopThatMakesNoSense(t *testing.T) {
	for want, l := range map[string]load.Open{
		"load: an open loop needs a Schedule":                                               {},
		"load: MaxConcurrency is -1, it must be at least 0":                                 {Schedule: load.Poisson{Rate: 1}, MaxConcurrency: -1},
		"load: the rate of a Poisson schedule is 0, it must be above 0 requests per second": {Schedule: load.Poisson{}},
	} {
		r := l.Start(t.Context(), nil, nil, 10)
		_, open := <-r.Done()
		require.False(t, open)
		exchanges, elapsed, err := r.Wait()
		require.EqualError(t, err, want)
		require.Empty(t, exchanges)
		require.Zero(t, elapsed)
		require.Zero(t, l.Connections(10))
	}
}

// The schedule ends before the limit does.
func TestScheduleEnds(t *testing.T) {
	for _, slots := range []int{0, 1} {
		for _, limit := range []int{0, 2, 1000} {
			synctest.Test(t, func(t *testing.T) {
				s := &server{takes: constant(ms)}
				l := load.Open{Schedule: load.Trace{At: []time.Duration{7, 7 + 20*ms, 7 + 500*ms}}, MaxConcurrency: slots}
				start := time.Now()
				exchanges, elapsed, err := l.Start(t.Context(), s.do, &numbers{}, limit).Wait()
				require.NoError(t, err)
				want := []time.Duration{0, 20 * ms, 500 * ms}
				if limit == 2 {
					want = want[:2]
				}
				require.Equal(t, want, each(exchanges, start, sent))
				require.Equal(t, want[len(want)-1]+ms, elapsed)
			})
		}
	}
}

// Stop lets what is in flight go on, and counts what waits for a slot.
func TestStopOpenLoop(t *testing.T) {
	for slots, want := range map[int]struct{ finished, unfinished int }{0: {21, 0}, 2: {5, 16}} {
		synctest.Test(t, func(t *testing.T) {
			s := &server{takes: constant(100 * ms)}
			start := time.Now()
			r := load.Open{Schedule: load.Constant{Rate: 100}, MaxConcurrency: slots}.Start(t.Context(), s.do, &numbers{}, 0)
			time.Sleep(205 * ms)
			r.Stop()
			exchanges, _, err := r.Wait()
			require.NoError(t, err)
			require.Len(t, exchanges, want.finished)
			require.Equal(t, want.unfinished, r.Unfinished())
			require.Equal(t, 300*ms, time.Since(start))
			for _, ex := range exchanges {
				require.True(t, ex.OK)
			}
		})
	}
}

// When the time is over, what is in flight is cut off and counted for itself.
func TestDuration(t *testing.T) {
	for name, tt := range map[string]struct {
		load                 load.Load
		finished, unfinished int
	}{
		"closed":           {load.Closed{N: 3, Limits: load.Limits{Duration: 250 * ms}}, 6, 3},
		"open":             {load.Open{Schedule: load.Constant{Rate: 40}, Limits: load.Limits{Duration: 240 * ms}}, 6, 4},
		"open, one slot":   {load.Open{Schedule: load.Constant{Rate: 40}, MaxConcurrency: 1, Limits: load.Limits{Duration: 240 * ms}}, 2, 8},
		"closed, requests": {load.Closed{N: 3, Limits: load.Limits{Requests: 5, Duration: time.Hour}}, 5, 0},
		"open, requests":   {load.Open{Schedule: load.Constant{Rate: 40}, Limits: load.Limits{Requests: 5}}, 5, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &server{takes: constant(100 * ms)}
				start := time.Now()
				r := tt.load.Start(t.Context(), s.do, &numbers{}, 1000)
				exchanges, elapsed, err := r.Wait()
				require.NoError(t, err)
				require.Len(t, exchanges, tt.finished)
				require.Equal(t, tt.unfinished, r.Unfinished())
				require.Equal(t, time.Since(start), elapsed)
				if tt.unfinished > 0 {
					require.Contains(t, []time.Duration{250 * ms, 240 * ms}, elapsed)
				}
				for _, ex := range exchanges {
					require.True(t, ex.OK)
				}
			})
		})
	}
}

func TestTokens(t *testing.T) {
	for name, l := range map[string]load.Load{
		"closed": load.Closed{N: 2, Limits: load.Limits{Tokens: 50}},
		"open":   load.Open{Schedule: load.Constant{Rate: 20}, Limits: load.Limits{Tokens: 50}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &server{takes: constant(100 * ms)}
				do := func(ctx context.Context, req *api.Request) *client.Exchange {
					ex := s.do(ctx, req)
					ex.OutputTokens = api.Some[int64](7)
					return ex
				}
				exchanges, _, err := l.Start(t.Context(), do, &numbers{}, 1000).Wait()
				require.NoError(t, err)
				// 8 answers have 56 tokens; one more or two were in flight.
				require.GreaterOrEqual(t, len(exchanges), 8)
				require.LessOrEqual(t, len(exchanges), 10)
			})
		})
	}
}

// Requests before one that cannot be built are sent, none after it.
func TestOpenLoopSourceError(t *testing.T) {
	for _, slots := range []int{0, 1, 3} {
		for _, failAt := range []int{1, 5, 100} {
			synctest.Test(t, func(t *testing.T) {
				s := &server{takes: constant(50 * ms)}
				l := load.Open{Schedule: load.Constant{Rate: 100}, MaxConcurrency: slots}
				exchanges, _, err := l.Start(t.Context(), s.do, &numbers{failAt: failAt}, 2000).Wait()
				require.ErrorIs(t, err, errUnbuilt)
				require.Len(t, exchanges, failAt)
			})
		}
	}
}

func TestCancelOpenLoop(t *testing.T) {
	for _, slots := range []int{0, 2} {
		synctest.Test(t, func(t *testing.T) {
			cause := errors.New("interrupted")
			ctx, cancel := context.WithCancelCause(t.Context())
			s := &server{takes: constant(100 * ms)}
			start := time.Now()
			r := load.Open{Schedule: load.Poisson{Rate: 100}, MaxConcurrency: slots}.Start(ctx, s.do, &numbers{}, 0)
			time.Sleep(555 * ms)
			cancel(cause)
			_, _, err := r.Wait()
			require.Equal(t, cause, err)
			require.Equal(t, 555*ms, time.Since(start), "those in flight end at once")
			require.Zero(t, s.inFlight)
		})
	}
}

// Random schedules are the seed's alone.
func TestOpenLoopSeed(t *testing.T) {
	times := func(seed uint64, slots int, takes time.Duration) (got []time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			s := &server{takes: constant(takes)}
			l := load.Open{Schedule: load.Gamma{Rate: 100, Burstiness: 0.5}, Seed: seed, MaxConcurrency: slots}
			start := time.Now()
			exchanges, _, err := l.Start(t.Context(), s.do, &numbers{}, 200).Wait()
			require.NoError(t, err)
			got = each(exchanges, start, scheduled)
		})
		return got
	}
	want := times(3, 0, ms)
	require.Equal(t, want, times(3, 2, 40*ms))
	require.NotEqual(t, want, times(4, 0, ms))
}

func TestConnections(t *testing.T) {
	for _, tt := range []struct {
		load        load.Load
		limit, want int
	}{
		{load.Closed{}, 0, 1},
		{load.Closed{N: 8}, 0, 8},
		{load.Closed{N: 8}, 5, 5},
		{load.Open{Schedule: load.Constant{Rate: 10}, MaxConcurrency: 8}, 0, 8},
		{load.Open{Schedule: load.Constant{Rate: 10}, MaxConcurrency: 8}, 3, 3},
		{load.Open{Schedule: load.Constant{Rate: 10}}, 0, 11},
		{load.Open{Schedule: load.Constant{Rate: 10}}, 3, 3},
		{load.Open{Schedule: load.Constant{Rate: 1e6}}, 0, 256},
		{load.Open{Schedule: load.Constant{Rate: math.Inf(1)}}, 100, 100},
		{load.Open{Schedule: load.Constant{Rate: 0.1}}, 0, 1},
		{load.Open{Schedule: load.Constant{Rate: 10}, Limits: load.Limits{Requests: 2}}, 0, 2},
	} {
		require.Equal(t, tt.want, tt.load.Connections(tt.limit), "%+v", tt.load)
	}
}

// The dispatcher of a client that stops for a while sends what it missed at once,
// and then keeps the schedule again. A client that cannot keep up is an error.
func TestBehind(t *testing.T) {
	for stall, late := range map[time.Duration]int{300 * ms: 0, 600 * ms: 74} {
		synctest.Test(t, func(t *testing.T) {
			s := &server{takes: constant(0)}
			_, _, err := load.Open{Schedule: load.Constant{Rate: 400}, MaxLag: 250 * ms}.Start(t.Context(), s.do, &stalls{at: 1000, takes: stall}, 2000).Wait()
			if late == 0 {
				require.NoError(t, err)
				return
			}
			// Built ahead are 64, and one is in the dispatcher's hand: request
			// 1000 is begun when 934 is sent, 165 ms before its time.
			behind, ok := errors.AsType[*load.BehindError](err)
			require.True(t, ok, "%v", err)
			require.Equal(t, load.BehindError{Late: late, Sent: 2000, Worst: stall - 165*ms, Limit: 250 * ms}, *behind)
			require.ErrorContains(t, err, "74 of 2000 sends were ready more than 250ms late (max-lag), the worst 435ms")
		})
	}
}

// stalls is a source that takes long for one request.
type stalls struct {
	numbers
	at    int
	takes time.Duration
}

func (s *stalls) Request(i int) (*api.Request, error) {
	if i == s.at {
		time.Sleep(s.takes)
	}
	return s.numbers.Request(i)
}
