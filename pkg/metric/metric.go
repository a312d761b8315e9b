// Package metric defines the metrics: what a set of exchanges amounts to, under
// which unit, and which direction is better. It knows nothing of testing.B; the
// harness prints what this package returns.
//
//	set := metric.Of(metric.Run{Exchanges: exchanges, Elapsed: elapsed})
//	for _, v := range set.Values {
//		b.ReportMetric(v.V, v.Unit)
//	}
//	for _, note := range set.Notes {
//		b.Log(note)
//	}
//
// The definitions carry a version. Numbers of different versions must not be
// compared, and the harness prints the version with every result.
package metric

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"example.com/tokpace/pkg/api"
	"example.com/tokpace/pkg/client"
)

// Version names the definitions of this package.
const Version = "v1"

// A Run is what was measured: all exchanges of one benchmark run, failed ones
// included.
type Run struct {
	Exchanges []*client.Exchange
	// Elapsed is the time from the first send to the last answer's end.
	Elapsed time.Duration
	// Unfinished is how many requests the load scheduled that have no end; they
	// are not among Exchanges.
	Unfinished int
	// Goodput says which answers are good; without it there is no
	// goodput-req/s.
	Goodput SLO
	// Steady adds the metrics of the steady part of the run: see Window.
	Steady bool
	// CPU is the processor time, user and system, that this process used between
	// the first send and the last answer's end, absent where nobody can tell. A
	// server in this process has used some of it.
	CPU client.Dur
}

// A Value is one metric of a run. It is finite.
type Value struct {
	Unit string
	V    float64
}

// A Set is the metrics of a run.
type Set struct {
	// Values holds the metrics that exist: latencies, counts, rates, each kind
	// in the order of its names. Statistics are over successful exchanges only;
	// a metric without data is left out.
	// Zeros are kept: leaving a zero latency out is up to who prints.
	Values []Value
	// Notes are remarks for people: what was left out and why.
	Notes []string
	// OK and Failed count exchanges.
	OK, Failed int
	// Good counts the exchanges that keep Run.Goodput, 0 without it.
	Good int

	thin []string // latencies with too few samples for a p99
}

// Of computes the metrics of a run.
func Of(r Run) Set {
	var s Set
	ok := make([]*client.Exchange, 0, len(r.Exchanges))
	for _, ex := range r.Exchanges {
		if ex.OK {
			ok = append(ok, ex)
		}
	}
	s.OK, s.Failed = len(ok), len(r.Exchanges)-len(ok)
	for _, l := range latencies {
		s.latency("", l, ok)
	}
	if r.Steady {
		s.steady(r, ok)
	}
	if len(s.thin) > 0 {
		s.note("p99 of fewer than %d samples is just the largest: %s", p99Samples, strings.Join(s.thin, ", "))
	}
	for _, c := range counts {
		s.count(c, ok)
	}
	s.tokensPerEvent(ok)
	s.rates(r, ok)
	s.goodput(r, ok)
	s.own(r, ok)
	s.schedule(r)
	s.warnings(ok)
	return s
}

// warnings notes what the exchanges warned of, each kind once.
func (s *Set) warnings(ok []*client.Exchange) {
	times := map[string]int{}
	for _, ex := range ok {
		if ex.Connect.Known {
			times["a connection was made for it, inside its latencies"]++
		}
		if ex.Attempts > 1 {
			times["sent twice, since a reused connection had died"]++
		}
		for _, w := range ex.Warnings {
			times[w]++
		}
	}
	for _, w := range slices.Sorted(maps.Keys(times)) {
		s.note("%d of %d answers: %s", times[w], len(ok), w)
	}
}

func (s *Set) add(unit string, v float64) {
	s.Values = append(s.Values, Value{Unit: unit, V: v})
}

func (s *Set) note(format string, args ...any) {
	s.Notes = append(s.Notes, fmt.Sprintf(format, args...))
}

// A latency is one kind of time span.
type latency struct {
	name string
	tail tail
	get  func(*client.Exchange) client.Dur // nil for gaps, of which there are many
}

// A tail says which of a latency's statistics are metrics.
type tail int

const (
	both tail = iota
	onlyP50
	onlyP99
)

var latencies = []latency{
	{"body-complete", both, func(ex *client.Exchange) client.Dur { return ex.BodyComplete }},
	{"e2e", both, func(ex *client.Exchange) client.Dur { return ex.E2E }},
	{"e2e-sched", both, func(ex *client.Exchange) client.Dur { return plus(ex.Queue(), ex.E2E) }},
	{"headers", onlyP50, func(ex *client.Exchange) client.Dur { return ex.Headers }},
	{"itl", both, nil},
	{"queue", onlyP99, (*client.Exchange).Queue},
	{"send-lag", onlyP99, (*client.Exchange).SendLag},
	{"tpot", both, func(ex *client.Exchange) client.Dur { return ex.TPOT }},
	{"ttft", both, func(ex *client.Exchange) client.Dur { return ex.TTFT }},
	{"ttft-sched", both, func(ex *client.Exchange) client.Dur { return plus(ex.Queue(), ex.TTFT) }},
}

// plus is absent when one of two spans is.
func plus(a, b client.Dur) client.Dur {
	if !a.Known || !b.Known {
		return client.Dur{}
	}
	return api.Some(a.V + min(b.V, math.MaxInt64-a.V))
}

// of is the latency's samples in one exchange.
func (l latency) of(ex *client.Exchange) []time.Duration {
	if l.get == nil {
		return ex.ITL
	}
	if d := l.get(ex); d.Known {
		return []time.Duration{d.V}
	}
	return nil
}

// units are the latency's metrics, each with its percentile.
func (l latency) units() (units []string, percents []int) {
	if l.tail != onlyP99 {
		units, percents = append(units, l.name+"-p50-ns"), append(percents, 50)
	}
	if l.tail != onlyP50 {
		units, percents = append(units, l.name+"-p99-ns"), append(percents, 99)
	}
	return units, percents
}

// p99Samples is how many samples a p99 needs to be more than the maximum.
const p99Samples = 100

// latency adds the statistics of a latency, prefix before their names.
func (s *Set) latency(prefix string, l latency, ok []*client.Exchange) {
	var samples []time.Duration
	for _, ex := range ok {
		samples = append(samples, l.of(ex)...)
	}
	if len(samples) == 0 {
		return
	}
	slices.Sort(samples)
	units, percents := l.units()
	for i, unit := range units {
		s.add(prefix+unit, float64(Percentile(samples, percents[i])))
	}
	if l.tail != onlyP50 && len(samples) < p99Samples {
		s.thin = append(s.thin, fmt.Sprintf("%s%s %d", prefix, l.name, len(samples)))
	}
}

// Percentile is the nearest-rank percentile of sorted samples: the one with
// rank ceil(percent/100 · n), computed in integers. It is always one of the
// samples. samples must not be empty, percent must be in 1 … 100.
func Percentile(samples []time.Duration, percent int) time.Duration {
	rank := (len(samples)*percent + 99) / 100
	return samples[rank-1]
}

// A count is a whole number of each exchange.
type count struct {
	name   string
	unit   string // name + unit, or name + meanOf + unit
	source string // "" where only the server can know
	get    func(*client.Exchange) (api.Opt[int64], string)
}

var counts = []count{
	{"body-B", "/op", "", func(ex *client.Exchange) (api.Opt[int64], string) { return ex.BodyBytes, "" }},
	{"cached-tok", "/op", "", func(ex *client.Exchange) (api.Opt[int64], string) { return ex.CachedTokens, "" }},
	{"client-input-tok", "/op", client.FromClient, input},
	{"client-output-tok", "/op", client.FromClient, output},
	{"events", "/op", "", func(ex *client.Exchange) (api.Opt[int64], string) {
		return api.Opt[int64]{V: int64(ex.Events.V), Known: ex.Events.Known}, ""
	}},
	{"image-tok", "/op", "", func(ex *client.Exchange) (api.Opt[int64], string) { return ex.ImageTokens, "" }},
	{"input-tok", "/op", client.FromServer, input},
	{"output-tok", "/op", client.FromServer, output},
}

// meanOf marks the unit of a count that is not the same in all answers.
const meanOf = "-mean"

func input(ex *client.Exchange) (api.Opt[int64], string)  { return ex.InputTokens, ex.InputSource }
func output(ex *client.Exchange) (api.Opt[int64], string) { return ex.OutputTokens, ex.OutputSource }

// count reports a count under its plain unit when all exchanges agree, as a
// mean when they do not, and not at all when some of them lack it: losing a
// server's usage must become a missing row, not a slightly different number.
func (s *Set) count(c count, ok []*client.Exchange) {
	var (
		sum   float64 // exact to 2^53, and a server's nonsense cannot wrap it
		known int
		first int64
		same  = true
	)
	for _, ex := range ok {
		v, source := c.get(ex)
		if !v.Known || source != c.source {
			continue
		}
		if known == 0 {
			first = v.V
		}
		same = same && v.V == first
		sum += float64(v.V)
		known++
	}
	switch {
	case known == 0:
	case known < len(ok):
		s.note("%s%s: left out, since only %d of %d answers have it", c.name, c.unit, known, len(ok))
	case same:
		s.add(c.name+c.unit, float64(first))
	default:
		s.add(c.name+meanOf+c.unit, sum/float64(known))
	}
}

// tokensPerEvent tells how far the gaps between events are gaps between tokens:
// it is 1 where each token has an event of its own, more where servers bundle
// them or speculate, less where the end token has none. It needs the server's
// count in every stream.
func (s *Set) tokensPerEvent(ok []*client.Exchange) {
	tokens, events := 0.0, 0.0
	for _, ex := range ok {
		if !ex.Events.Known {
			continue
		}
		if !ex.OutputTokens.Known || ex.OutputSource != client.FromServer {
			return
		}
		tokens += float64(ex.OutputTokens.V)
		events += float64(ex.Events.V)
	}
	if events > 0 {
		s.add("output-tok/event", tokens/events)
	}
}

// rates are per second of Elapsed; token rates exist only where every answer
// has the server's own count.
func (s *Set) rates(r Run, ok []*client.Exchange) {
	if len(r.Exchanges) == 0 {
		return
	}
	if seconds := r.Elapsed.Seconds(); seconds > 0 && len(ok) > 0 {
		if r.open() {
			s.add("req/s", float64(len(ok))/seconds)
		}
		for _, t := range []struct {
			unit string
			get  func(*client.Exchange) (api.Opt[int64], string)
		}{{"input-tok/s", input}, {"output-tok/s", output}} {
			sum, all := 0.0, true
			for _, ex := range ok {
				v, source := t.get(ex)
				all = all && v.Known && source == client.FromServer
				sum += float64(v.V)
			}
			if all {
				s.add(t.unit, sum/seconds)
			}
		}
	}
	s.add("ok/op", float64(len(ok))/float64(len(r.Exchanges)))
}
