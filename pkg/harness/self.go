package harness

import (
	"fmt"
	"math"
	"runtime"
	"runtime/metrics"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/tokpace/pkg/api"
	"example.com/tokpace/pkg/client"
	"example.com/tokpace/pkg/metric"
)

// defaultMaxOwnError keeps an own error below what the gate calls a change of a
// median, as far as p99 and median can be compared.
const defaultMaxOwnError = 0.1

// A meter reads what a run costs this process.
type meter struct {
	before collections
	start  client.Dur // processor time before the first send
	cpu    client.Dur // from the first send to the last end
}

// begin is called before the first request is built.
func (m *meter) begin() { m.before = readCollections() }

// first is called before the first send, by who sends.
func (m *meter) first() { m.start = processTime() }

// end is called when the last answer has ended.
func (m *meter) end() {
	if now := processTime(); now.Known && m.start.Known {
		m.cpu = api.Some(now.V - m.start.V)
	}
}

// collections are those of the garbage since the process began.
type collections struct {
	cycles uint64
	pauses []uint64  // how many, in each bucket
	bounds []float64 // of the buckets, in seconds
}

// readCollections is a variable for tests in virtual time, in which no pause is
// as short as it should be.
var readCollections = func() (c collections) {
	samples := []metrics.Sample{{Name: "/gc/cycles/total:gc-cycles"}, {Name: "/sched/pauses/total/gc:seconds"}}
	metrics.Read(samples)
	if v := samples[0].Value; v.Kind() == metrics.KindUint64 {
		c.cycles = v.Uint64()
	}
	if v := samples[1].Value; v.Kind() == metrics.KindFloat64Histogram {
		h := v.Float64Histogram()
		c.pauses, c.bounds = h.Counts, h.Buckets
	}
	return c
}

// since is the number of collections since an earlier reading, and the longest pause
// of them, 0 for no pause and absent where the runtime does not tell. It is the upper
// bound of the pause's bucket: up to a quarter more than the pause.
func (c collections) since(before collections) (n int, longest client.Dur) {
	n = int(c.cycles - before.cycles)
	if len(c.pauses) == 0 || len(c.pauses) != len(before.pauses) {
		return n, longest
	}
	for i, count := range slices.Backward(c.pauses) {
		if count == before.pauses[i] {
			continue
		}
		bound := c.bounds[i+1]
		if math.IsInf(bound, 1) {
			bound = c.bounds[i]
		}
		return n, api.Some(time.Duration(bound * float64(time.Second)))
	}
	return n, api.Some[time.Duration](0)
}

// self is what a run tells of its own measuring. It is called when the run is over.
func (s *sending) self(r metric.Run) metric.Self {
	self := metric.SelfOf(r, runtime.GOMAXPROCS(0))
	self.GCs, self.GCPauseMax = readCollections().since(s.meter.before)
	if journal := s.p.s.journal; journal != nil {
		self.ClientLag = metric.LagOf(clientLags(r.Exchanges, journal()))
	}
	return self
}

// judge records what a run amounts to, and says why it is invalid, "" if it is not.
func (p *prepared) judge(what part, r metric.Run, self metric.Self, set metric.Set) (why string, err error) {
	result := runResult{OK: set.OK, Failed: set.Failed, Elapsed: r.Elapsed, Self: self}
	if own, known := self.OwnError(); known {
		result.OwnError = &own
	}
	if set.OK > 0 && p.floor == "" {
		why = self.Invalid(r, p.s.settings.maxOwnError, p.s.inProcess)
		result.Valid, result.Invalid = api.Some(why == ""), why
	}
	return why, p.recordRun(what, result)
}

// invalid tells of an invalid run: beside its line, and at the end in a comment,
// for there may be none between lines. Strict fails the benchmark.
func (p *prepared) invalid(b *testing.B, why string) {
	b.Helper()
	process.Lock()
	i := slices.IndexFunc(process.invalid, func(r invalidRuns) bool { return r.name == p.name })
	if i < 0 {
		i, process.invalid = len(process.invalid), append(process.invalid, invalidRuns{name: p.name})
	}
	process.invalid[i].n++
	process.invalid[i].last = why
	process.Unlock()
	if p.s.settings.strict {
		b.Fatalf("invalid run: %s", why)
	}
	b.Logf("invalid run: %s", why)
}

// invalidRuns are those of one benchmark.
type invalidRuns struct {
	name string
	n    int
	last string // why
}

// invalidComments has a line for each benchmark with invalid runs, for tools to leave
// out.
func invalidComments() string {
	process.Lock()
	defer process.Unlock()
	var out strings.Builder
	for _, r := range process.invalid {
		times := ""
		if r.n > 1 {
			times = fmt.Sprintf(" (%d runs, the last:)", r.n)
		}
		fmt.Fprintf(&out, "# invalid: %s:%s %s\n", r.name, times, r.last)
	}
	return out.String()
}
