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

	serve *shape // of a benchmark that is Serve's
}

// Run measures.
func (m Benchmark) Run(b *testing.B) {
	b.Helper()
	m.prepare(b).measure(b)
}
