package gate

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/perf/benchunit"
)

// Policy says how rows are judged where the defaults are not what is wanted. The
// zero value leaves everything to Unit lines and to the defaults.
type Policy struct {
	// Rules are tried in order; the first that matches a row decides about it.
	Rules []Rule

	// Accept says which findings are known and wanted.
	Accept []Acceptance

	// Strict gives noisy rows the exit code of rows without a verdict.
	Strict bool
}

// Rule is how the rows that it matches are judged. What it leaves out is as the
// defaults have it, but that a unit which a rule names is gated.
type Rule struct {
	// Name and Unit are patterns in which * stands for any text; empty ones
	// match everything. A name matches with and without "Benchmark" and -N, and
	// a unit as it is printed (-ns) and as benchstat shows it (-sec).
	Name, Unit string

	// Gate is whether a change decides about the exit code. Nil is true if Unit
	// says which units are meant, else as the defaults have it.
	Gate *bool

	// Limit is the largest relative change that is none: 0.05 is 5 %.
	Limit *float64

	// Least is an absolute change, in the unit as benchstat shows it; a smaller
	// one is none either.
	Least *float64

	// Better is "higher" or "lower".
	Better string

	// Exact says whether any change at all counts.
	Exact *bool

	// From is where the rule was written, for reports.
	From string
}

// Acceptance turns findings into accepted ones: regressions, changes, missing
// rows, suspects, and new versions of the metric definitions, which are rows of
// the unit harness-metrics. Nothing else can be accepted.
type Acceptance struct {
	Unit, Name string // patterns as those of a Rule
	Reason     string
	From       string // where it was written, for reports
}

// ParseAcceptance reads `UNIT:NAME`, or `UNIT:NAME reason`. A whole benchmark
// that is missing has the unit *.
func ParseAcceptance(s, from string) (Acceptance, error) {
	what, reason, _ := strings.Cut(strings.TrimSpace(s), " ")
	unit, name, ok := strings.Cut(what, ":")
	if !ok || unit == "" || name == "" {
		return Acceptance{}, fmt.Errorf("%.100q is nothing to accept: want UNIT:NAME and a reason, as in 'allocs/op:Chat/* one more header'", s)
	}
	return Acceptance{Unit: unit, Name: name, Reason: strings.TrimSpace(reason), From: from}, nil
}

func (a Acceptance) covers(row *Row) bool {
	switch row.Verdict {
	case Regression, Changed, Missing, Suspect:
	case Incomparable:
		if row.Unit != definitionKey {
			return false
		}
	default:
		return false
	}
	return matchUnit(a.Unit, row.Unit) && matchName(a.Name, row.Name)
}

// apply turns rows into accepted ones, and returns what was accepted in vain.
func (p *Policy) apply(rows []Row) (idle []Acceptance) {
	for _, a := range p.Accept {
		used := false
		for i := range rows {
			if !a.covers(&rows[i]) {
				continue
			}
			used = true
			row := &rows[i]
			was := row.Verdict.String()
			row.Verdict = Accepted
			if row.Reason = was; a.Reason != "" {
				row.Reason += ": " + a.Reason
			}
			row.Rule = "accepted by " + a.From
		}
		if !used {
			idle = append(idle, a)
		}
	}
	return idle
}

// settled is what holds for one row.
type settled struct {
	gated  bool
	limit  float64
	least  float64
	better int
	exact  bool
	from   string
}

// settle finds what holds for a row: what the first rule that matches says, else
// what Unit lines say, else the defaults.
func (p *Policy) settle(name, unit string, d settled, meta func(key string) string) settled {
	for _, r := range p.Rules {
		if matchUnit(r.Unit, unit) && matchName(r.Name, name) {
			return r.over(d)
		}
	}
	gate, least := meta("gate"), meta("least")
	if gate == "" && least == "" {
		return d
	}
	// Read has checked both.
	line, _ := unitRule(unit, gate, least)
	return line.over(d)
}

// unitRule is what a Unit line says with gate=on, gate=off or gate=5%, and with
// least=2. Empty values say nothing.
func unitRule(unit, gate, least string) (Rule, error) {
	r := Rule{Unit: unit, From: "Unit line"}
	switch gate {
	case "":
	case "off", "on":
		on := gate == "on"
		r.Gate = &on
	default:
		limit, err := parsePercent(gate)
		if err != nil {
			return r, fmt.Errorf("gate=%s: want on, off or a limit as in 5%%", gate)
		}
		r.Limit = &limit
	}
	if least != "" {
		v, err := strconv.ParseFloat(least, 64)
		if err != nil || !(v >= 0 && v <= maxLeast) {
			return r, fmt.Errorf("least=%s: want a number from 0", least)
		}
		r.Least = &v
	}
	return r, nil
}

const maxLeast = 1e300

func (r Rule) over(d settled) settled {
	d.from = r.From
	switch {
	case r.Gate != nil:
		d.gated = *r.Gate
	case strings.Trim(r.Unit, "*") != "":
		d.gated = true
	}
	if r.Limit != nil {
		d.limit = *r.Limit
	}
	if r.Least != nil {
		d.least = *r.Least
	}
	switch r.Better {
	case "higher":
		d.better = +1
	case "lower":
		d.better = -1
	}
	if r.Exact != nil {
		d.exact = *r.Exact
	}
	return d
}

// parsePercent reads 5% as 0.05.
func parsePercent(s string) (float64, error) {
	digits, ok := strings.CutSuffix(s, "%")
	v, err := strconv.ParseFloat(digits, 64)
	if !ok || err != nil || !(v >= 0 && v <= 1000) {
		return 0, fmt.Errorf("%q is no limit: want a percentage from 0%% to 1000%%, as in 5%%", s)
	}
	return v / 100, nil
}

// defaults are what holds when nothing else was said. has reports whether the
// benchmark has a unit; ours, whether this project's harness measured it.
//
// Of what the harness reports, one latency of each kind is gated: tails and
// parts move with them, or with the noise. Of other files, every unit whose
// direction is known is: somebody chose to report it.
func defaults(unit string, exact bool, better int, ours bool, has func(unit string) bool) settled {
	const latency, rate, allocation = 0.05, 0.05, 0.01
	d := settled{limit: latency, better: better, exact: exact}
	stream := has("ttft-p50-sec")
	switch {
	case exact:
		d.gated, d.from = true, "default: exact"
		return d
	case better == 0:
		d.from = "default: no direction"
		return d
	case unit == "allocs/op" || unit == "B/op":
		d.gated, d.limit, d.least, d.from = true, allocation, 1, "default: allocations"
		return d
	case !ours:
		d.gated, d.from = true, "default: a unit with a direction"
		return d
	}
	switch unit {
	case "ttft-p50-sec", "tpot-p50-sec":
		d.gated, d.from = true, "default: latency"
	case "e2e-p50-sec":
		d.gated, d.from = stream, "default: latency"
	case "body-complete-p50-sec":
		d.gated, d.from = !stream, "default: latency"
	case "req/s", "output-tok/s":
		// In a closed loop they follow from the latencies.
		d.gated, d.limit, d.from = has("req/s"), rate, "default: rate"
	}
	if !d.gated {
		d.from = "default: shown only"
	}
	return d
}

// direction tells from a tidied unit's name which way is better: +1 higher, -1
// lower, 0 unknown. Only whole words count: `wins/op` are no nanoseconds.
func direction(unit string) int {
	for _, suffix := range []string{"-sec", "-ms", "-us", "-sec/op"} {
		if strings.HasSuffix(unit, suffix) {
			return -1
		}
	}
	switch {
	case strings.HasPrefix(unit, "sec/") || unit == "B/op" || unit == "allocs/op":
		return -1
	case strings.HasSuffix(unit, "/s") || strings.HasSuffix(unit, "/sec"):
		return +1
	case strings.HasSuffix(unit, "/op") && (strings.HasPrefix(unit, "fail") || strings.HasPrefix(unit, "err")):
		return -1
	}
	return 0
}

func matchUnit(pattern, unit string) bool {
	if match(pattern, unit) {
		return true
	}
	_, tidied := benchunit.Tidy(1, pattern)
	return match(tidied, unit)
}

func matchName(pattern, name string) bool {
	pattern = strings.TrimPrefix(pattern, "Benchmark")
	return match(pattern, name) || match(pattern, procsSuffix.ReplaceAllString(name, ""))
}

// match reports whether a pattern with * for any text matches all of s.
func match(pattern, s string) bool {
	if pattern == "" {
		return true
	}
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == s
	}
	s, ok := strings.CutPrefix(s, parts[0])
	if !ok {
		return false
	}
	for _, part := range parts[1 : len(parts)-1] {
		i := strings.Index(s, part)
		if i < 0 {
			return false
		}
		s = s[i+len(part):]
	}
	return strings.HasSuffix(s, parts[len(parts)-1])
}

var procsSuffix = regexp.MustCompile(`-(\d+)$`)
