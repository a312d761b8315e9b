package benchtests

import (
	"fmt"
	"net/http"
	"testing"

	"example.com/tokpace/fakeserver"
	"example.com/tokpace/pkg/dataset"
	"example.com/tokpace/pkg/harness"
	"example.com/tokpace/pkg/load"
	"example.com/tokpace/pkg/metric"
)

// A scenario is one shape of requests. The benchmarks run the scenarios on real
// time against any target, the golden test on virtual time.
type scenario struct {
	// name is the path of key=value segments below the benchmark.
	name string
	data dataset.Dataset
	// plan asks a fake server for a special behaviour; a scenario with a plan
	// makes no sense on other servers.
	plan string
	conc []int
}

func (s scenario) header() http.Header {
	if s.plan == "" {
		return nil
	}
	return http.Header{fakeserver.PlanHeader: {s.plan}}
}

// run makes a sub-benchmark of each scenario and concurrency.
func run(b *testing.B, scenarios []scenario) {
	for _, s := range scenarios {
		target := harness.Target{Header: s.header()}
		if s.plan != "" && !harness.OnFake(b, target) {
			continue
		}
		for _, n := range s.conc {
			b.Run(join(s.name, fmt.Sprintf("conc=%d", n)), func(b *testing.B) {
				harness.Run(b, target, s.data, load.Closed{N: n})
			})
		}
	}
}

func join(name, segment string) string {
	if name == "" {
		return segment
	}
	return name + "/" + segment
}

func unitNames() []string {
	var names []string
	for _, u := range append(metric.Units(), metric.ServerUnits()...) {
		names = append(names, u.Name)
	}
	return names
}
