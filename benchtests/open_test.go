package benchtests

import (
	"testing"

	"github.com/stretchr/testify/require"

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

// Lines of an open loop show the schedule's side, and none when it was not kept.
func TestOpenLoopOutput(t *testing.T) {
	o := bench(t, []string{"TOKPACE_MAX_LAG=1m"}, "-test.bench=OpenLoop", "-test.benchtime=16x")
	require.Zero(t, o.code, o.stdout+o.stderr)
	require.Contains(t, o.stdout, "Unit req/s better=higher\n")
	require.Contains(t, o.stdout, "Unit send-lag-p99-ns better=lower\n")
	lines := o.lines(t)
	require.Len(t, lines, len(openScenarios))
	for name, line := range lines {
		require.Equal(t, "16", line["N"], name)
		for _, unit := range []string{"req/s", "ttft-sched-p50-ns", "e2e-sched-p99-ns", "queue-p99-ns", "send-lag-p99-ns", "ttft-p50-ns"} {
			require.Contains(t, line, unit, name)
		}
		require.NotContains(t, line, "ns/op", name)
	}

	o = bench(t, []string{"TOKPACE_MAX_LAG=1ns"}, "-test.bench=OpenLoop/schedule=constant", "-test.benchtime=16x")
	require.Equal(t, 1, o.code)
	require.Empty(t, o.lines(t))
	require.Contains(t, o.stdout, "the load generator fell behind its schedule")
}
