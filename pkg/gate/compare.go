package gate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Report is the comparison of two sets.
type Report struct {
	Rows   []Row    // worst first
	Paired bool     // samples were compared pair by pair
	Strict bool     // noisy rows count as having no verdict
	Notes  []string // what else a reader should know, a line each

	// Identical is for a report without rows that passes: both sides were found
	// to be the same before anything was measured.
	Identical bool
}

// Code returns the exit code: [CodeWorse] if any row is worse, else
// [CodeNoVerdict] if any has no verdict or nothing is gated, else [CodePass].
func (r *Report) Code() int {
	if r.Identical {
		return CodePass
	}
	code, gated := CodePass, false
	for _, row := range r.Rows {
		switch row.Verdict.code(r.Strict) {
		case CodeWorse:
			return CodeWorse
		case CodeNoVerdict:
			code = CodeNoVerdict
		}
		gated = gated || row.Verdict != Shown && row.Verdict != New
	}
	if !gated {
		return CodeNoVerdict
	}
	return code
}

// Undecided returns the benchmarks, without -N, about which more pairs could tell
// more.
func (r *Report) Undecided() []string {
	var names []string
	for _, row := range r.Rows {
		name := procsSuffix.ReplaceAllString(row.Name, "")
		if r.Paired && !row.Verdict.decided() && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// sameKeys are configuration keys that have to be the same on both sides, as a
// rule. Others tell benchmarks apart if a side has several values of them, and
// are else of no account.
var sameKeys = []string{definitionKey, "goos", "goarch", "cpu"}

// Compare judges every row of two sets by a policy; nil is the zero one.
func Compare(base, head *Set, p *Policy) *Report {
	return compare(base, head, p, false)
}

// CompareExact judges only rows whose values are exact: those of results that
// were measured on different machines at different times, which say nothing
// about anybody's speed. GOMAXPROCS and the machine may differ.
func CompareExact(base, head *Set, p *Policy) *Report {
	return compare(base, head, p, true)
}

func compare(base, head *Set, p *Policy, exactOnly bool) *Report {
	if p == nil {
		p = &Policy{}
	}
	c := &comparison{base: base, head: head, policy: p, exactOnly: exactOnly, same: sameKeys,
		report: &Report{Paired: !base.loose && !head.loose, Strict: p.Strict}}
	if exactOnly {
		c.same = []string{definitionKey}
		c.report.Paired = false
	}
	c.findKeys()
	c.all(c.group(base), c.group(head))
	if len(c.undirected) > 0 {
		c.note("not gated, as nothing says whether more of it is better: %s (a line `Unit %[2]s better=lower` would)",
			strings.Join(c.undirected, ", "), c.undirected[0])
	}
	if !c.report.Paired && !exactOnly {
		c.note("the runs of the two sides were not interleaved: what changed on the machine between them counts as a change of the code (tokpace ab interleaves)")
	}
	for _, a := range p.apply(c.report.Rows) {
		c.note("nothing to accept: %s:%s, of %s", a.Unit, a.Name, a.From)
	}
	slices.SortStableFunc(c.report.Rows, worst)
	c.hint()
	return c.report
}

type comparison struct {
	base, head *Set
	policy     *Policy
	exactOnly  bool
	same       []string // configuration keys that have to be the same on both sides
	keys       []string // that tell benchmarks apart
	undirected []string
	report     *Report
}

func (c *comparison) note(format string, args ...any) {
	c.report.Notes = append(c.report.Notes, fmt.Sprintf(format, args...))
}

// findKeys finds the configuration keys that matter.
func (c *comparison) findKeys() {
	all := map[string]bool{}
	for _, cfg := range slices.Concat(c.base.configs, c.head.configs) {
		for k := range cfg {
			all[k] = true
		}
	}
	for _, k := range slices.Sorted(maps.Keys(all)) {
		b, h := values(c.base.configs, k), values(c.head.configs, k)
		switch {
		case slices.Contains(sameKeys, k):
		case len(b) > 1 || len(h) > 1:
			c.keys = append(c.keys, k)
		case b[0] != h[0]:
			c.note("%s: %s in base, %s in head", k, named(b), named(h))
		}
	}
}

// values returns the different values of a key, sorted.
func values(configs []config, key string) []string {
	set := map[string]bool{}
	for _, cfg := range configs {
		set[cfg[key]] = true
	}
	return slices.Sorted(maps.Keys(set))
}

func named(list []string) string {
	out := slices.Clone(list)
	for i, v := range out {
		if v == "" {
			out[i] = "nothing"
		}
	}
	return strings.Join(out, " and ")
}

// group is all results of one side that belong together.
type group struct {
	set     *Set
	id      id
	benches []*bench
}

type id struct{ config, name string }

// groups are the groups of a side, in the order in which they appear.
type groups struct {
	list []*group
	byID map[id]*group
}

func (c *comparison) group(s *Set) groups {
	g := groups{byID: map[id]*group{}}
	for _, b := range s.benches {
		var parts []string
		for _, k := range c.keys {
			if v := s.configs[b.config][k]; v != "" {
				parts = append(parts, k+": "+v)
			}
		}
		id := id{strings.Join(parts, ", "), b.name}
		if c.exactOnly {
			id = id.bare()
		}
		if g.byID[id] == nil {
			g.byID[id] = &group{set: s, id: id}
			g.list = append(g.list, g.byID[id])
		}
		g.byID[id].benches = append(g.byID[id].benches, b)
	}
	return g
}

func (c *comparison) all(base, head groups) {
	// Another GOMAXPROCS is another name. Who is left over on both sides
	// because of it is neither missing nor new.
	left := map[id]*group{}
	for _, h := range head.list {
		if base.byID[h.id] == nil {
			left[h.id.bare()] = h
		}
	}
	for _, b := range base.list {
		if h := head.byID[b.id]; h != nil {
			c.pair(b, h)
		} else if h := left[b.id.bare()]; h != nil {
			c.whole(b, Incomparable, fmt.Sprintf("GOMAXPROCS: %s in base, %s in head", procs(b.id.name), procs(h.id.name)))
			h.benches = nil
		} else {
			c.whole(b, Missing, "")
		}
	}
	for _, h := range head.list {
		if base.byID[h.id] == nil && h.benches != nil {
			c.whole(h, New, "")
		}
	}
}

func (i id) bare() id { return id{i.config, procsSuffix.ReplaceAllString(i.name, "")} }

func procs(name string) string {
	if m := procsSuffix.FindStringSubmatch(name); m != nil {
		return m[1]
	}
	return "1"
}

// whole adds the row of a whole benchmark.
func (c *comparison) whole(g *group, v Verdict, reason string) {
	c.report.Rows = append(c.report.Rows, Row{Config: g.id.config, Package: g.pkg(), Name: g.id.name,
		Verdict: v, Reason: reason, Rule: "default: all benchmarks"})
}

// pair judges all rows of a benchmark that both sides have.
func (c *comparison) pair(b, h *group) {
	for _, k := range c.same {
		if x, y := b.values(k), h.values(k); len(x) > 1 || len(y) > 1 || x[0] != y[0] {
			c.whole(b, Incomparable, fmt.Sprintf("%s: %s in base, %s in head", k, named(x), named(y)))
			if k == definitionKey {
				// That it is a new version can be accepted; more cannot be found out.
				c.report.Rows[len(c.report.Rows)-1].Unit = definitionKey
			}
			return
		}
	}
	units := b.units()
	for _, u := range h.units() {
		if !slices.Contains(units, u) {
			units = append(units, u)
		}
	}
	has := func(unit string) bool { return slices.Contains(units, unit) }
	for _, u := range units {
		if row := c.row(b, h, u, has); !c.exactOnly || row.Exact {
			c.report.Rows = append(c.report.Rows, row)
		}
	}
}

func (c *comparison) row(b, h *group, unit string, has func(string) bool) Row {
	row := Row{Config: b.id.config, Package: cmp.Or(h.pkg(), b.pkg()), Name: b.id.name, Unit: unit}
	cols := &columns{settled: c.settle(b, unit, has), pairedValues: c.report.Paired}
	row.Gated, row.Exact, row.Better = cols.gated, cols.exact, cols.better
	row.Limit, row.Least, row.Rule = cols.limit, cols.least, cols.from
	x, y := b.column(unit), h.column(unit)
	switch {
	case y == nil:
		row.Verdict = Missing
		return row
	case x == nil:
		row.Verdict = New
		return row
	}
	cols.base, cols.head, cols.basePairs, cols.headPairs = x.values, y.values, x.pairs, y.pairs
	if row.Reason = nonFinite(x, y); row.Reason != "" {
		row.Verdict = Incomparable
		row.Base, row.Head = cols.summary(x.values), cols.summary(y.values)
		return row
	}
	for _, key := range []string{"better", "assume", "gate", "least"} {
		m, n := c.base.meta(unit, key), c.head.meta(unit, key)
		contradict := m != n
		switch key {
		case "better": // who does not tell the direction does not contradict
			contradict = contradict && m != "" && n != ""
		case "assume": // who does not promise an exact value promises none
			contradict = (m == "exact") != (n == "exact")
		}
		if contradict {
			row.Verdict = Incomparable
			row.Reason = fmt.Sprintf("Unit %s %s=: %s in base, %s in head", unit, key, named([]string{m}), named([]string{n}))
			return row
		}
	}
	if cols.better == 0 && !cols.exact && !cols.gated && !slices.Contains(c.undirected, unit) {
		c.undirected = append(c.undirected, unit)
	}
	cols.judge(&row)
	return row
}

// settle finds how a unit of a benchmark is judged.
func (c *comparison) settle(b *group, unit string, has func(string) bool) settled {
	meta := func(key string) string {
		if v := c.base.meta(unit, key); v != "" {
			return v
		}
		return c.head.meta(unit, key)
	}
	ours := b.values(definitionKey)[0] != ""
	exact := meta("assume") == "exact"
	return c.policy.settle(b.id.name, unit, defaults(unit, exact, c.direction(unit), ours, has), meta)
}

func (c *comparison) direction(unit string) int {
	for _, s := range []*Set{c.base, c.head} {
		switch s.meta(unit, "better") {
		case "higher":
			return +1
		case "lower":
			return -1
		}
	}
	return direction(unit)
}

// column is the values of a unit of a group.
type column struct {
	values    []float64
	pairs     []pair
	nonFinite int
	first     string
}

func (g *group) column(unit string) *column {
	var col *column
	for _, b := range g.benches {
		s := b.find(unit)
		if s == nil {
			continue
		}
		if col == nil {
			col = &column{first: s.first}
		}
		if len(g.benches) == 1 {
			col.values = s.values // nobody writes to it
		} else {
			col.values = append(col.values, s.values...)
		}
		for _, p := range s.pairs {
			if !g.set.loose {
				col.pairs = append(col.pairs, g.set.pairs[p-1])
			}
		}
		if col.nonFinite == 0 {
			col.first = s.first
		}
		col.nonFinite += s.nonFinite
	}
	return col
}

func (g *group) values(key string) []string {
	var configs []config
	for _, b := range g.benches {
		configs = append(configs, g.set.configs[b.config])
	}
	return values(configs, key)
}

// pkg is the import path of the benchmark's package, or nothing.
func (g *group) pkg() string {
	all := g.values("pkg")
	return all[len(all)-1]
}

func (g *group) units() []string {
	var units []string
	for _, b := range g.benches {
		for _, s := range b.series {
			if !slices.Contains(units, s.unit) {
				units = append(units, s.unit)
			}
		}
	}
	return units
}

func nonFinite(base, head *column) string {
	n, first := base.nonFinite+head.nonFinite, base.first
	if base.nonFinite == 0 {
		first = head.first
	}
	switch n {
	case 0:
		return ""
	case 1:
		return "1 non-finite sample left out: " + first
	}
	return fmt.Sprintf("%d non-finite samples left out, the first is %s", n, first)
}
