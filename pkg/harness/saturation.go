package harness

import (
	"fmt"
	"testing"
	"time"

	"example.com/tokpace/pkg/api"
	"example.com/tokpace/pkg/dataset"
	"example.com/tokpace/pkg/load"
	"example.com/tokpace/pkg/metric"
)

// DefaultPointTime is how long a search for saturation sends at each load when
// Saturation.Time is zero.
const DefaultPointTime = 5 * time.Second

// pointPrompts is how many numbers of the dataset each load of a search has for
// itself, so that none finds the prompts of another in a cache.
const pointPrompts = 1 << 20

// Saturation searches for the highest load that a target sustains, as
// metric.Sustained defines it with the Benchmark's Goodput, and reports the rate
// of answers there as saturation-req/s. It sends at one load after the other,
// whatever -benchtime is; b.Log tells what each gave.
//
//	harness.Saturation{
//		Benchmark: harness.Benchmark{Dataset: chat, Goodput: metric.SLO{"ttft-sched": time.Second}},
//		Search:    load.Search{Low: 1, High: 200},
//		At:        func(rate float64) load.Load { return load.Open{Schedule: load.Poisson{Rate: rate}} },
//	}.Run(b)
//
// A sweep that shows each load needs none of this: it is a loop around b.Run.
type Saturation struct {
	// Benchmark says what is measured; its Load is not looked at, but for the
	// Warmup of At's first load.
	Benchmark
	Search load.Search
	// At is the load at a value: an open loop of this rate, or a closed loop of
	// so many in flight. Its limits end a point as well as Time does.
	At func(value float64) load.Load
	// Time is how long each load is sent; what is in flight then is awaited.
	Time time.Duration
}

// Run searches. It fails b when Search.Low is not sustained.
func (m Saturation) Run(b *testing.B) {
	b.Helper()
	m.Benchmark.Load = m.At(m.Search.Low)
	p := m.prepare(b)
	var (
		best, rate float64
		requests   int
		searched   bool
	)
	for b.Loop() {
		if p.ctx.Err() != nil {
			b.Fatal(errInterrupted)
		}
		if searched {
			continue
		}
		searched = true
		var err error
		point := 0
		best, err = m.Search.Find(func(value float64) (bool, error) {
			point++
			r, err := p.point(b, m.At(value), point, m.pointTime())
			if err != nil {
				return false, err
			}
			requests += len(r.Exchanges)
			got, why := metric.Sustained(r, rate)
			if why != "" {
				b.Logf("%.4g: not sustained: %s", value, why)
				return false, nil
			}
			rate = got
			b.Logf("%.4g: %.4g requests/s", value, got)
			return true, nil
		})
		if err != nil {
			b.Fatal(err)
		}
		sleepOut(p.ctx, b)
	}
	if best == 0 {
		b.Fatalf("%.4g, the lowest load of the search, is not sustained", m.Search.Low)
	}
	b.Logf("sustained: %.4g", best)
	setN(b, requests)
	b.ReportMetric(rate, metric.Saturation)
	b.ReportMetric(0, "ns/op")
}

func (m Saturation) pointTime() time.Duration {
	if m.Time > 0 {
		return m.Time
	}
	return DefaultPointTime
}

// point sends one load of a search. A generator that falls behind is an error:
// what it would find is its own limit, not the server's.
func (p *prepared) point(b *testing.B, l load.Load, number int, d time.Duration) (metric.Run, error) {
	b.Helper()
	l = p.s.load(l)
	p.c.Warm(p.ctx, l.Connections(0), "/v1/models")
	what := part(fmt.Sprintf("point=%d", number))
	s := p.begin(what, expected{duration: d})
	defer s.end()
	run := s.start(l, s.do, shifted{p.src, number * pointPrompts}, 0)
	timer := time.AfterFunc(d, run.Stop)
	defer timer.Stop()
	exchanges, elapsed, err := run.Wait()
	s.meter.end()
	switch {
	case s.err() != nil:
		err = s.err()
	case p.ctx.Err() != nil:
		s.interrupted(b, run)
	}
	r := metric.Run{Exchanges: exchanges, Elapsed: elapsed, Unfinished: run.Unfinished(), Goodput: p.Goodput, CPU: s.meter.cpu}
	if err != nil {
		return r, err
	}
	why, err := p.judge(what, r, s.self(r), metric.Of(r))
	if why != "" {
		p.invalid(b, fmt.Sprintf("%s: %s", what, why))
	}
	return r, err
}

// shifted is a source without its first requests.
type shifted struct {
	dataset.Source
	by int
}

func (s shifted) Request(i int) (*api.Request, error) { return s.Source.Request(s.by + i) }
