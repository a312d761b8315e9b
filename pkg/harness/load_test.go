package harness

import (
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/tokpace/fakeserver"
	"example.com/tokpace/pkg/dataset"
	"example.com/tokpace/pkg/load"
	"example.com/tokpace/pkg/metric"
)

var rerank = dataset.Rerank{Query: 4, Documents: 1, Document: 4}

// measure runs a benchmark of the built-in fake in virtual time.
func measure(t *testing.T, benchtime string, m Benchmark) (r testing.BenchmarkResult, took time.Duration) {
	t.Helper()
	clean(t)
	setBenchtime(t, benchtime)
	synctest.Test(t, func(*testing.T) {
		start := time.Now()
		r = testing.Benchmark(m.Run)
		closeServers()
		took = time.Since(start)
	})
	return r, took
}

// An open loop shows what came of the schedule, not ns/op.
func TestOpenLoop(t *testing.T) {
	m := Benchmark{
		Target: Target{Header: plan("ttft=100ms")}, Dataset: rerank,
		Load:    load.Open{Schedule: load.Constant{Rate: 40}, MaxConcurrency: 2},
		Goodput: metric.SLO{"e2e-sched": 200 * time.Millisecond}, Steady: true,
	}
	r, took := measure(t, "20x", m)
	require.Equal(t, 20, r.N)
	require.Equal(t, 1025*time.Millisecond, took)
	// Two slots of 100 ms for one request each 25 ms: pair k is sent at k·100
	// and k·100 + 25 ms, and took 100 + 50·k ms from its schedule.
	require.Equal(t, 0.0, r.Extra["ns/op"], "0 hides it")
	require.NotRegexp(t, `\sns/op`, r.String())
	require.Equal(t, 1e8, r.Extra["e2e-p99-ns"])
	require.Equal(t, 550e6, r.Extra["e2e-sched-p99-ns"])
	require.Equal(t, 450e6, r.Extra["queue-p99-ns"])
	require.InEpsilon(t, 20/1.025, r.Extra["req/s"], 1e-12)
	require.InEpsilon(t, 6/1.025, r.Extra["goodput-req/s"], 1e-12)
	require.InEpsilon(t, 17/0.825, r.Extra["steady-req/s"], 1e-12)
	require.Positive(t, r.Extra["allocs/op"])

	closed := m
	closed.Load, closed.Steady = load.Closed{N: 2}, false
	r, _ = measure(t, "20x", closed)
	require.Equal(t, 50e6, r.Extra["ns/op"])
	require.NotContains(t, r.Extra, "req/s")
}

// An open loop under -benchtime=1s goes on for about as long.
func TestOpenLoopByTime(t *testing.T) {
	r, took := measure(t, "1s", Benchmark{Target: Target{Header: plan("ttft=10ms")}, Dataset: rerank, Load: load.Open{Schedule: load.Poisson{Rate: 200}}})
	require.GreaterOrEqual(t, took, time.Second)
	require.Less(t, took, 2*time.Second, "testing looks at the time only now and then")
	require.InEpsilon(t, 200*took.Seconds(), r.N, 0.2)
	require.Equal(t, 1e7, r.Extra["e2e-sched-p99-ns"])
}

// A run that ends by its own limits, or with its schedule, says how many requests
// it was, whatever -benchtime wanted.
func TestRunEndsByItself(t *testing.T) {
	target := Target{Header: plan("ttft=10ms")}
	for name, tt := range map[string]struct {
		load load.Load
		n    int
	}{
		"requests": {load.Closed{N: 2, Limits: load.Limits{Requests: 30}}, 30},
		"duration": {load.Closed{N: 2, Limits: load.Limits{Duration: 55 * time.Millisecond}}, 10},
		"trace":    {load.Open{Schedule: load.Trace{At: make([]time.Duration, 7)}}, 7},
	} {
		for _, benchtime := range []string{"1s", "1000x"} {
			r, took := measure(t, benchtime, Benchmark{Target: target, Dataset: rerank, Load: tt.load})
			require.Equal(t, tt.n, r.N, name)
			if benchtime == "1s" {
				require.Equal(t, time.Second, took)
			} else {
				require.Less(t, took, 200*time.Millisecond)
			}
			if _, open := tt.load.(load.Open); !open {
				require.InDelta(t, 5e6, r.Extra["ns/op"], 6e5)
			}
		}
	}
}

// What makes no sense fails the benchmark: it has no result.
func TestLoadErrors(t *testing.T) {
	for name, m := range map[string]Benchmark{
		"rate":    {Dataset: rerank, Load: load.Open{Schedule: load.Poisson{Rate: math.NaN()}}},
		"goodput": {Dataset: rerank, Load: load.Closed{N: 1}, Goodput: metric.SLO{"speed": 1}},
		"nothing": {Dataset: rerank, Load: load.Closed{N: 1, Limits: load.Limits{Duration: time.Millisecond}}, Target: Target{Header: plan("ttft=1s")}},
		"warm-up": {Dataset: slowSource{}, Load: load.Closed{N: 1, Warmup: load.Warmup{Requests: 1}}},
	} {
		r, _ := measure(t, "10x", m)
		require.Zero(t, r.N, name)
	}
}

// A benchmark fails when its generator falls behind.
func TestMaxLag(t *testing.T) {
	// Each request takes 20 ms to build, and is wanted after 10 ms.
	m := Benchmark{Dataset: slowSource{rerank}, Load: load.Open{Schedule: load.Constant{Rate: 100}}}
	r, _ := measure(t, "400x", m)
	require.Zero(t, r.N)
	r, _ = measure(t, "60x", m)
	require.Equal(t, 60, r.N, "so few are built ahead")
	m.Load = load.Open{Schedule: load.Constant{Rate: 100}, MaxLag: time.Hour}
	r, _ = measure(t, "400x", m)
	require.Equal(t, 400, r.N)
	require.Greater(t, r.Extra["send-lag-p99-ns"], 1e9)
	require.Equal(t, r.Extra["send-lag-p99-ns"], r.Extra["queue-p99-ns"])

	s, err := readSettings([]string{"TOKPACE_MAX_LAG=20ms", "TOKPACE_SEED=9"})
	require.NoError(t, err)
	srv := &server{settings: s}
	require.Equal(t, load.Open{Seed: 9, MaxLag: 20 * time.Millisecond}, srv.load(load.Open{MaxLag: time.Hour}))
	require.Equal(t, load.Open{Seed: 4, MaxLag: 20 * time.Millisecond}, srv.load(load.Open{Seed: 4}))
	require.Equal(t, load.Closed{N: 3}, srv.load(load.Closed{N: 3}))
	for _, bad := range []string{"0", "-1s", "fast"} {
		_, err = readSettings([]string{"TOKPACE_MAX_LAG=" + bad})
		require.EqualError(t, err, "TOKPACE_MAX_LAG="+bad+": want a duration such as 20ms")
	}
}

// The warm-up is sent before the run, fails without failing it, and is in none
// of its numbers.
func TestCaseH46WarmupOfABenchmark(t *testing.T) {
	clean(t)
	setBenchtime(t, "20x")
	fake, err := fakeserver.New(FakeConfig())
	require.NoError(t, err)
	t.Cleanup(func() { _ = fake.Close() })
	handler := fake.Handler()
	var posts atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && posts.Add(1) <= 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	for _, l := range []load.Load{
		load.Closed{N: 1, Warmup: load.Warmup{Requests: 5}},
		load.Open{Schedule: load.Constant{Rate: 1000}, MaxLag: time.Minute, Warmup: load.Warmup{Requests: 5}},
	} {
		posts.Store(0)
		r := testing.Benchmark(Benchmark{Target: Target{URL: srv.URL}, Dataset: rerank, Load: l}.Run)
		require.Equal(t, 20, r.N)
		require.Equal(t, 1.0, r.Extra["ok/op"])
		require.EqualValues(t, 25, posts.Load())
	}

	// What failed is said beside the result.
	posts.Store(0)
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), exe, "-test.run=^$", "-test.bench=^BenchmarkOpenLoop$", "-test.benchtime=20x")
	cmd.Env = append(os.Environ(), "TOKPACE_TARGET=", "TOKPACE_BASE_URL="+srv.URL, "TOKPACE_MAX_LAG=1m")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), "warm-up: 3 of 10 requests failed:\n")
	require.Regexp(t, `BenchmarkOpenLoop\S*\s+20\s.*goodput-req/s.*1.000 ok/op.*req/s.*ttft-sched-p99-ns`, string(out))
	require.EqualValues(t, 30, posts.Load())
}

// The fake answers each request in 100 ms, whatever its load: what limits it here
// is the cap of four, which is 40 requests a second.
func TestSaturation(t *testing.T) {
	target := Target{Header: plan("ttft=100ms")}
	search := func(m Saturation) (r testing.BenchmarkResult, took time.Duration) {
		clean(t)
		setBenchtime(t, "1s")
		synctest.Test(t, func(*testing.T) {
			start := time.Now()
			r = testing.Benchmark(m.Run)
			closeServers()
			took = time.Since(start)
		})
		return r, took
	}
	open := Saturation{
		Benchmark: Benchmark{Target: target, Dataset: rerank},
		Search:    load.Search{Low: 10, Resolution: 0.2},
		At:        func(rate float64) load.Load { return load.Open{Schedule: load.Constant{Rate: rate}, MaxConcurrency: 4} },
		Time:      2 * time.Second,
	}
	r, took := search(open)
	// 10, 20 and 40 are sustained; 80, 57 and 48 are not.
	require.InDelta(t, 40, r.Extra["saturation-req/s"], 0.5)
	require.Less(t, took, 20*time.Second)
	require.Greater(t, r.N, 2*(10+20+40))
	require.NotRegexp(t, `\sns/op`, r.String())

	// With a limit on the latency from the schedule.
	slow := open
	slow.Goodput = metric.SLO{"e2e-sched": 50 * time.Millisecond}
	r, _ = search(slow)
	require.Zero(t, r.N, "not even the lowest")

	closed := open
	closed.Search = load.Search{Low: 1, High: 8, Whole: true}
	closed.At = func(n float64) load.Load { return load.Closed{N: int(n)} }
	r, _ = search(closed)
	require.InDelta(t, 80, r.Extra["saturation-req/s"], 1)
}
