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
// BenchmarkServe, whose body is Serve, is shaped by settings alone: its load,
// lengths and sampling.
//
// Without any setting the built-in fake server is measured. OPENAI_BASE_URL and
// OPENAI_API_KEY name another; every setting is an environment variable
// TOKPACE_…, listed by `go test . -args -help` in every package whose TestMain
// is Main.
//
// Under Main, the controlling terminal shows where a benchmark is that takes longer
// than a second. Ctrl-C or SIGTERM stops the sends; what is in flight may end in the
// grace time, then it is cut off. The benchmark has no line then: what there is of
// it is printed at the end, in lines that begin with #, and the exit code is 1. A
// second one ends the process at once.
//
// Every run looks at its own error: how late its sends were, how much later than the
// built-in fake sent them its events were seen, how long the garbage collector
// stopped it. When the largest of these is more than a share of what the run measures
// (TOKPACE_MAX_OWN_ERROR), or the client had no processor time to spare, the run is
// invalid: b.Log says so, a line that begins with # at the end, and its record; with
// TOKPACE_STRICT the benchmark fails. Floor measures the harness alone.
//
// TOKPACE_RECORDS names a file to which each request appends a line of JSON when it
// has ended, before it is counted: the fields of client.Exchange, whose schema is
// client.Schema, and these:
//
//	run        tells runs apart: name, GOMAXPROCS, start and commit
//	benchmark  the benchmark's name
//	metrics    version of the metrics' definitions
//	warmup     true in a warm-up, which is in no metric
//	index      number of the request in the data set
//	sent       clock time of the send; absent when it came to none
//	scheduled  when the schedule wanted the send; open loop only
//	ready      when the load generator came to it; open loop only
//
// A line of the schema load.RunSchema follows those of a run that has a result: run,
// benchmark and metrics as above, and

//	ok_requests, failed_requests, elapsed_ns
//	valid      false when the run's own error is too large (see the settings
//	           max-own-error and strict), invalid says why; absent where there is
//	           nothing to be wrong
//	own_error  the largest error of its own, and which that is
//	self       all that is known of those: metric.Self
//
// Clock times are RFC 3339 with nanoseconds. They follow the wall clock's at the
// start of the run with the monotonic clock, so their differences within a run are
// exact.
package harness

import (
	"context"
	"sync"
	"testing"

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
	terminal *terminal
	summary  string // of the run that was interrupted
	invalid  []invalidRuns
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

func currentTerminal() *terminal {
	process.Lock()
	defer process.Unlock()
	return process.terminal
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
// and allocs/op are over the same time and the building of the requests, and
// reported only where the server runs in this process too. Requests that fail beyond the setting max-fail (0) fail
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

	serve *shape // of a benchmark that is Serve's
	floor string // the answer of one that is Floor's
}

// Run measures.
func (m Benchmark) Run(b *testing.B) {
	b.Helper()
	m.prepare(b).measure(b)
}
