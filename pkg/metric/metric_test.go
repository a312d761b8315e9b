package metric_test

import (
	"cmp"
	"encoding/json"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/tokpace/pkg/api"
	"example.com/tokpace/pkg/client"
	"example.com/tokpace/pkg/metric"
)

const ms = time.Millisecond

func dur(d time.Duration) client.Dur { return api.Some(d) }

// stream is a successful stream of the given times; its E2E is that of its last
// gap.
func stream(ttft time.Duration, gaps ...time.Duration) *client.Exchange {
	e2e := ttft
	for _, g := range gaps {
		e2e += g
	}
	return &client.Exchange{OK: true, Stream: true, Headers: dur(ms), TTFT: dur(ttft), E2E: dur(e2e), BodyComplete: dur(e2e + ms),
		ITL: gaps, Events: api.Some(len(gaps) + 1), BodyBytes: api.Some[int64](100)}
}

func failed(class api.Class) *client.Exchange {
	return &client.Exchange{Error: &api.Failure{Class: class, Message: "no"}, BodyBytes: api.Some[int64](7), Events: api.Some(1)}
}

func usage(ex *client.Exchange, in, out int64, source string) *client.Exchange {
	ex.InputTokens, ex.InputSource = api.Some(in), source
	ex.OutputTokens, ex.OutputSource = api.Some(out), source
	return ex
}

func values(s metric.Set) map[string]float64 {
	m := map[string]float64{}
	for _, v := range s.Values {
		m[v.Unit] = v.V
	}
	return m
}

func TestCaseH45Percentile(t *testing.T) {
	upTo := func(n int) []time.Duration {
		var d []time.Duration
		for i := range n {
			d = append(d, time.Duration(i+1)*ms)
		}
		return d
	}
	for _, tt := range []struct {
		samples []time.Duration
		percent int
		want    time.Duration
	}{
		{[]time.Duration{10 * ms, 20 * ms, 30 * ms}, 50, 20 * ms},
		{[]time.Duration{10 * ms, 20 * ms, 30 * ms}, 99, 30 * ms},
		{[]time.Duration{10 * ms, 20 * ms, 30 * ms}, 33, 10 * ms},
		{[]time.Duration{10 * ms, 20 * ms, 30 * ms}, 34, 20 * ms},
		{upTo(20), 95, 19 * ms},
		{upTo(20), 99, 20 * ms},
		{upTo(20), 50, 10 * ms},
		{upTo(100), 50, 50 * ms},
		{upTo(100), 99, 99 * ms},
		{upTo(100), 100, 100 * ms},
		{upTo(101), 99, 100 * ms},
		{upTo(200), 99, 198 * ms},
		{[]time.Duration{7 * ms}, 1, 7 * ms},
		{[]time.Duration{7 * ms}, 50, 7 * ms},
		{[]time.Duration{7 * ms}, 99, 7 * ms},
		{[]time.Duration{7 * ms}, 100, 7 * ms},
		{[]time.Duration{1, 2}, 50, 1},
	} {
		require.Equal(t, tt.want, metric.Percentile(tt.samples, tt.percent), "p%d of %d", tt.percent, len(tt.samples))
	}
	for n := 1; n <= 130; n++ {
		samples := upTo(n)
		last := time.Duration(0)
		for percent := 1; percent <= 100; percent++ {
			p := metric.Percentile(samples, percent)
			require.Contains(t, samples, p)
			require.GreaterOrEqual(t, p, last, "monotone")
			last = p
		}
		require.Equal(t, samples[n-1], last)
	}
}

func TestOfByHand(t *testing.T) {
	a := usage(stream(10*ms, 2*ms, 4*ms), 531, 3, client.FromServer)
	a.TPOT = dur(3 * ms)
	b := usage(stream(30*ms, 6*ms), 531, 2, client.FromServer)
	b.TPOT = dur(6 * ms)
	b.BodyBytes = api.Some[int64](150)
	c := usage(stream(20*ms, 0, 8*ms), 531, 3, client.FromServer)
	c.TPOT = dur(4 * ms)
	s := metric.Of(metric.Run{Exchanges: []*client.Exchange{a, b, c}, Elapsed: 2 * time.Second})
	require.Equal(t, []metric.Value{
		// 17, 37, 29 ms
		{Unit: "body-complete-p50-ns", V: 29e6}, {Unit: "body-complete-p99-ns", V: 37e6},
		// 16, 36, 28 ms
		{Unit: "e2e-p50-ns", V: 28e6}, {Unit: "e2e-p99-ns", V: 36e6},
		{Unit: "headers-p50-ns", V: 1e6},
		// 0, 2, 4, 6, 8 ms: the gaps of all exchanges together
		{Unit: "itl-p50-ns", V: 4e6}, {Unit: "itl-p99-ns", V: 8e6},
		{Unit: "tpot-p50-ns", V: 4e6}, {Unit: "tpot-p99-ns", V: 6e6},
		{Unit: "ttft-p50-ns", V: 20e6}, {Unit: "ttft-p99-ns", V: 30e6},
		{Unit: "body-B-mean/op", V: 350.0 / 3},
		{Unit: "events-mean/op", V: 8.0 / 3},
		{Unit: "input-tok/op", V: 531},
		{Unit: "output-tok-mean/op", V: 8.0 / 3},
		{Unit: "output-tok/event", V: 1}, {Unit: "input-tok/s", V: 1593.0 / 2},
		{Unit: "output-tok/s", V: 4},
		{Unit: "ok/op", V: 1},
		{Unit: "merged-reads/op", V: 0},
	}, s.Values)
	require.Equal(t, []string{"p99 of fewer than 100 samples is just the largest: body-complete 3, e2e 3, itl 5, tpot 3, ttft 3"}, s.Notes)
	require.Equal(t, 3, s.OK)
	require.Zero(t, s.Failed)
}

func TestThinTails(t *testing.T) {
	run := func(n int) metric.Set {
		var all []*client.Exchange
		for i := range n {
			all = append(all, &client.Exchange{OK: true, E2E: dur(time.Duration(i) * ms)})
		}
		return metric.Of(metric.Run{Exchanges: all, Elapsed: time.Second})
	}
	require.Len(t, run(99).Notes, 1)
	require.Empty(t, run(100).Notes)
	require.Equal(t, 98e6, values(run(100))["e2e-p99-ns"])
	require.Equal(t, 49e6, values(run(100))["e2e-p50-ns"])
}

func TestZerosAreKept(t *testing.T) {
	v := values(metric.Of(metric.Run{Exchanges: []*client.Exchange{stream(0, 0, 0)}, Elapsed: time.Second}))
	for _, unit := range []string{"itl-p50-ns", "ttft-p50-ns", "e2e-p99-ns"} {
		require.Contains(t, v, unit)
		require.Zero(t, v[unit])
	}
}

// Which count goes out under which unit.
func TestCounts(t *testing.T) {
	server, cl := client.FromServer, client.FromClient
	with := func(in, out int64, source string) *client.Exchange {
		return usage(&client.Exchange{OK: true}, in, out, source)
	}
	none := func() *client.Exchange { return &client.Exchange{OK: true} }
	details := func(cached, image api.Opt[int64]) *client.Exchange {
		ex := with(5, 5, server)
		ex.CachedTokens, ex.ImageTokens = cached, image
		return ex
	}
	for _, tt := range []struct {
		name  string
		in    []*client.Exchange
		want  map[string]float64 // besides ok/op
		notes []string
	}{
		{"all the same", []*client.Exchange{with(7, 2, server), with(7, 2, server)},
			map[string]float64{"input-tok/op": 7, "output-tok/op": 2, "input-tok/s": 7, "output-tok/s": 2}, nil},
		{"not the same", []*client.Exchange{with(7, 2, server), with(8, 2, server)},
			map[string]float64{"input-tok-mean/op": 7.5, "output-tok/op": 2, "input-tok/s": 7.5, "output-tok/s": 2}, nil},
		{"a true zero", []*client.Exchange{with(7, 0, server)},
			map[string]float64{"input-tok/op": 7, "output-tok/op": 0, "input-tok/s": 3.5, "output-tok/s": 0}, nil},
		{"the client's own", []*client.Exchange{with(7, 2, cl), with(7, 3, cl)},
			map[string]float64{"client-input-tok/op": 7, "client-output-tok-mean/op": 2.5}, nil},
		{"mixed sources", []*client.Exchange{with(7, 2, server), with(7, 2, cl), with(7, 2, server)}, map[string]float64{}, []string{
			"client-input-tok/op: left out, since only 1 of 3 answers have it",
			"client-output-tok/op: left out, since only 1 of 3 answers have it",
			"input-tok/op: left out, since only 2 of 3 answers have it",
			"output-tok/op: left out, since only 2 of 3 answers have it"}},
		{"some without", []*client.Exchange{with(7, 2, server), none()}, map[string]float64{}, []string{
			"input-tok/op: left out, since only 1 of 2 answers have it",
			"output-tok/op: left out, since only 1 of 2 answers have it"}},
		{"none with", []*client.Exchange{none(), none()}, map[string]float64{}, nil},
		{"a failed one does not count", []*client.Exchange{with(7, 2, server), failed(api.Timeout)},
			map[string]float64{"input-tok/op": 7, "output-tok/op": 2, "input-tok/s": 3.5, "output-tok/s": 1}, nil},
		{"details", []*client.Exchange{details(api.Some[int64](3), api.Some[int64](4)), details(api.Some[int64](3), api.Opt[int64]{})},
			map[string]float64{"cached-tok/op": 3, "input-tok/op": 5, "output-tok/op": 5, "input-tok/s": 5, "output-tok/s": 5},
			[]string{"image-tok/op: left out, since only 1 of 2 answers have it"}},
		{"absurd counts do not wrap", []*client.Exchange{with(math.MaxInt64, 1, server), with(math.MaxInt64, 1, server), with(math.MaxInt64-1, 1, server)},
			map[string]float64{"input-tok-mean/op": math.MaxInt64, "output-tok/op": 1, "input-tok/s": 3 * float64(math.MaxInt64) / 2, "output-tok/s": 1.5}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := metric.Of(metric.Run{Exchanges: tt.in, Elapsed: 2 * time.Second})
			got := values(s)
			require.Equal(t, float64(s.OK)/float64(len(tt.in)), got["ok/op"])
			delete(got, "ok/op")
			require.Equal(t, tt.want, got)
			require.Equal(t, tt.notes, s.Notes)
		})
	}
}

func TestCaseH47FailuresInNoStatistic(t *testing.T) {
	var all []*client.Exchange
	for range 10 {
		all = append(all, &client.Exchange{OK: true, E2E: dur(50 * ms)})
	}
	for range 5 {
		// Latencies that must not get in, should a failed exchange have any.
		bad, cut := failed(api.HTTPStatus), failed(api.Truncated)
		bad.E2E, bad.Error.Status = dur(ms), 500
		cut.E2E, cut.TTFT, cut.ITL = dur(500*ms), dur(ms), []time.Duration{ms}
		all = append(all, bad, cut)
	}
	s := metric.Of(metric.Run{Exchanges: all, Elapsed: time.Second})
	require.Equal(t, map[string]float64{"e2e-p50-ns": 50e6, "e2e-p99-ns": 50e6, "ok/op": 0.5}, values(s))
	require.Equal(t, 10, s.OK)
	require.Equal(t, 10, s.Failed)
	require.Equal(t, "10 of 20 requests failed:\n  5 × http_status 500: no\n  5 × truncated: no", metric.Failures(all, len(all)))
}

func TestFailures(t *testing.T) {
	require.Empty(t, metric.Failures(nil, 0))
	require.Empty(t, metric.Failures([]*client.Exchange{stream(ms)}, 1))
	first := failed(api.Timeout)
	first.Error.Message = "the first of them"
	require.Equal(t, "4 of 9 requests failed:\n  3 × timeout: the first of them\n  1 × connect: no",
		metric.Failures([]*client.Exchange{first, failed(api.Connect), stream(ms), failed(api.Timeout), failed(api.Timeout)}, 9))
}

func TestCaseH48OneTokenAnswers(t *testing.T) {
	var all []*client.Exchange
	for range 5 {
		all = append(all, usage(stream(50*ms), 3, 1, client.FromServer))
	}
	v := values(metric.Of(metric.Run{Exchanges: all, Elapsed: time.Second}))
	require.Equal(t, 50e6, v["ttft-p50-ns"])
	require.Equal(t, 1.0, v["output-tok/op"])
	for unit := range v {
		require.NotRegexp(t, "^(tpot|itl)", unit)
	}

	s := metric.Of(metric.Run{Exchanges: []*client.Exchange{failed(api.Empty), failed(api.Connect)}, Elapsed: time.Second})
	require.Equal(t, []metric.Value{{Unit: "ok/op", V: 0}}, s.Values, "all failed")
	require.Empty(t, s.Notes)

	require.Equal(t, metric.Set{}, metric.Of(metric.Run{}), "nothing sent")
}

func TestUnits(t *testing.T) {
	units := metric.Units()
	require.True(t, slices.IsSortedFunc(units, func(a, b metric.Unit) int { return cmp.Compare(a.Name, b.Name) }))
	seen := map[string]bool{}
	for _, u := range units {
		require.False(t, seen[u.Name], u.Name)
		seen[u.Name] = true
		require.Regexp(t, regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9-]*(/op|/event|/s|-ns)$`), u.Name)
		require.Contains(t, []string{"", "lower", "higher"}, u.Better)
		switch {
		case strings.HasPrefix(u.Name, "floor-"), slices.Contains([]string{"client-cpu-ns/op", "merged-reads/op"}, u.Name):
			require.Equal(t, metric.Unit{Name: u.Name}, u, "nothing is to be compared")
		case strings.HasSuffix(u.Name, "-ns"):
			require.Equal(t, "lower", u.Better, u.Name)
			require.False(t, u.Exact, u.Name)
		case strings.HasSuffix(u.Name, "/s"):
			require.Equal(t, "higher", u.Better, u.Name)
			require.False(t, u.Exact, u.Name)
		default:
			require.True(t, u.Exact, u.Name)
		}
	}
	require.Contains(t, units, metric.Unit{Name: "ok/op", Better: "higher", Exact: true})
	require.Contains(t, units, metric.Unit{Name: "input-tok/op", Exact: true, Mean: "input-tok-mean/op"})
}

// Whatever happened, what comes out is finite, declared, and there once.
func TestRandomRuns(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	maybe := func() bool { return rng.IntN(3) > 0 }
	span := func() client.Dur {
		if !maybe() {
			return client.Dur{}
		}
		return dur([]time.Duration{0, 1, ms, time.Hour, math.MaxInt64}[rng.IntN(5)])
	}
	number := func() api.Opt[int64] {
		if !maybe() {
			return api.Opt[int64]{}
		}
		return api.Some([]int64{0, 1, 2, 1606, math.MaxInt64}[rng.IntN(5)])
	}
	declared := map[string]bool{}
	for _, u := range metric.Units() {
		declared[u.Name] = true
	}
	emitted, means := map[string]bool{}, map[string]bool{}
	for range 3000 {
		var all []*client.Exchange
		for range rng.IntN(5) {
			ex := &client.Exchange{OK: maybe(), Headers: span(), TTFT: span(), E2E: span(), BodyComplete: span(), TPOT: span(),
				InputTokens: number(), OutputTokens: number(), CachedTokens: number(), ImageTokens: number(), BodyBytes: number()}
			ex.InputSource = []string{client.FromServer, client.FromClient}[rng.IntN(2)]
			ex.OutputSource = []string{client.FromServer, client.FromClient}[rng.IntN(2)]
			if maybe() {
				ex.Events, ex.Reads = api.Some(rng.IntN(3)), rng.IntN(3)
				ex.MergedReads, ex.KernelStamps = rng.IntN(ex.Reads+1), rng.IntN(ex.Reads+1)
			}
			for range rng.IntN(3) {
				ex.ITL = append(ex.ITL, span().V)
			}
			begun := time.Unix(1e9, 0)
			if maybe() {
				ex.Sent = begun.Add(time.Duration(rng.IntN(1e9)))
			}
			if maybe() {
				ex.Scheduled = begun.Add(-time.Duration(rng.IntN(2) * rng.IntN(1e9)))
				ex.Ready = ex.Scheduled.Add(time.Duration(rng.IntN(2) * rng.IntN(1e9)))
			}
			if !ex.OK {
				ex.Error = &api.Failure{Class: api.Empty}
			}
			all = append(all, ex)
		}
		run := metric.Run{Exchanges: all, Elapsed: span().V, Unfinished: rng.IntN(2), Steady: maybe(), CPU: span()}
		if maybe() {
			run.Goodput = metric.SLO{"ttft": ms, "queue": time.Second}
		}
		s := metric.Of(run)
		require.LessOrEqual(t, s.Good, s.OK)
		self := metric.SelfOf(run, rng.IntN(3))
		_, err := json.Marshal(self) // fails where something is not finite
		require.NoError(t, err)
		require.NotContains(t, self.Invalid(run, 0.1, maybe()), "\n")
		floor := slices.DeleteFunc(metric.Floor(run), func(v metric.Value) bool { return v.Unit == "client-cpu-ns/op" })
		seen := map[string]bool{}
		for _, v := range append(s.Values, floor...) {
			count, mean := strings.CutSuffix(v.Unit, "-mean/op")
			if mean {
				require.False(t, seen[count+"/op"], "either all the same or a mean")
				means[v.Unit], v.Unit = true, count+"/op"
			}
			require.True(t, declared[v.Unit], v.Unit)
			require.False(t, seen[v.Unit], v.Unit)
			seen[v.Unit], emitted[v.Unit] = true, true
			require.False(t, math.IsNaN(v.V) || math.IsInf(v.V, 0) || v.V < 0, "%s %v", v.Unit, v.V)
		}
		require.Equal(t, len(all), s.OK+s.Failed)
		for _, note := range s.Notes {
			require.NotContains(t, note, "\n")
		}
	}
	emitted[metric.Saturation] = true // of a search, not of a run
	require.Len(t, emitted, len(declared), "every unit can occur")
	require.Len(t, means, 8, "and so can the mean of every count")
}
