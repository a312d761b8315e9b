package gate

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"

	"golang.org/x/perf/benchmath"
)

// looks are the numbers of pairs at which rows are judged. A row is decided at
// the first look that decides it: later pairs, which those who wait for other
// rows may take, change nothing about it.
var looks = []int{10, 14, 20, 26}

// Looks returns the numbers of pairs at which rows are judged, smallest first.
// Who takes pairs one after the other can stop at the first look at which
// [Report.Undecided] is empty.
func Looks() []int { return slices.Clone(looks) }

// Levels of the intervals, and the least number of values that they are made
// of. That of pairs is high because there are several looks.
const (
	pairedLevel   = 0.9975
	unpairedLevel = 0.95
	leastUnpaired = 6
)

var leastPairs = PairsFor(pairedLevel)

// Row is one unit of one benchmark, or a whole benchmark that cannot be
// compared.
type Row struct {
	Config  string // what tells benchmarks of one name apart, as "pkg: a"; mostly nothing
	Package string // import path, from head's pkg: line or else base's; may be empty
	Name    string // without "Benchmark", with -N
	Unit    string // tidied; empty for a whole benchmark

	Verdict Verdict
	Reason  string // one line; may be empty

	// How the row is judged. Limit is relative, Least absolute; Better is +1
	// where more is better, -1 where less is, 0 where nobody knows. Rule says who
	// decided that.
	Gated, Exact bool
	Limit, Least float64
	Better       int
	Rule         string

	// Base and Head summarize the finite values of the sides, of pairs those up
	// to the look that decided the row; N is 0 where there are none.
	Base, Head Summary

	// Shift is head − base: of logs if Ratio, else in the unit itself, which
	// goes for values that are 0 or negative. It has a Level of 0 if there is
	// none.
	Shift Interval
	Ratio bool

	base, head []float64 // all finite values
}

// P returns benchstat's p-value: two-sided, of the test of Mann and Whitney. It
// is computed by each call, as for samples with ties it takes longer than all
// else and nothing is decided by it. It is 1 where a side has no value.
func (row Row) P() float64 {
	if len(row.base) == 0 || len(row.head) == 0 {
		return 1
	}
	c := benchmath.AssumeNothing.Compare(
		benchmath.NewSample(slices.Clone(row.base), &benchmath.DefaultThresholds), // it sorts
		benchmath.NewSample(slices.Clone(row.head), &benchmath.DefaultThresholds))
	return min(max(c.P, 0), 1)
}

// Summary is one side of a row.
type Summary struct {
	N int
	benchmath.Summary
}

// columns is one row's values on both sides.
type columns struct {
	base, head []float64
	basePairs  []pair
	headPairs  []pair
	settled
	pairedValues bool
}

// judge fills in the verdict.
func (c *columns) judge(row *Row) {
	row.base, row.head = c.base, c.head
	defer func() {
		row.Base, row.Head = c.summary(c.base), c.summary(c.head)
	}()
	if c.exact {
		if row.Verdict, row.Reason = c.judgeExact(); !c.gated {
			row.Verdict = Shown
		}
		return
	}
	if c.gated && c.better == 0 {
		row.Verdict, row.Reason = Incomparable, "nothing says which way is better"
		return
	}
	if allZero(c.base) && allZero(c.head) {
		row.Shift, row.Verdict = Interval{Level: 1}, OK
		if !c.gated {
			row.Verdict = Shown
		}
		return
	}
	if reason := c.align(); reason != "" {
		// As where a latency of 0 was left out of some of the samples.
		if row.Verdict, row.Reason = Shown, reason; c.gated {
			row.Verdict = Incomparable
		}
		return
	}
	if reason := c.tooFew(); reason != "" {
		if row.Verdict = Shown; c.gated {
			row.Verdict, row.Reason = Incomparable, reason
		}
		return
	}
	row.Ratio = slices.Min(c.base) > 0 && slices.Min(c.head) > 0
	if !c.gated {
		row.Shift, row.Verdict = c.shift(row.Ratio), Shown
		return
	}
	row.base, row.head = c.base, c.head // in the order of the pairs
	all := *c
	for _, n := range all.looks() {
		if c.pairedValues {
			c.base, c.head = all.base[:n], all.head[:n]
		}
		row.Shift = c.shift(row.Ratio)
		row.Verdict, row.Reason = c.decide(row.Shift, row.Ratio)
		if row.Verdict.decided() {
			return
		}
	}
}

// looks are the numbers of values at which the row is judged, the last of all.
func (c *columns) looks() []int {
	n := len(c.base)
	if !c.pairedValues {
		return []int{n}
	}
	at := slices.DeleteFunc(Looks(), func(look int) bool { return look >= n })
	return append(at, n)
}

func (c *columns) judgeExact() (Verdict, string) {
	for _, side := range []struct {
		name   string
		values []float64
	}{{"base", c.base}, {"head", c.head}} {
		if lo, hi := slices.Min(side.values), slices.Max(side.values); lo != hi {
			return Incomparable, fmt.Sprintf("exact, and yet from %s to %s within %s", plain(lo), plain(hi), side.name)
		}
	}
	switch d := c.head[0] - c.base[0]; {
	case d == 0:
		return OK, ""
	case c.better != 0 && d > 0 == (c.better > 0):
		return Improvement, ""
	}
	return Changed, ""
}

// align brings the values of both sides into the same order of pairs.
func (c *columns) align() string {
	if !c.pairedValues {
		return ""
	}
	index := map[pair]int{}
	for i, p := range c.basePairs {
		if _, twice := index[p]; twice {
			return fmt.Sprintf("two results in %v of base", p)
		}
		index[p] = i
	}
	head := make([]float64, len(c.base))
	seen := map[pair]bool{}
	for i, p := range c.headPairs {
		at, ok := index[p]
		switch {
		case !ok:
			return fmt.Sprintf("%v is in head only", p)
		case seen[p]:
			return fmt.Sprintf("two results in %v of head", p)
		}
		seen[p], head[at] = true, c.head[i]
	}
	for _, p := range c.basePairs {
		if !seen[p] {
			return fmt.Sprintf("%v is in base only", p)
		}
	}
	c.head = head
	return ""
}

func (c *columns) tooFew() string {
	switch {
	case c.pairedValues && len(c.base) < leastPairs:
		return fmt.Sprintf("too few pairs: want %d", leastPairs)
	case !c.pairedValues && min(len(c.base), len(c.head)) < leastUnpaired:
		return fmt.Sprintf("too few samples: want %d a side", leastUnpaired)
	}
	return ""
}

func (c *columns) shift(ratio bool) Interval {
	base, head := c.base, c.head
	if ratio {
		base, head = logs(base), logs(head)
	}
	if !c.pairedValues {
		return RankSum(base, head, unpairedLevel)
	}
	d := make([]float64, len(base))
	for i := range d {
		d[i] = head[i] - base[i]
	}
	return SignedRank(d, pairedLevel)
}

// decide is the rule. Seen with up as worse, and L as the limit:
//
//	            pairs                     separate runs
//	regression  Lo > 0 and estimate > L   Lo > L
//	improvement its mirror                its mirror
//	ok          Hi ≤ L                    Hi ≤ L
//	suspect     else, if estimate > L     else, if estimate > L
//	noisy       else                      else
//
// With separate runs a difference above 0 alone says nothing: the machine's
// drift between the runs is one.
func (c *columns) decide(iv Interval, ratio bool) (Verdict, string) {
	limit := c.limitShift(ratio)
	bad := iv.worse(c.better)
	threshold := limit
	if c.pairedValues {
		threshold = 0
	}
	switch {
	case bad.Lo > threshold && bad.Center > limit:
		return Regression, ""
	case bad.Hi < -threshold && bad.Center < -limit:
		return Improvement, ""
	case bad.Hi <= limit:
		return OK, ""
	}
	hidden := c.describe(bad.Hi, ratio)
	if bad.Center > limit {
		return Suspect, "may be chance; as bad as " + hidden + " is possible"
	}
	return Noisy, "could hide " + hidden
}

// worse is the interval with up as worse.
func (iv Interval) worse(better int) Interval {
	if better > 0 {
		iv.Center, iv.Lo, iv.Hi = -iv.Center, -iv.Hi, -iv.Lo
	}
	return iv
}

// describe says how large a shift in the bad direction is.
func (c *columns) describe(bad float64, ratio bool) string {
	if c.better > 0 {
		bad = -bad
	}
	if ratio {
		return percent(bad)
	}
	return fmt.Sprintf("%+.4g", bad)
}

// limitShift is the largest change that is none, as a shift.
func (c *columns) limitShift(ratio bool) float64 {
	old := math.Abs(c.summary(c.base).Center)
	least := c.least * (1 - 1e-9) // a change by just as much is one
	if !ratio {
		return max(c.limit*old, least)
	}
	return max(math.Log1p(c.limit), math.Log1p(least/old))
}

func (c *columns) summary(values []float64) Summary {
	if len(values) == 0 {
		return Summary{}
	}
	s := benchmath.NewSample(slices.Clone(values), &benchmath.DefaultThresholds) // it sorts
	return Summary{len(values), benchmath.AssumeNothing.Summary(s, 0.95)}
}

func logs(values []float64) []float64 {
	out := make([]float64, len(values))
	for i, v := range values {
		// A difference of logs, unlike the log of a ratio, is exactly the
		// negative of the reverse one: ties stay ties.
		out[i] = math.Log(v)
	}
	return out
}

func allZero(values []float64) bool {
	return !slices.ContainsFunc(values, func(v float64) bool { return v != 0 })
}

// percent is a shift of logs as a change in percent.
func percent(shift float64) string { return fmt.Sprintf("%+.1f%%", 100*math.Expm1(shift)) }

// plain is a number with all its digits and no exponent.
func plain(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// worst orders rows: by verdict, then by how far the estimate is from no change.
func worst(a, b Row) int {
	return cmp.Or(cmp.Compare(a.Verdict, b.Verdict), cmp.Compare(math.Abs(b.Shift.Center), math.Abs(a.Shift.Center)))
}
