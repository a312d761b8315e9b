// Package harness joins the measurement to testing.B: it finds the target, runs
// the load, and reports the metrics in the standard benchmark format, so that
// benchstat can compare runs of different commits.
//
//	func TestMain(m *testing.M) { harness.Main(m) }
//
//	func BenchmarkChat(b *testing.B) {
//		for _, n := range []int{1, 8} {
//			b.Run(fmt.Sprintf("conc=%d", n), func(b *testing.B) {
//				harness.Run(b, harness.Target{}, dataset.Chat{Input: 512, Output: 64, Stream: true}, load.Closed{N: n})
//			})
//		}
//	}
//
// Without any setting the built-in fake server is measured. OPENAI_BASE_URL and
// OPENAI_API_KEY name another; every setting is an environment variable
// TOKPACE_…, listed by `go test . -args -help` in every package whose TestMain
// is Main.
package harness

import (
	"context"
	"flag"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"example.com/tokpace/pkg/api"
	"example.com/tokpace/pkg/client"
	"example.com/tokpace/pkg/dataset"
	"example.com/tokpace/pkg/load"
	"example.com/tokpace/pkg/metric"
)

// process is what holds for all benchmarks of the process.
var process struct {
	sync.Mutex
	settings *settings
	ctx      context.Context
	exact    bool // Unit lines said assume=exact
	ran      bool // a benchmark has come as far as sending
	running  int  // benchmarks that are sending: they see an interrupt themselves
}

func currentSettings() (*settings, error) {
	process.Lock()
	defer process.Unlock()
	if process.settings == nil {
		s, err := environSettings()
		if err != nil {
			return nil, err
		}
		process.settings = s
	}
	return process.settings, nil
}

func currentContext() context.Context {
	process.Lock()
	defer process.Unlock()
	if process.ctx == nil {
		return context.Background()
	}
	return process.ctx
}

func declaredExact() bool {
	process.Lock()
	defer process.Unlock()
	return process.exact
}

// OnFake reports whether the target is tokpace's own fake server, in this
// process or another: benchmarks that need its behaviour ask first. It fails b
// when the target does not answer.
func OnFake(b *testing.B, t Target) bool {
	b.Helper()
	s, release, err := find(currentContext(), t)
	if err != nil {
		b.Fatal(err)
	}
	defer release()
	return s.fake()
}

// Run measures a target: it sends the requests of d as l says until b has seen
// enough, and reports the metrics of package metric. It is Benchmark.Run for
// those who need nothing more.
//
// One operation is one request, and one iteration of b.Loop ends when one
// request completes: with -benchtime=Nx exactly N requests are sent. ns/op is
// the time from the first send to the last answer, divided by the successful
// requests; an open loop, whose schedule sets that, reports req/s instead. B/op
// and allocs/op are over the same time, and reported only where the server runs
// in this process too. Requests that fail beyond the setting max-fail (0) fail
// the benchmark, which then prints no line; so does an open loop that fell behind
// its schedule.
func Run(b *testing.B, t Target, d dataset.Dataset, l load.Load) {
	b.Helper()
	Benchmark{Target: t, Dataset: d, Load: l}.Run(b)
}

// A Benchmark is what Run measures, with more to wish for.
type Benchmark struct {
	Target  Target
	Dataset dataset.Dataset
	Load    load.Load
	// Goodput says which answers are good, and adds goodput-req/s.
	Goodput metric.SLO
	// Steady adds steady-…, the metrics of the steady part of the run.
	Steady bool
}

// Run measures.
func (m Benchmark) Run(b *testing.B) {
	b.Helper()
	m.run(b)
}

// run measures, and returns the run's metrics.
func (m Benchmark) run(b *testing.B) (metric.Run, metric.Set) {
	b.Helper()
	if err := m.Goodput.Check(); err != nil {
		b.Fatalf("goodput: %v", err)
	}
	ctx, cancel := context.WithCancel(currentContext())
	defer cancel()
	s, release, err := find(ctx, m.Target)
	if err != nil {
		b.Fatal(err)
	}
	defer release()
	src, err := s.source(ctx, m.Dataset)
	if err != nil {
		b.Fatal(err)
	}
	limit := requestLimit()
	l := s.load(m.Load)
	c := s.client(m.Target.Header)
	c.Warm(ctx, l.Connections(limit), "/v1/models")
	process.Lock()
	process.ran = true
	process.running++
	process.Unlock()
	defer func() {
		process.Lock()
		process.running--
		process.Unlock()
	}()
	warm, err := l.WarmUp(ctx, c.Do, src)
	switch {
	case ctx.Err() != nil:
		b.Fatal("interrupted")
	case err != nil:
		b.Fatalf("warm-up: %v", err)
	}
	if text := metric.Failures(warm, len(warm)); text != "" {
		b.Logf("warm-up: %s", text)
	}

	if s.inProcess {
		b.ReportAllocs()
	}
	var (
		run    *load.Run
		before runtime.MemStats
		begun  sync.Once
		failed []*client.Exchange
		seen   int
		over   bool // the run has ended by itself
	)
	do := func(ctx context.Context, req *api.Request) *client.Exchange {
		begun.Do(func() { runtime.ReadMemStats(&before) })
		return c.Do(ctx, req)
	}
	for b.Loop() {
		if over {
			continue
		}
		if run == nil {
			run = l.Start(ctx, do, src, limit)
		}
		select {
		case ex, ok := <-run.Done():
			if ctx.Err() != nil {
				continue // the other case ends the run
			}
			if !ok {
				if _, _, err := run.Wait(); err != nil {
					b.Fatal(err)
				}
				over = true
				sleepOut(ctx, b)
				continue
			}
			seen++
			if ex.OK {
				continue
			}
			if failed = append(failed, ex); len(failed) > s.settings.maxFail {
				run.Stop()
				cancel()
				run.Wait()
				b.Fatal(metric.Failures(failed, seen))
			}
		case <-ctx.Done():
			run.Stop()
			run.Wait()
			b.Fatal("interrupted")
		}
	}
	run.Stop()
	exchanges, elapsed, err := run.Wait()
	var after runtime.MemStats
	runtime.ReadMemStats(&after)
	if err != nil {
		b.Fatal(err)
	}
	if ctx.Err() != nil {
		b.Fatal("interrupted")
	}
	result := metric.Run{Exchanges: exchanges, Elapsed: elapsed, Unfinished: run.Unfinished(), Goodput: m.Goodput, Steady: m.Steady}
	set := metric.Of(result)
	switch {
	case set.Failed > s.settings.maxFail:
		b.Fatal(metric.Failures(exchanges, len(exchanges)))
	case set.OK == 0:
		b.Fatalf("no request succeeded: %d failed, %d were unfinished when the run ended", set.Failed, result.Unfinished)
	}
	if over {
		b.N = len(exchanges)
		if limit > 0 {
			b.Logf("%d of %d requests: the load's own limits, or the end of its schedule, came first", len(exchanges), limit)
		}
	}
	if m.Target.URL != "" {
		b.Logf("target: %s, model %s", s.name(), s.shown(s.model))
	}
	if declared := declaredExact(); declared && !s.fake() {
		b.Log("assume=exact, printed for the default target, does not hold for this one")
	}
	if note := s.lengthNote(m.Dataset.API()); note != "" {
		b.Log(note)
	}
	notes(b, l, run, len(exchanges), limit)
	report(b, set)
	n := float64(set.OK)
	if _, open := l.(load.Open); open {
		b.ReportMetric(0, "ns/op") // hides it
	} else {
		b.ReportMetric(float64(elapsed)/n, "ns/op")
	}
	if s.inProcess {
		b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/n, "B/op")
		b.ReportMetric(float64(after.Mallocs-before.Mallocs)/n, "allocs/op")
	}
	return result, set
}

// load is l with what the settings say of it.
func (s *server) load(l load.Load) load.Load {
	open, ok := l.(load.Open)
	if !ok {
		return l
	}
	if open.Seed == 0 {
		open.Seed = s.settings.seed
	}
	if s.settings.maxLag > 0 {
		open.MaxLag = s.settings.maxLag
	}
	return open
}

// notes says where the load was not what it seems.
func notes(b *testing.B, l load.Load, run *load.Run, n, limit int) {
	b.Helper()
	starved := run.Starved()
	closed, ok := l.(load.Closed)
	if ok && limit > 0 && limit < closed.N {
		b.Logf("only %d requests, so never %d in flight", limit, closed.N)
	}
	switch {
	case starved*20 <= n:
	case ok:
		b.Logf("%d of %d sends waited until their request was built: the client is the limit, and fewer than %d requests were in flight", starved, n, closed.N)
	default:
		b.Logf("%d of %d sends waited until their request was built: the client is the limit, and the wait is in the latencies from the schedule", starved, n)
	}
}

// sleepOut waits until b would end by itself: a run that ended by its own limits
// leaves b.Loop to run empty.
func sleepOut(ctx context.Context, b *testing.B) {
	d, err := time.ParseDuration(flagValue("test.benchtime"))
	if err != nil {
		return // a number of iterations
	}
	select {
	case <-time.After(d - b.Elapsed()):
	case <-ctx.Done():
	}
}

// source prepares the requests of d for the server.
func (s *server) source(ctx context.Context, d dataset.Dataset) (dataset.Source, error) {
	words, err := s.vocabulary(ctx, d.API())
	if err != nil {
		return nil, err
	}
	src, err := d.Source(dataset.Env{
		Model: s.model, Seed: s.settings.seed, IgnoreEOS: s.pinsLength(), Words: words,
	})
	if err != nil || s.settings.endpoint == "" {
		return src, err
	}
	return endpointSource{src, s.settings.endpoint}, nil
}

// report prints what b's line may hold: a latency of 0 is left out, since
// benchstat would read it as another unit and split the row.
func report(b *testing.B, set metric.Set) {
	b.Helper()
	for _, v := range set.Values {
		if v.V == 0 && strings.HasSuffix(v.Unit, "-ns") {
			b.Logf("%s is 0 and left out: %s", v.Unit, zeroReason(v.Unit))
			continue
		}
		b.ReportMetric(v.V, v.Unit)
	}
	if failures := set.Failed; failures > 0 {
		b.Logf("%d of %d requests failed and are in no statistic", failures, failures+set.OK)
	}
	for _, note := range set.Notes {
		b.Log(note)
	}
}

// zeroReason says what a latency of exactly 0 means.
func zeroReason(unit string) string {
	if strings.HasPrefix(unit, "itl-") || strings.HasPrefix(unit, "tpot-") {
		return "one read brought several events, as behind a proxy that buffers"
	}
	return "shorter than the clock can tell"
}

// requestLimit is N of -benchtime=Nx, 0 when the benchmark is bounded by time.
func requestLimit() int {
	f := flag.Lookup("test.benchtime")
	if f == nil {
		return 0
	}
	count, ok := strings.CutSuffix(f.Value.String(), "x")
	if !ok {
		return 0
	}
	n, err := strconv.Atoi(count)
	if err != nil {
		return 0
	}
	return n
}
