package load_test

import (
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/tokpace/fakeserver"
	"example.com/tokpace/pkg/api"
	"example.com/tokpace/pkg/client"
	"example.com/tokpace/pkg/dataset"
	"example.com/tokpace/pkg/load"
	"example.com/tokpace/pkg/metric"
	"example.com/tokpace/pkg/virtual"
)

func source(t *testing.T, d dataset.Dataset) dataset.Source {
	t.Helper()
	src, err := d.Source(dataset.Env{Model: "tokpace-fake", IgnoreEOS: true})
	require.NoError(t, err)
	return src
}

// measured is what a run amounts to.
func measured(t *testing.T, r *load.Run) (set map[string]float64, notes []string) {
	t.Helper()
	exchanges, elapsed, err := r.Wait()
	require.NoError(t, err)
	s := metric.Of(metric.Run{Exchanges: exchanges, Elapsed: elapsed, Unfinished: r.Unfinished()})
	require.Zero(t, s.Failed, metric.Failures(exchanges, len(exchanges)))
	set = map[string]float64{}
	for _, v := range s.Values {
		set[v.Unit] = v.V
	}
	return set, s.Notes
}

// Sleeping the nominal gap after each send adds its own cost. 2,000 sends at 400/s
// leave at k/400 s each, and a client that was stopped for a while catches up.
func TestCaseH43RateDrift(t *testing.T) {
	for name, stall := range map[string]time.Duration{"steady": 0, "with a pause": 195 * ms} {
		t.Run(name, func(t *testing.T) {
			virtual.RunServer(t, fakeserver.Config{}, func(t *testing.T, c *client.Client, srv *fakeserver.Server) {
				src := source(t, dataset.Rerank{Query: 4, Documents: 1, Document: 4})
				start := time.Now()
				r := load.Open{Schedule: load.Constant{Rate: 400}}.Start(t.Context(), c.Do, pausing{src, 1000, stall}, 2000)
				exchanges, _, err := r.Wait()
				require.NoError(t, err)
				require.Len(t, exchanges, 2000)
				want := every(2500*time.Microsecond, 2000)
				require.Equal(t, want, each(exchanges, start, scheduled))
				if stall > 0 {
					// Building request 1000 begins 165 ms ahead of its time, so
					// the pause reaches 30 ms beyond it: those due until then
					// leave at its end, all others when they are due.
					for i := 1000; want[i] < 2530*ms; i++ {
						want[i] = 2530 * ms
					}
				}
				got := each(exchanges, start, sent)
				require.Equal(t, want, got)
				require.Equal(t, 4997500*time.Microsecond, got[1999])
				set, _ := measured(t, r)
				require.InEpsilon(t, 2000/4.9975, set["req/s"], 1e-15)
				require.NotContains(t, set, "ns/op")
				var arrived []time.Duration
				for _, rec := range srv.Journal() {
					arrived = append(arrived, rec.Arrived.Sub(start))
				}
				slices.Sort(arrived)
				require.Equal(t, want, arrived, "the server's own record")
			})
		})
	}
}

// pausing needs long to build one request.
type pausing struct {
	dataset.Source
	at    int
	takes time.Duration
}

func (p pausing) Request(i int) (*api.Request, error) {
	if i == p.at {
		time.Sleep(p.takes)
	}
	return p.Source.Request(i)
}

// The same on sockets, against the server's record: every request is sent once,
// none before its time, and the server sees each after its send.
func TestCaseH43OnSockets(t *testing.T) {
	for _, slots := range []int{0, 4} {
		srv := fakeserver.Start(t, fakeserver.Config{TTFT: 2 * ms})
		c := &client.Client{BaseURL: srv.URL}
		r := load.Open{Schedule: load.Poisson{Rate: 500}, MaxConcurrency: slots, MaxLag: time.Minute}.
			Start(t.Context(), c.Do, source(t, dataset.Chat{Input: 16, Output: 1, Stream: true}), 150)
		exchanges, elapsed, err := r.Wait()
		require.NoError(t, err)
		require.Len(t, exchanges, 150)
		times, err := load.Poisson{Rate: 500}.Times(0)
		require.NoError(t, err)
		var wanted []time.Duration
		for at := range times {
			if wanted = append(wanted, at); len(wanted) == 150 {
				break
			}
		}
		var sends, arrivals []time.Time
		start := exchanges[0].Scheduled.Add(-wanted[exchanges[0].Index])
		for _, ex := range exchanges {
			require.True(t, ex.OK, "%v", ex.Error)
			require.Equal(t, wanted[ex.Index], ex.Scheduled.Sub(start), "its own place in the schedule")
			require.False(t, ex.Ready.Before(ex.Scheduled), "not before its time")
			require.False(t, ex.Sent.Before(ex.Ready))
			sends = append(sends, ex.Sent)
		}
		for _, rec := range srv.Journal() {
			arrivals = append(arrivals, rec.Arrived)
		}
		require.Len(t, arrivals, 150, "each request once")
		slices.SortFunc(sends, time.Time.Compare)
		slices.SortFunc(arrivals, time.Time.Compare)
		for i := range sends {
			require.False(t, arrivals[i].Before(sends[i]))
		}
		require.GreaterOrEqual(t, elapsed, wanted[149]-exchanges[0].Sent.Sub(start))
		c.CloseIdleConnections()
		srv.Close()
	}
}

// A server that answers in 2 ms, but nothing between 1.0 and 1.5 s.
func stalling(l net.Listener) error {
	start := time.Now()
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		at := time.Since(start)
		if at >= time.Second && at < 1500*ms {
			time.Sleep(1500*ms - at)
		} else {
			time.Sleep(2 * ms)
		}
		fmt.Fprint(w, `{"object":"list","data":[{"index":0,"embedding":[1]}],"usage":{"prompt_tokens":4,"total_tokens":4}}`)
	})}
	return srv.Serve(l)
}

// Coordinated omission: latency from the schedule tells what users would have
// seen, also where the client waited with the server.
func TestCaseH44CoordinatedOmission(t *testing.T) {
	for _, tt := range []struct {
		slots              int
		p50, p99, sched50  time.Duration
		p90sched, p99sched time.Duration
		worst, queue       time.Duration
	}{
		// 250 fast ones, and 50 that wait 500 − 10k ms, k = 0 … 49.
		{slots: 0, p50: 2 * ms, p99: 470 * ms, sched50: 2 * ms, p90sched: 200 * ms, p99sched: 470 * ms, worst: 500 * ms},
		// One slot: a single answer is slow from its send, which p99 does not
		// see; it and the 62 behind it took 500 + 2k − 10k ms from the schedule.
		{slots: 1, p50: 2 * ms, p99: 2 * ms, sched50: 2 * ms, p90sched: 500*ms - 30*8*ms, p99sched: 500*ms - 3*8*ms, worst: 500 * ms, queue: 500*ms - 4*8*ms - 2*ms},
	} {
		t.Run(fmt.Sprintf("slots=%d", tt.slots), func(t *testing.T) {
			virtual.Serve(t, stalling, func(t *testing.T, c *client.Client) {
				l := load.Open{Schedule: load.Constant{Rate: 100}, MaxConcurrency: tt.slots}
				r := l.Start(t.Context(), c.Do, source(t, dataset.Embeddings{Input: 4}), 300)
				set, _ := measured(t, r)
				exchanges, _, _ := r.Wait()
				require.Len(t, exchanges, 300)
				require.Equal(t, float64(tt.p50), set["e2e-p50-ns"])
				require.Equal(t, float64(tt.p99), set["e2e-p99-ns"])
				require.Equal(t, float64(tt.sched50), set["e2e-sched-p50-ns"])
				require.Equal(t, float64(tt.p99sched), set["e2e-sched-p99-ns"])
				require.Equal(t, float64(tt.queue), set["queue-p99-ns"])
				require.Zero(t, set["send-lag-p99-ns"])
				var all []time.Duration
				for _, ex := range exchanges {
					all = append(all, ex.Queue().V+ex.E2E.V)
				}
				slices.Sort(all)
				require.Equal(t, tt.p90sched, metric.Percentile(all, 90))
				require.Equal(t, tt.worst, all[299])
			})
		})
	}
}

// Warm-up is in no number, uses prompts of its own, and its failures are known.
func TestCaseH46WarmupLeaks(t *testing.T) {
	for name, tt := range map[string]struct {
		load load.Load
		warm int
		took time.Duration // measured part
	}{
		"closed, requests": {load.Closed{N: 1, Warmup: load.Warmup{Requests: 3}}, 3, 400 * ms},
		"closed, time":     {load.Closed{N: 1, Warmup: load.Warmup{Duration: 610 * ms}}, 3, 400 * ms},
		"closed, both":     {load.Closed{N: 1, Warmup: load.Warmup{Requests: 3, Duration: time.Hour}}, 3, 400 * ms},
		"open":             {load.Open{Schedule: load.Constant{Rate: 50}, MaxConcurrency: 1, Warmup: load.Warmup{Requests: 3}}, 3, 400 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				n := 0
				s := &server{takes: func(int) time.Duration {
					mu.Lock()
					defer mu.Unlock()
					if n++; n <= 3 {
						return 300 * ms
					}
					return 20 * ms
				}}
				src := &numbers{takes: 7 * ms}
				warm, err := tt.load.WarmUp(t.Context(), s.do, src)
				require.NoError(t, err)
				require.Len(t, warm, tt.warm)
				r := tt.load.Start(t.Context(), s.do, src, 20)
				exchanges, elapsed, err := r.Wait()
				require.NoError(t, err)
				require.Len(t, exchanges, 20)
				require.Equal(t, tt.took, elapsed, "from the first measured send on")
				require.Len(t, s.bodies, 23)
				require.Zero(t, s.inFlight)
				seen := map[string]bool{}
				for _, body := range s.bodies {
					require.False(t, seen[body], "a prompt was sent twice")
					seen[body] = true
				}
			})
		})
	}
}

// A warm-up that fails, or cannot be built, is told.
func TestCaseH46WarmupFailures(t *testing.T) {
	virtual.Serve(t, func(l net.Listener) error {
		n := 0
		srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if n++; n <= 3 {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			fmt.Fprint(w, `{"object":"list","data":[{"index":0,"embedding":[1]}],"usage":{"prompt_tokens":4,"total_tokens":4}}`)
		})}
		return srv.Serve(l)
	}, func(t *testing.T, c *client.Client) {
		src := source(t, dataset.Embeddings{Input: 4})
		l := load.Closed{N: 1, Warmup: load.Warmup{Requests: 4}}
		warm, err := l.WarmUp(t.Context(), c.Do, src)
		require.NoError(t, err)
		require.Contains(t, metric.Failures(warm, len(warm)), "3 of 4 requests failed:\n  3 × http_status 503")
		set, _ := measured(t, l.Start(t.Context(), c.Do, src, 20))
		require.Equal(t, 1.0, set["ok/op"])

		_, err = l.WarmUp(t.Context(), c.Do, &numbers{failAt: load.WarmupIndex})
		require.ErrorIs(t, err, errUnbuilt)
		none, err := load.Closed{N: 1}.WarmUp(t.Context(), nil, nil)
		require.NoError(t, err)
		require.Nil(t, none)
	})
}

// Times are what the server planned, in both kinds of time. On sockets every
// stamp keeps its monotonic reading, so that no step of the wall clock gets into
// a difference.
func TestCaseH49Clocks(t *testing.T) {
	virtual.Run(t, fakeserver.Config{TTFT: 1250 * ms, ITL: 50 * ms}, func(t *testing.T, c *client.Client) {
		r := load.Open{Schedule: load.Constant{Rate: 2}}.Start(t.Context(), c.Do, source(t, dataset.Chat{Input: 8, Output: 2, Stream: true}), 3)
		set, _ := measured(t, r)
		for unit, want := range map[string]time.Duration{
			"ttft-p50-ns": 1250 * ms, "e2e-p99-ns": 1300 * ms, "itl-p50-ns": 50 * ms,
			"ttft-sched-p99-ns": 1250 * ms, "e2e-sched-p50-ns": 1300 * ms,
		} {
			require.Equal(t, float64(want), set[unit], unit)
		}
	})
	srv := fakeserver.Start(t, fakeserver.Config{})
	c := &client.Client{BaseURL: srv.URL}
	defer c.CloseIdleConnections()
	r := load.Open{Schedule: load.Constant{Rate: 1000}, MaxLag: time.Minute}.Start(t.Context(), c.Do, source(t, dataset.Embeddings{Input: 4}), 5)
	exchanges, _, err := r.Wait()
	require.NoError(t, err)
	for _, ex := range exchanges {
		for _, stamp := range []time.Time{ex.Scheduled, ex.Ready, ex.Sent} {
			require.NotEqual(t, stamp.Round(0), stamp, "without a monotonic reading")
		}
		require.GreaterOrEqual(t, ex.SendLag().V, time.Duration(0))
		require.GreaterOrEqual(t, ex.Queue().V, ex.SendLag().V)
	}
}
