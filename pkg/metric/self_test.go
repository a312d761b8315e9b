package metric_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/tokpace/pkg/api"
	"example.com/tokpace/pkg/client"
	"example.com/tokpace/pkg/metric"
)

// Only successful streams count among the merged reads, only successful exchanges
// share the processor time, and what nobody knows is left out.
func TestOwnUnits(t *testing.T) {
	a, b, c := stream(10*ms, ms), stream(10*ms, ms), failed(api.Truncated)
	a.MergedReads, b.MergedReads, c.MergedReads = 3, 0, 100
	plain := &client.Exchange{OK: true, E2E: dur(ms), MergedReads: 100}
	all := []*client.Exchange{a, b, c, plain}
	v := values(metric.Of(metric.Run{Exchanges: all, CPU: dur(6 * ms)}))
	require.Equal(t, 1.5, v["merged-reads/op"])
	require.Equal(t, 2e6, v["client-cpu-ns/op"])
	for _, cpu := range []client.Dur{{}, dur(0)} {
		v = values(metric.Of(metric.Run{Exchanges: []*client.Exchange{plain}, CPU: cpu}))
		require.NotContains(t, v, "merged-reads/op")
		require.NotContains(t, v, "client-cpu-ns/op")
	}
}

func TestFloor(t *testing.T) {
	run := metric.Run{Exchanges: []*client.Exchange{stream(10*ms, 2*ms), stream(30*ms, 2*ms)}, Elapsed: time.Second, CPU: dur(4 * ms)}
	require.Equal(t, []metric.Value{
		{Unit: "floor-e2e-p50-ns", V: 12e6}, {Unit: "floor-e2e-p99-ns", V: 32e6},
		{Unit: "floor-ttft-p50-ns", V: 10e6}, {Unit: "floor-ttft-p99-ns", V: 30e6},
		{Unit: "client-cpu-ns/op", V: 2e6},
	}, metric.Floor(run))
	require.Empty(t, metric.Floor(metric.Run{}))
}

func TestSelfOf(t *testing.T) {
	begun := time.Unix(1e9, 0)
	var all []*client.Exchange
	for i := range 100 {
		ex := stream(10*ms, ms)
		ex.Reads, ex.KernelStamps, ex.MergedReads = 4, 3, 1
		ex.Scheduled, ex.Ready = begun, begun.Add(time.Duration(i)*ms)
		all = append(all, ex)
	}
	s := metric.SelfOf(metric.Run{Exchanges: all, Elapsed: 2 * time.Second, CPU: dur(time.Second)}, 4)
	require.Equal(t, metric.Self{
		SendLagP99: dur(98 * ms), KernelStamps: api.Some(0.75), MergedReads: api.Some(0.25),
		CPU: dur(time.Second), CPUUse: api.Some(0.125),
	}, s)
	require.Equal(t, metric.Self{}, metric.SelfOf(metric.Run{}, 4))
	require.Equal(t, metric.Self{CPU: dur(ms)}, metric.SelfOf(metric.Run{CPU: dur(ms)}, 4), "no time has passed")
}

func TestLagOf(t *testing.T) {
	require.Nil(t, metric.LagOf(nil))
	require.Equal(t, &metric.Lag{P50: 2, P99: 3, Max: 3, Events: 3}, metric.LagOf([]time.Duration{3, 1, 2}))
}

func TestInvalid(t *testing.T) {
	streams := []*client.Exchange{stream(10*ms, 5*ms), stream(20*ms, 5*ms), stream(30*ms, 5*ms), failed(api.Timeout)}
	plain := []*client.Exchange{{OK: true, E2E: dur(15 * ms)}}
	zero := []*client.Exchange{{OK: true, E2E: dur(0)}}
	empty := []*client.Exchange{{OK: true, Events: api.Some(0), BodyComplete: dur(ms)}} // it has no TTFT, and no other measure
	lag := func(p99 time.Duration) metric.Self {
		return metric.Self{ClientLag: &metric.Lag{P99: p99, Max: time.Hour}}
	}
	busy := func(use float64) metric.Self { return metric.Self{CPUUse: api.Some(use)} }
	for name, c := range map[string]struct {
		self      metric.Self
		exchanges []*client.Exchange
		share     float64
		inProcess bool
		want      string
	}{
		"nothing known":    {metric.Self{}, streams, 0.1, false, ""},
		"as much as may":   {lag(2 * ms), streams, 0.1, true, ""},
		"a bit more":       {lag(2*ms + 1), streams, 0.1, true, "client lag p99 is 2.000001ms, more than 10 % of the median TTFT, 20ms (max-own-error): send fewer requests at once, or give the client more of the machine"},
		"smallest median":  {lag(2 * ms), append(plain, streams...), 0.1, true, "client lag p99 is 2ms, more than 10 % of the median E2E, 15ms (max-own-error): send fewer requests at once, or give the client more of the machine"},
		"another share":    {lag(2 * ms), append(plain, streams...), 0.5, true, ""},
		"largest, send":    {metric.Self{SendLagP99: dur(9 * ms), GCPauseMax: dur(8 * ms)}, streams, 0.1, true, "send lag p99 is 9ms, more than 10 % of the median TTFT, 20ms (max-own-error): ask for a lower rate, or give the client more of the machine"},
		"largest, pause":   {metric.Self{SendLagP99: dur(8 * ms), GCPauseMax: dur(9 * ms)}, streams, 0.125, true, "longest GC pause is 9ms, more than 12.5 % of the median TTFT, 20ms (max-own-error): raise GOGC, or give the client more of the machine"},
		"median of 0":      {lag(1), zero, 0.1, true, "client lag p99 is 1ns, more than 10 % of the median E2E, 0s (max-own-error): send fewer requests at once, or give the client more of the machine"},
		"0 of 0":           {lag(0), zero, 0, true, ""},
		"nothing measured": {lag(time.Hour), empty, 0.1, true, ""},
		"busy":             {busy(0.951), streams, 0.1, false, "the client used 95.1 % of its processors' time, more than 95 %: ask for less load, or give it more processors (GOMAXPROCS)"},
		"busy with both":   {busy(0.951), streams, 0.1, true, ""},
		"not too busy":     {busy(0.95), streams, 0.1, false, ""},
	} {
		require.Equal(t, c.want, c.self.Invalid(metric.Run{Exchanges: c.exchanges}, c.share, c.inProcess), name)
	}
}
