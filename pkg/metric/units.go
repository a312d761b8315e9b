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

// Units lists the units of this package's metrics, Floor and Saturation, sorted by name. The mean of
// a count that differs between answers has the count's unit with -mean before
// its /op; it is not listed, since there is nothing to know about it: neither
// direction is better and it is not exact.
func Units() []Unit {
	var units []Unit
	for _, l := range latencies {
		names, _ := l.units()
		for _, name := range names {
			units = append(units, Unit{Name: name, Better: "lower"})
			if l.steady() {
				units = append(units, Unit{Name: steadyPrefix + name, Better: "lower"})
			}
		}
	}
	for _, name := range steadyRates {
		units = append(units, Unit{Name: name, Better: "higher"})
	}
	for _, c := range counts {
		units = append(units, Unit{Name: c.name + c.unit, Exact: true, Mean: c.name + "-mean" + c.unit})
	}
	units = append(units,
		Unit{Name: clientCPU},
		Unit{Name: "goodput-req/s", Better: "higher"},
		Unit{Name: "input-tok/s", Better: "higher"},
		Unit{Name: "output-tok/event", Exact: true},
		Unit{Name: "output-tok/s", Better: "higher"},
		Unit{Name: mergedReads},
		Unit{Name: "ok/op", Better: "higher", Exact: true},
		Unit{Name: "req/s", Better: "higher"},
		Unit{Name: Saturation, Better: "higher"},
	)
	for _, name := range floorUnits {
		units = append(units, Unit{Name: floorPrefix + name})
	}
	slices.SortFunc(units, func(a, b Unit) int { return cmp.Compare(a.Name, b.Name) })
	return units
}
