package metric

import (
	"fmt"
	"math"

	"example.com/tokpace/pkg/prom"
)

// A ServerRun is what a server's /metrics said around one run.
type ServerRun struct {
	// Before and After were read when nothing of the run was in flight, During
	// while it went on, perhaps not at all.
	Before, After prom.Metrics
	During        []prom.Metrics
	// Sent is the number of requests of the run, failed ones included.
	Sent int
}

// OfServer computes what a server says of itself, under the names of vLLM's
// metrics, old and new. What the server does not have, or has not used, is left
// out; so is all that is counted when a counter fell, since the server is then
// not the one that the run began with.
func OfServer(r ServerRun) (values []Value, notes []string) {
	s := serverSet{r: r}
	if name := s.restarted(); name != "" {
		s.note("the server's own metrics are left out: its counter %s fell during the run, so it was started anew", name)
		return nil, s.notes
	}
	if r.Sent > 0 {
		for _, c := range serverCounts {
			if c.with != "" {
				if used, ok := s.increase(c.with); !ok || used <= 0 {
					continue
				}
			}
			if v, ok := s.increase(c.series); ok {
				s.add(c.unit, v/float64(r.Sent))
			}
		}
	}
	for _, q := range serverRatios {
		s.ratio(q)
	}
	for _, l := range serverSpans {
		s.mean(l)
	}
	for _, g := range serverGauges {
		s.peak(g)
	}
	s.company()
	return s.values, s.notes
}

// A serverCount is a counter's increase by request.
type serverCount struct {
	unit   string
	series string
	with   string // a counter that stands still where the server has this switched off
	better string
}

const (
	promptTokens      = "vllm:prompt_tokens_total"
	generationTokens  = "vllm:generation_tokens_total"
	cacheQueries      = "vllm:prefix_cache_queries_total"
	cacheHits         = "vllm:prefix_cache_hits_total"
	oldCacheQueries   = "vllm:gpu_prefix_cache_queries_total"
	oldCacheHits      = "vllm:gpu_prefix_cache_hits_total"
	preemptions       = "vllm:num_preemptions_total"
	drafts            = "vllm:spec_decode_num_drafts_total"
	draftTokens       = "vllm:spec_decode_num_draft_tokens_total"
	acceptedTokens    = "vllm:spec_decode_num_accepted_tokens_total"
	requestsRunning   = "vllm:num_requests_running"
	requestsWaiting   = "vllm:num_requests_waiting"
	requestsSucceeded = "vllm:request_success_total"
	processStart      = "process_start_time_seconds"
)

// The counts of prefix cache queries are tokens only under the new name, so the
// old one is good for the ratio alone.
var serverCounts = []serverCount{
	{unit: "server-prompt-tok/op", series: promptTokens},
	{unit: "server-generation-tok/op", series: generationTokens},
	{unit: "server-prefix-cache-queries-tok/op", series: cacheQueries, with: cacheQueries},
	{unit: "server-prefix-cache-hits-tok/op", series: cacheHits, with: cacheQueries},
	{unit: "server-preemptions/op", series: preemptions, better: "lower"},
}

// A serverRatio is a counter's increase by another's. The first pair of names
// that the server has counts.
type serverRatio struct {
	unit  string
	pairs [][2]string
	plus  float64
}

const cacheHitUnit = "server-prefix-cache-hits/query"

var serverRatios = []serverRatio{
	{unit: cacheHitUnit, pairs: [][2]string{{cacheHits, cacheQueries}, {oldCacheHits, oldCacheQueries}}},
	{unit: "server-spec-acceptance-rate", pairs: [][2]string{{acceptedTokens, draftTokens}}},
	// The token that the target model itself adds to each draft counts.
	{unit: "server-spec-acceptance-length", pairs: [][2]string{{acceptedTokens, drafts}}, plus: 1},
}

// A serverSpan is the mean of a histogram of seconds.
type serverSpan struct {
	unit  string
	names []string
}

var serverSpans = []serverSpan{
	{"server-ttft-mean-ns", []string{"vllm:time_to_first_token_seconds"}},
	{"server-itl-mean-ns", []string{"vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds"}},
	{"server-e2e-mean-ns", []string{"vllm:e2e_request_latency_seconds"}},
	{"server-queue-mean-ns", []string{"vllm:request_queue_time_seconds"}},
	{"server-prefill-mean-ns", []string{"vllm:request_prefill_time_seconds"}},
	{"server-decode-mean-ns", []string{"vllm:request_decode_time_seconds"}},
}

// A serverGauge is the largest value that was seen during the run. The values
// before and after it say nothing: nothing was in flight then.
type serverGauge struct {
	unit  string
	names []string
	// sum says that the engines of one server add up; else the fullest counts.
	sum bool
}

var serverGauges = []serverGauge{
	{"server-running-max", []string{requestsRunning}, true},
	{"server-waiting-max", []string{requestsWaiting}, true},
	{"server-kv-cache-usage-max", []string{"vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"}, false},
}

// ServerUnits lists the units of OfServer. None is exact: other clients of the
// server count into them.
func ServerUnits() (units []Unit) {
	for _, c := range serverCounts {
		units = append(units, Unit{Name: c.unit, Better: c.better})
	}
	for _, q := range serverRatios {
		units = append(units, Unit{Name: q.unit, Better: "higher"})
	}
	for _, l := range serverSpans {
		units = append(units, Unit{Name: l.unit, Better: "lower"})
	}
	for _, g := range serverGauges {
		units = append(units, Unit{Name: g.unit})
	}
	return units
}

type serverSet struct {
	r      ServerRun
	values []Value
	notes  []string
}

func (s *serverSet) note(format string, args ...any) {
	s.notes = append(s.notes, fmt.Sprintf(format, args...))
}

func (s *serverSet) add(unit string, v float64) {
	if !math.IsNaN(v) && !math.IsInf(v, 0) {
		s.values = append(s.values, Value{Unit: unit, V: v})
	}
}

// restarted names a counter that fell.
func (s *serverSet) restarted() string {
	names := []string{requestsSucceeded}
	for _, c := range serverCounts {
		names = append(names, c.series)
	}
	for _, q := range serverRatios {
		for _, pair := range q.pairs {
			names = append(names, pair[0], pair[1])
		}
	}
	for _, l := range serverSpans {
		for _, name := range l.names {
			names = append(names, name+"_count")
		}
	}
	for _, name := range names {
		if prom.Restarted(s.r.Before, s.r.After, name) {
			return name
		}
	}
	if was, ok := s.r.Before.Max(processStart); ok {
		if is, ok := s.r.After.Max(processStart); ok && is != was {
			return processStart
		}
	}
	return ""
}

func (s *serverSet) increase(name string) (float64, bool) {
	return prom.Increase(s.r.Before, s.r.After, name)
}

func (s *serverSet) ratio(q serverRatio) {
	for _, pair := range q.pairs {
		part, ok := s.increase(pair[0])
		if !ok {
			continue
		}
		if whole, ok := s.increase(pair[1]); ok && whole > 0 {
			s.add(q.unit, q.plus+part/whole)
			return
		}
	}
}

// mean rounds to whole nanoseconds: the difference of two sums of seconds has no
// more in it.
func (s *serverSet) mean(l serverSpan) {
	for _, name := range l.names {
		sum, ok := s.increase(name + "_sum")
		if !ok {
			continue
		}
		if n, ok := s.increase(name + "_count"); ok && n > 0 {
			s.add(l.unit, math.Round(sum/n*1e9))
			return
		}
	}
}

func (s *serverSet) peak(g serverGauge) {
	for _, name := range g.names {
		largest, found := 0.0, false
		for _, m := range s.r.During {
			read := m.Max
			if g.sum {
				read = m.Sum
			}
			if v, ok := read(name); ok && (!found || v > largest) {
				largest, found = v, true
			}
		}
		if found {
			s.add(g.unit, largest)
			return
		}
	}
}

// noticeable is the share of prompt tokens from the prefix cache from which the
// cache is a part of what was measured: templates make up less.
const noticeable = 0.05

// company notes what shares the numbers with this run: other clients, and what
// earlier runs left in the cache.
func (s *serverSet) company() {
	running, _ := s.r.Before.Sum(requestsRunning)
	waiting, _ := s.r.Before.Sum(requestsWaiting)
	if n := running + waiting; n > 0 {
		s.note("the server was busy with %g requests of others when the run began", n)
	}
	if done, ok := s.increase(requestsSucceeded); ok && done > float64(s.r.Sent) {
		s.note("the server finished %g requests during the run, which sent %d: others used it, and its own metrics are over all of them", done, s.r.Sent)
	}
	for _, v := range s.values {
		if v.Unit == cacheHitUnit && v.V >= noticeable {
			s.note("%.0f %% of the prompts' tokens came from the server's prefix cache: it has seen them before (another seed makes other prompts)", 100*v.V)
		}
	}
}
