package benchtests

import (
	"testing"

	"example.com/tokpace/pkg/dataset"
	"example.com/tokpace/pkg/harness"
	"example.com/tokpace/pkg/load"
)

// An openScenario is a schedule of sends; the requests are the same in all.
type openScenario struct {
	name string
	load load.Open
}

// 200 requests a second keep four or five of the fake's answers in flight, which
// take 21 ms each. The bursts of the last come thicker than two slots can take, so
// that requests wait, though its rate is not beyond what they can.
var openScenarios = []openScenario{
	{"schedule=constant/rate=200", load.Open{Schedule: load.Constant{Rate: 200}}},
	{"schedule=poisson/rate=200", load.Open{Schedule: load.Poisson{Rate: 200}}},
	{"schedule=gamma/rate=60/burstiness=0.5/cap=2", load.Open{Schedule: load.Gamma{Rate: 60, Burstiness: 0.5}, MaxConcurrency: 2}},
}

var openChat = scenario{data: dataset.Chat{Input: 512, Output: 17, Stream: true}}

// BenchmarkOpenLoop sends by schedules. It runs against a fake only: no rate
// suits every server.
func BenchmarkOpenLoop(b *testing.B) {
	if !harness.OnFake(b, harness.Target{}) {
		b.Skip("no rate suits every server")
	}
	for _, s := range openScenarios {
		b.Run(s.name, func(b *testing.B) { harness.Run(b, harness.Target{}, openChat.data, s.load) })
	}
}
