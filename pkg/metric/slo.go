package metric

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"example.com/tokpace/pkg/client"
)

// SLO is what an answer must keep to count as good: limits of its latencies, by
// their names. The zero SLO is none.
//
//	metric.SLO{"ttft": 200 * time.Millisecond, "tpot": 50 * time.Millisecond}
//
// The names are those of the units: body-complete, e2e, headers, tpot, ttft,
// ttft-sched, e2e-sched, queue, send-lag, and itl, which stands for the longest
// gap of the answer. A value that equals its limit keeps it. A latency that an
// answer does not have, as the TPOT of a single token, cannot break it; a failed
// request is never good.
type SLO map[string]time.Duration

// ParseSLO reads limits as `vllm bench serve` writes them after --goodput:
// NAME:MILLISECONDS, several separated by spaces or commas, as in
// "ttft:200 tpot:50". Its e2el is the same as e2e.
func ParseSLO(text string) (SLO, error) {
	slo := SLO{}
	for _, part := range strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == ',' }) {
		name, number, ok := strings.Cut(part, ":")
		limit, err := strconv.ParseFloat(number, 64)
		if !ok || err != nil || !(limit > 0 && limit < 1e12) {
			return nil, fmt.Errorf("%q: want NAME:MILLISECONDS above 0, as in ttft:200", part)
		}
		if name == "e2el" {
			name = "e2e"
		}
		if _, twice := slo[name]; twice {
			return nil, fmt.Errorf("%q: %s has a limit already", part, name)
		}
		slo[name] = time.Duration(limit * float64(time.Millisecond))
	}
	return slo, slo.Check()
}

// Check fails when a limit is on no latency, or not above 0.
func (s SLO) Check() error {
	var names []string
	for _, l := range latencies {
		names = append(names, l.name)
	}
	for _, name := range s.names() {
		if !slices.Contains(names, name) {
			return fmt.Errorf("no latency is called %q: choose among %s", name, strings.Join(names, ", "))
		}
		if s[name] <= 0 {
			return fmt.Errorf("the limit of %s is %v, it must be above 0", name, s[name])
		}
	}
	return nil
}

// Met reports whether an answer is good.
func (s SLO) Met(ex *client.Exchange) bool {
	if !ex.OK {
		return false
	}
	for _, l := range latencies {
		limit, ok := s[l.name]
		if !ok {
			continue
		}
		for _, d := range l.of(ex) {
			if d > limit {
				return false
			}
		}
	}
	return true
}

func (s SLO) names() []string {
	names := make([]string, 0, len(s))
	for name := range s {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// goodput adds goodput-req/s, unless a limit is on a latency that no answer has.
func (s *Set) goodput(r Run, ok []*client.Exchange) {
	seconds := r.Elapsed.Seconds()
	if len(r.Goodput) == 0 || seconds <= 0 {
		return
	}
	for _, l := range latencies {
		_, asked := r.Goodput[l.name]
		if asked && len(ok) > 0 && !slices.ContainsFunc(ok, func(ex *client.Exchange) bool { return len(l.of(ex)) > 0 }) {
			s.note("goodput-req/s: left out, since no answer has a %s to keep its limit", l.name)
			return
		}
	}
	for _, ex := range r.Exchanges {
		if r.Goodput.Met(ex) {
			s.Good++
		}
	}
	s.add("goodput-req/s", float64(s.Good)/seconds)
}
