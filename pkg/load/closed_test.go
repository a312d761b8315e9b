package load_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"example.com/tokpace/pkg/api"
	"example.com/tokpace/pkg/client"
	"example.com/tokpace/pkg/load"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// numbers is a source whose i-th request has the body i. It fails from failAt
// on, and takes a while for each.
type numbers struct {
	failAt int // 0 is never
	takes  time.Duration
	asked  atomic.Int64
}

var errUnbuilt = errors.New("no such image")

func (s *numbers) Request(i int) (*api.Request, error) {
	s.asked.Add(1)
	time.Sleep(s.takes)
	if s.failAt > 0 && i >= s.failAt {
		return nil, errUnbuilt
	}
	return &api.Request{API: api.Chat, Body: []byte(strconv.Itoa(i))}, nil
}

// server answers each request after a while, and counts.
type server struct {
	takes func(i int) time.Duration

	mu             sync.Mutex
	inFlight, peak int
	bodies         []string
}

func constant(d time.Duration) func(int) time.Duration { return func(int) time.Duration { return d } }

func (s *server) do(ctx context.Context, req *api.Request) *client.Exchange {
	ex := &client.Exchange{OK: true, Sent: time.Now()}
	i, _ := strconv.Atoi(string(req.Body))
	s.mu.Lock()
	s.inFlight++
	s.peak = max(s.peak, s.inFlight)
	s.bodies = append(s.bodies, string(req.Body))
	s.mu.Unlock()
	select {
	case <-time.After(s.takes(i)):
	case <-ctx.Done():
		ex.OK, ex.Error = false, &api.Failure{Class: api.Canceled}
	}
	s.mu.Lock()
	s.inFlight--
	s.mu.Unlock()
	return ex
}

func receive(t *testing.T, r *load.Run, n int) {
	t.Helper()
	for i := range n {
		if _, ok := <-r.Done(); !ok {
			t.Fatalf("the run ended after %d exchanges", i)
		}
	}
}

const ms = time.Millisecond

func TestElapsed(t *testing.T) {
	for _, tt := range []struct {
		n, limit int
		takes    time.Duration
		elapsed  time.Duration
		peak     int
	}{
		{1, 1, 250 * ms, 250 * ms, 1},
		{1, 4, 250 * ms, 1000 * ms, 1},
		{8, 5, 250 * ms, 250 * ms, 5},
		{8, 16, 250 * ms, 500 * ms, 8},
		{8, 17, 250 * ms, 750 * ms, 8},
		{512, 1024, 250 * ms, 500 * ms, 512},
		{0, 3, 10 * ms, 30 * ms, 1},
		{-5, 3, 10 * ms, 30 * ms, 1},
		{16, 4, 0, 0, 4},
	} {
		t.Run(fmt.Sprintf("n=%d limit=%d", tt.n, tt.limit), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, src := &server{takes: constant(tt.takes)}, &numbers{}
				r := load.Closed{N: tt.n}.Start(t.Context(), s.do, src, tt.limit)
				receive(t, r, tt.limit)
				exchanges, elapsed, err := r.Wait()
				require.NoError(t, err)
				require.Equal(t, tt.elapsed, elapsed)
				require.Len(t, exchanges, tt.limit)
				require.LessOrEqual(t, s.peak, tt.peak)
				if tt.takes > 0 {
					require.Equal(t, tt.peak, s.peak)
				}
				require.Equal(t, int64(tt.limit), src.asked.Load(), "no request is built in vain")
				var want []string
				for i := range tt.limit {
					want = append(want, strconv.Itoa(i))
				}
				require.ElementsMatch(t, want, s.bodies, "each request once, from the first on")
				_, open := <-r.Done()
				require.False(t, open)
				again, elapsed2, err := r.Wait()
				require.NoError(t, err)
				require.Equal(t, exchanges, again)
				require.Equal(t, elapsed, elapsed2)
			})
		})
	}
}

// A slow request holds up its own slot only, and exchanges come in the order of
// their ends.
func TestOrderOfEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{takes: func(i int) time.Duration { return []time.Duration{100 * ms, 10 * ms, 20 * ms, 25 * ms}[i] }}
		r := load.Closed{N: 2}.Start(t.Context(), s.do, &numbers{}, 4)
		start := time.Now()
		var at []time.Duration
		for ex := range r.Done() {
			require.True(t, ex.OK)
			at = append(at, time.Since(start))
		}
		require.Equal(t, []time.Duration{10 * ms, 30 * ms, 55 * ms, 100 * ms}, at)
		exchanges, elapsed, err := r.Wait()
		require.NoError(t, err)
		require.Equal(t, 100*ms, elapsed)
		require.Equal(t, start, exchanges[3].Sent)
		require.Equal(t, start.Add(30*ms), exchanges[2].Sent)
	})
}

// Requests are built while others are in flight: what building takes does not
// lower the load as long as it is faster than the server.
func TestBuildingAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{takes: constant(100 * ms)}
		r := load.Closed{N: 1}.Start(t.Context(), s.do, &numbers{takes: 60 * ms}, 5)
		_, elapsed, err := r.Wait()
		require.NoError(t, err)
		require.Equal(t, 500*ms, elapsed)
	})
}

func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{takes: constant(100 * ms)}
		r := load.Closed{N: 4}.Start(t.Context(), s.do, &numbers{}, 0)
		receive(t, r, 8)
		time.Sleep(50 * ms)
		r.Stop()
		r.Stop()
		exchanges, elapsed, err := r.Wait()
		require.NoError(t, err)
		require.Len(t, exchanges, 12, "what was in flight has ended")
		require.Equal(t, 300*ms, elapsed)
		for _, ex := range exchanges {
			require.True(t, ex.OK)
		}
		require.Zero(t, s.inFlight)
	})
}

func TestStopBeforeAnything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{takes: constant(ms)}
		r := load.Closed{N: 4}.Start(t.Context(), s.do, &numbers{takes: 10 * ms}, 0)
		r.Stop()
		exchanges, elapsed, err := r.Wait()
		require.NoError(t, err)
		// Those that came before Stop, if any, have ended in their own time.
		require.LessOrEqual(t, len(exchanges), 4)
		require.Len(t, s.bodies, len(exchanges))
		require.LessOrEqual(t, elapsed, ms)
	})
}

// Requests before one that cannot be built are sent, none after it.
func TestSourceError(t *testing.T) {
	for _, n := range []int{1, 3, 8} {
		for _, failAt := range []int{1, 5} {
			synctest.Test(t, func(t *testing.T) {
				s := &server{takes: constant(100 * ms)}
				r := load.Closed{N: n}.Start(t.Context(), s.do, &numbers{failAt: failAt}, 20)
				exchanges, _, err := r.Wait()
				require.ErrorIs(t, err, errUnbuilt)
				require.ErrorContains(t, err, fmt.Sprintf("request %d:", failAt))
				require.Len(t, exchanges, failAt)
				for _, ex := range exchanges {
					require.True(t, ex.OK)
				}
			})
		}
	}
}

// A request that nobody wants any more may be one that cannot be built.
func TestSourceErrorBeyondStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{takes: constant(100 * ms)}
		r := load.Closed{N: 2}.Start(t.Context(), s.do, &numbers{failAt: 4}, 0)
		receive(t, r, 2)
		r.Stop()
		exchanges, _, err := r.Wait()
		require.NoError(t, err)
		require.LessOrEqual(t, len(exchanges), 4)
	})
}

func TestCancel(t *testing.T) {
	for _, limit := range []int{0, 1000} {
		synctest.Test(t, func(t *testing.T) {
			cause := errors.New("interrupted")
			ctx, cancel := context.WithCancelCause(t.Context())
			s := &server{takes: constant(100 * ms)}
			r := load.Closed{N: 4}.Start(ctx, s.do, &numbers{}, limit)
			start := time.Now()
			receive(t, r, 4)
			time.Sleep(50 * ms)
			cancel(cause)
			exchanges, elapsed, err := r.Wait()
			require.Equal(t, cause, err)
			require.Equal(t, 150*ms, elapsed)
			require.Equal(t, 150*ms, time.Since(start), "those in flight end at once")
			require.Len(t, exchanges, 8, "nothing is sent after it")
			for i, ex := range exchanges {
				require.Equal(t, i < 4, ex.OK)
			}
		})
	}
}

// A run whose last request has ended is complete, whatever the context says.
func TestCancelAfterTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := &server{takes: constant(100 * ms)}
		r := load.Closed{N: 4}.Start(ctx, s.do, &numbers{}, 4)
		receive(t, r, 4)
		cancel()
		_, _, err := r.Wait()
		require.NoError(t, err)
	})
}

// An exchange that failed before its send has no place in time.
func TestNothingWasSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		do := func(context.Context, *api.Request) *client.Exchange {
			time.Sleep(ms)
			return &client.Exchange{Error: &api.Failure{Class: api.Connect}}
		}
		exchanges, elapsed, err := load.Closed{N: 2}.Start(t.Context(), do, &numbers{}, 3).Wait()
		require.NoError(t, err)
		require.Len(t, exchanges, 3)
		require.Zero(t, elapsed)
	})
}
