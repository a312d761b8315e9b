package metric

import "slices"

const floorPrefix = "floor-"

// floorUnits are the latencies of Of that Floor has.
var floorUnits = []string{"e2e-p50-ns", "e2e-p99-ns", "ttft-p50-ns", "ttft-p99-ns"}

// Floor are the metrics of a run against a server that does nothing: what the
// harness itself takes. Its latencies have names of their own, floor-…, since they
// are no server's and tell about a machine more than about a change: neither
// direction is better.
func Floor(r Run) (values []Value) {
	for _, v := range Of(r).Values {
		switch {
		case slices.Contains(floorUnits, v.Unit):
			values = append(values, Value{Unit: floorPrefix + v.Unit, V: v.V})
		case v.Unit == clientCPU:
			values = append(values, v)
		}
	}
	return values
}
