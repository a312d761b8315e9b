package harness

import (
	"context"
	"flag"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"example.com/tokpace/fakeserver"
	"example.com/tokpace/pkg/api"
	"example.com/tokpace/pkg/client"
	"example.com/tokpace/pkg/dataset"
	"example.com/tokpace/pkg/load"
	"example.com/tokpace/pkg/metric"
)

// A prepared benchmark has its target, connected and warmed up.
type prepared struct {
	Benchmark // its Load with what the settings say of it

	s     *server
	c     *client.Client
	src   dataset.Source
	limit int             // of requests, by -benchtime
	ctx   context.Context // ends with an interrupt

	recorder *load.Recorder // nil for none
	name     string
	runID    string
	begun    time.Time
}

// prepare fails b when something is wrong.
func (m Benchmark) prepare(b *testing.B) *prepared {
	b.Helper()
	if err := m.Goodput.Check(); err != nil {
		b.Fatalf("goodput: %v", err)
	}
	p := &prepared{Benchmark: m, limit: requestLimit(), ctx: currentContext(), name: b.Name(), begun: time.Now()}
	if p.ctx.Err() != nil {
		b.Fatal(errInterrupted)
	}
	s, release, err := m.server(p.ctx)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(release)
	if p.src, err = s.source(p.ctx, m.Dataset); err != nil {
		b.Fatal(err)
	}
	p.s, p.c, p.Load = s, s.client(m.Target.Header), s.load(m.Load)
	if p.recorder, err = s.settings.openRecords(); err != nil {
		b.Fatal(err)
	}
	if p.recorder != nil {
		p.runID = runID(b, p.begun)
		p.c.DiscardText = !s.settings.recordsText
	}
	p.c.Warm(p.ctx, p.Load.Connections(p.limit), "/v1/models")
	process.Lock()
	process.ran = true
	process.running++
	process.Unlock()
	b.Cleanup(func() {
		process.Lock()
		process.running--
		process.Unlock()
	})
	p.fillPools()
	b.Cleanup(watchTimeout(b))
	_, warmup := p.ends()
	w := p.begin(warmupPart, expected{warmup.Requests, warmup.Duration})
	warm, err := p.Load.WarmUp(w.ctx, w.do, p.src)
	w.end()
	switch {
	case w.err() != nil:
		b.Fatal(w.err())
	case p.ctx.Err() != nil:
		b.Fatal(errInterrupted)
	case err != nil:
		b.Fatalf("warm-up: %v", err)
	}
	if text := metric.Failures(warm, len(warm)); text != "" {
		b.Logf("warm-up: %s", text)
	}
	return p
}

// server finds the server that the benchmark is for.
func (m Benchmark) server(ctx context.Context) (s *server, release func(), err error) {
	if m.floor != "" {
		return findNull(m.floor)
	}
	return find(ctx, m.Target)
}

// fillSteps are the times of the plans of fillPools: in the first all requests are
// open at once, as they will be.
var fillSteps = []string{"1ms", "0s", "0s", "0s"}

// fillPools sends the built-in fake requests that it answers soon. A benchmark
// of a few requests would else pay for the first use of every buffer, or not,
// as the scheduler pleases, and B/op would differ from run to run by more
// than a change that matters. Whom the user measures, another server or a fake
// of his own, gets no request that was not asked for.
func (p *prepared) fillPools() {
	if !p.s.builtIn {
		return
	}
	crowd(256, func(int) {}) // the runtime keeps memory for each goroutine that waits
	// Each builds its own request, since the standard library's pools have a
	// place for each processor.
	n := p.Load.Connections(p.limit) + 2*runtime.GOMAXPROCS(0)
	for _, step := range fillSteps {
		c := p.s.client(hurried(p.Target.Header, step))
		crowd(n, func(i int) {
			if req, err := p.src.Request(load.WarmupIndex + i); err == nil {
				c.Do(p.ctx, req) // what fails here fails again
			}
		})
	}
}

// crowd has n goroutines begin to do something at the same time.
func crowd(n int, do func(i int)) {
	var (
		wg    sync.WaitGroup
		begun = make(chan struct{})
	)
	for i := range n {
		wg.Go(func() {
			<-begun
			do(i)
		})
	}
	runtime.Gosched()
	close(begun)
	wg.Wait()
}

// hurried is a target's header with a plan for the fake server that is the same but
// for its times, which are all step.
func hurried(header http.Header, step string) http.Header {
	times := []string{"headers", "ttft", "itl", "piece-delay"}
	var plan []string
	for pair := range strings.SplitSeq(header.Get(fakeserver.PlanHeader), ";") {
		key, _, _ := strings.Cut(pair, "=")
		if key = strings.TrimSpace(key); key != "" && !slices.Contains(times, key) {
			plan = append(plan, pair)
		}
	}
	for _, key := range times {
		plan = append(plan, key+"="+step)
	}
	header = header.Clone()
	if header == nil {
		header = http.Header{}
	}
	header.Set(fakeserver.PlanHeader, strings.Join(plan, ";"))
	return header
}

// A sent load is what came of it.
type sent struct {
	metric.Run
	starved       int
	early         bool // it ended by itself, before b had enough
	self          metric.Self
	bytes, allocs uint64
}

// measure runs the load and reports its metrics.
func (p *prepared) measure(b *testing.B) {
	b.Helper()
	if p.s.inProcess {
		b.ReportAllocs()
	}
	w := &watch{}
	if p.floor == "" {
		var err error
		if w, err = p.s.watch(p.ctx, p.Target.Header, p.serve); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(w.close)
	}
	r := p.send(b)
	set := metric.Of(r.Run)
	switch {
	case set.Failed > p.s.settings.maxFail, set.OK == 0 && set.Failed > 0:
		b.Fatal(metric.Failures(r.Exchanges, len(r.Exchanges)))
	case set.OK == 0:
		b.Fatalf("no request was answered: %d were unfinished when the run ended", r.Unfinished)
	}
	why, err := p.judge(wholeRun, r.Run, r.self, set)
	if err != nil {
		b.Fatal(err)
	}
	if why != "" {
		p.invalid(b, why)
	}
	if p.floor != "" {
		reportValues(b, metric.Floor(r.Run))
	} else {
		p.notes(b, r)
		report(b, set)
	}
	if p.serve != nil {
		p.serve.reportPercentiles(b, r.Exchanges)
	}
	w.end(p.ctx, b, len(r.Exchanges)+r.Unfinished)
	n := float64(set.OK)
	if _, open := p.Load.(load.Open); open || p.floor != "" {
		b.ReportMetric(0, "ns/op") // hides it
	} else {
		b.ReportMetric(float64(r.Elapsed)/n, "ns/op")
	}
	if p.s.inProcess {
		b.ReportMetric(float64(r.bytes)/n, "B/op")
		b.ReportMetric(float64(r.allocs)/n, "allocs/op")
	}
}

// send sends until b has seen enough, or the load has ended by itself.
func (p *prepared) send(b *testing.B) (r sent) {
	b.Helper()
	var (
		run           *load.Run
		before, after runtime.MemStats
		failed        []*client.Exchange
		seen          int
	)
	s := p.begin(wholeRun, p.expected())
	defer s.end()
	for b.Loop() {
		if p.ctx.Err() != nil {
			s.interrupted(b, run)
		}
		if r.early {
			continue
		}
		if run == nil {
			// How many requests are built ahead of the first send is chance: it
			// must not be in B/op.
			src := &noticed{Source: p.src, first: func() { runtime.ReadMemStats(&before) }}
			run = s.start(p.Load, s.do, src, p.limit)
		}
		select {
		case ex, ok := <-run.Done():
			if p.ctx.Err() != nil || s.ctx.Err() != nil {
				continue // the other cases end the run
			}
			if !ok {
				if _, _, err := run.Wait(); err != nil {
					b.Fatal(err)
				}
				r.early = true
				sleepOut(p.ctx, b)
				continue
			}
			seen++
			if ex.OK {
				continue
			}
			if failed = append(failed, ex); len(failed) > p.s.settings.maxFail {
				run.Stop()
				s.cut(nil)
				run.Wait()
				b.Fatal(metric.Failures(failed, seen))
			}
		case <-s.ctx.Done():
			run.Wait()
			b.Fatal(s.err())
		case <-p.ctx.Done():
			s.interrupted(b, run)
		}
	}
	run.Stop()
	exchanges, elapsed, err := run.Wait()
	s.meter.end()
	runtime.ReadMemStats(&after)
	switch {
	case s.err() != nil:
		b.Fatal(s.err())
	case p.ctx.Err() != nil:
		s.interrupted(b, run)
	case err != nil:
		b.Fatal(err)
	}
	if r.early {
		setN(b, len(exchanges))
	}
	r.Run = metric.Run{Exchanges: exchanges, Elapsed: elapsed, Unfinished: run.Unfinished(), Goodput: p.Goodput, Steady: p.Steady, CPU: s.meter.cpu}
	r.self = s.self(r.Run)
	r.starved = run.Starved()
	r.bytes, r.allocs = after.TotalAlloc-before.TotalAlloc, after.Mallocs-before.Mallocs
	return r
}

// ends is what the load says of its own end, and of its warm-up's.
func (p *prepared) ends() (load.Limits, load.Warmup) {
	switch l := p.Load.(type) {
	case load.Closed:
		return l.Limits, l.Warmup
	case load.Open:
		return l.Limits, l.Warmup
	}
	return load.Limits{}, load.Warmup{}
}

// expected is how far the run will go.
func (p *prepared) expected() expected {
	limits, _ := p.ends()
	e := expected{requests: limits.Requests, duration: limits.Duration}
	if p.limit > 0 && (e.requests <= 0 || p.limit < e.requests) {
		e.requests = p.limit
	}
	if d, err := time.ParseDuration(flagValue("test.benchtime")); err == nil && (e.duration <= 0 || d < e.duration) {
		e.duration = d
	}
	return e
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

// noticed is a source that calls first before its first request is built.
type noticed struct {
	dataset.Source
	once  sync.Once
	first func()
}

func (n *noticed) Request(i int) (*api.Request, error) {
	n.once.Do(n.first)
	return n.Source.Request(i)
}

// notes says where the run was not what it seems.
func (p *prepared) notes(b *testing.B, r sent) {
	b.Helper()
	n := len(r.Exchanges)
	if r.early && p.limit > 0 {
		b.Logf("%d of %d requests: the load's own limits, or the end of its schedule, came first", n, p.limit)
	}
	if p.Target.URL != "" {
		b.Logf("target: %s, model %s", p.s.name(), p.s.shown(p.s.model))
	}
	if declaredExact() && !p.s.fake() {
		b.Log("assume=exact, printed for the default target, does not hold for this one")
	}
	if note := p.s.lengthNote(p.Dataset.API()); note != "" {
		b.Log(note)
	}
	closed, ok := p.Load.(load.Closed)
	if ok && p.limit > 0 && p.limit < closed.N {
		b.Logf("only %d requests, so never %d in flight", p.limit, closed.N)
	}
	switch {
	case r.starved*20 <= n:
	case ok:
		b.Logf("%d of %d sends waited until their request was built: the client is the limit, and fewer than %d requests were in flight", r.starved, n, closed.N)
	default:
		b.Logf("%d of %d sends waited until their request was built: the client is the limit, and the wait is in the latencies from the schedule", r.starved, n)
	}
}

// setN makes the line of b, whose loop has ended, say n iterations: how often
// b.Loop ran empty is nobody's concern.
func setN(b *testing.B, n int) {
	b.N = n //lint:ignore SA3001 the loop has ended, and nothing counts by N any more
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
	reportValues(b, set.Values)
	if failures := set.Failed; failures > 0 {
		b.Logf("%d of %d requests failed and are in no statistic", failures, failures+set.OK)
	}
	for _, note := range set.Notes {
		b.Log(note)
	}
}

func reportValues(b *testing.B, values []metric.Value) {
	b.Helper()
	for _, v := range values {
		if v.V == 0 && strings.HasSuffix(v.Unit, "-ns") {
			b.Logf("%s is 0 and left out: %s", v.Unit, zeroReason(v.Unit))
			continue
		}
		b.ReportMetric(v.V, v.Unit)
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
