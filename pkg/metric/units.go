package metric

import (
	"cmp"
	"slices"
)

// A Unit is what tools that read benchmark output must know about a unit.
type Unit struct {
	Name   string
	Better string // "lower", "higher", or "" where neither is
	// Exact says that a deterministic server gives the same value always.
	Exact bool
	// Mean is the unit of a count whose value differs between requests, empty
	// for what is no count. A deterministic server gives the same mean always
	// over the same requests.
	Mean string
}

// Units lists the units of this package's metrics, sorted by name. The mean of
// a count that differs between answers has the count's unit with -mean before
// its /op; it is not listed, since there is nothing to know about it: neither
// direction is better and it is not exact.
func Units() []Unit {
	var units []Unit
	for _, l := range latencies {
		units = append(units, Unit{Name: l.name + "-p50-ns", Better: "lower"})
		if l.p99 {
			units = append(units, Unit{Name: l.name + "-p99-ns", Better: "lower"})
		}
	}
	for _, c := range counts {
		units = append(units, Unit{Name: c.name + c.unit, Exact: true, Mean: c.name + "-mean" + c.unit})
	}
	units = append(units,
		Unit{Name: "input-tok/s", Better: "higher"},
		Unit{Name: "output-tok/event", Exact: true},
		Unit{Name: "output-tok/s", Better: "higher"},
		Unit{Name: "ok/op", Better: "higher", Exact: true},
	)
	slices.SortFunc(units, func(a, b Unit) int { return cmp.Compare(a.Name, b.Name) })
	return units
}
