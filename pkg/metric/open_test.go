package metric_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/tokpace/pkg/api"
	"example.com/tokpace/pkg/client"
	"example.com/tokpace/pkg/metric"
)

// at is an answer scheduled, ready and sent so long after a common begin.
func at(scheduled, ready, sent time.Duration, ex *client.Exchange) *client.Exchange {
	begin := time.Unix(1e9, 0)
	ex.Scheduled, ex.Ready, ex.Sent = begin.Add(scheduled), begin.Add(ready), begin.Add(sent)
	return ex
}

func TestOpenLoopByHand(t *testing.T) {
	all := []*client.Exchange{
		at(0, 1*ms, 1*ms, stream(10*ms, 20*ms)),
		at(100*ms, 100*ms, 150*ms, stream(10*ms, 20*ms)),
		at(200*ms, 220*ms, 290*ms, stream(30*ms, 10*ms)),
		at(300*ms, 300*ms, 300*ms, failed(api.Timeout)),
	}
	s := metric.Of(metric.Run{Exchanges: all, Elapsed: 2 * time.Second, Unfinished: 2})
	v := values(s)
	for unit, want := range map[string]float64{
		"ttft-p50-ns": 10e6, "ttft-p99-ns": 30e6,
		"ttft-sched-p50-ns": 60e6, "ttft-sched-p99-ns": 120e6, // 11, 60, 120
		"e2e-sched-p50-ns": 80e6, "e2e-sched-p99-ns": 130e6, // 31, 80, 130
		"queue-p99-ns": 90e6, "send-lag-p99-ns": 20e6,
		"req/s": 1.5, "ok/op": 0.75,
	} {
		require.Equal(t, want, v[unit], unit)
	}
	for _, unit := range []string{"queue-p50-ns", "send-lag-p50-ns", "goodput-req/s", "steady-req/s"} {
		require.NotContains(t, v, unit)
	}
	require.Contains(t, s.Notes, "2 requests were unfinished when the run ended and are in no statistic: latencies are too good by what they would have taken")
	require.Contains(t, s.Notes, "the load generator fell behind its schedule: send lag p99 20ms, largest 20ms; it is in the -sched latencies")

	// The same in a closed loop knows of no schedule.
	for _, ex := range all {
		ex.Scheduled, ex.Ready = time.Time{}, time.Time{}
	}
	for unit := range values(metric.Of(metric.Run{Exchanges: all, Elapsed: 2 * time.Second})) {
		require.NotRegexp(t, "sched|queue|lag|req/s", unit)
	}
}

func TestGoodput(t *testing.T) {
	fast := at(0, 0, 0, stream(10*ms, 2*ms, 2*ms))
	fast.TPOT = dur(2 * ms)
	jerky := at(0, 0, 0, stream(10*ms, 2*ms, 90*ms))
	jerky.TPOT = dur(46 * ms)
	queued := at(0, 0, 500*ms, stream(10*ms, 2*ms, 2*ms))
	queued.TPOT = dur(2 * ms)
	single := at(0, 0, 0, stream(10*ms)) // no TPOT, no gap
	bad := failed(api.HTTPStatus)
	all := []*client.Exchange{fast, jerky, queued, single, bad}
	for text, want := range map[string]float64{
		"ttft:10":          4,
		"ttft:9.999999":    0,
		"tpot:45":          3,
		"itl:89":           3,
		"itl:90":           4,
		"ttft-sched:100":   3,
		"queue:499 itl:50": 2,
		"e2el:14":          3,
		"e2e:14,queue:1":   2,
		"send-lag:1":       4,
	} {
		slo, err := metric.ParseSLO(text)
		require.NoError(t, err)
		s := metric.Of(metric.Run{Exchanges: all, Elapsed: 2 * time.Second, Goodput: slo})
		require.Equal(t, want/2, values(s)["goodput-req/s"], text)
		require.Equal(t, int(want), s.Good, text)
	}
	// A limit that nothing can break is no limit.
	s := metric.Of(metric.Run{Exchanges: []*client.Exchange{single}, Elapsed: time.Second, Goodput: metric.SLO{"tpot": ms}})
	require.NotContains(t, values(s), "goodput-req/s")
	require.Contains(t, s.Notes, "goodput-req/s: left out, since no answer has a tpot to keep its limit")
	// Where all failed, the goodput is 0 and known.
	v := values(metric.Of(metric.Run{Exchanges: []*client.Exchange{bad}, Elapsed: time.Second, Goodput: metric.SLO{"ttft": ms}}))
	require.Contains(t, v, "goodput-req/s")
	require.Zero(t, v["goodput-req/s"])
}

func TestParseSLO(t *testing.T) {
	slo, err := metric.ParseSLO("ttft:100 tpot:50.5, e2el:3000")
	require.NoError(t, err)
	require.Equal(t, metric.SLO{"ttft": 100 * ms, "tpot": 50500 * time.Microsecond, "e2e": 3 * time.Second}, slo)
	slo, err = metric.ParseSLO("")
	require.NoError(t, err)
	require.Empty(t, slo)
	for text, want := range map[string]string{
		"ttft":           `"ttft": want NAME:MILLISECONDS above 0, as in ttft:200`,
		"ttft:fast":      `"ttft:fast": want NAME:MILLISECONDS above 0, as in ttft:200`,
		"ttft:0":         `"ttft:0": want NAME:MILLISECONDS above 0, as in ttft:200`,
		"ttft:NaN":       `"ttft:NaN": want NAME:MILLISECONDS above 0, as in ttft:200`,
		"ttft:Inf":       `"ttft:Inf": want NAME:MILLISECONDS above 0, as in ttft:200`,
		"ttft:1 ttft:2":  `"ttft:2": ttft has a limit already`,
		"e2e:1,e2el:2":   `"e2el:2": e2e has a limit already`,
		"speed:1":        `no latency is called "speed": choose among body-complete, e2e, e2e-sched, headers, itl, queue, send-lag, tpot, ttft, ttft-sched`,
		"ttft:0.0000001": `the limit of ttft is 0s, it must be above 0`,
	} {
		_, err := metric.ParseSLO(text)
		require.EqualError(t, err, want)
	}
}

// Ten requests, one each 100 ms, of 250 ms each: the first end is at 250 ms, the
// last send at 900 ms.
func TestSteadyWindow(t *testing.T) {
	var all []*client.Exchange
	for i := range 10 {
		send := time.Duration(i) * 100 * ms
		// 249 + 1 ms: stream's body is complete 1 ms after its last event.
		all = append(all, usage(at(send, send, send, stream(time.Duration(100+i)*ms, time.Duration(149-i)*ms)), 5, 20, client.FromServer))
	}
	w, ok := metric.WindowOf(all)
	require.True(t, ok)
	begin := time.Unix(1e9, 0)
	require.Equal(t, metric.Window{Begin: begin.Add(250 * ms), End: begin.Add(900 * ms)}, w)
	require.Equal(t, 6/0.65, w.Rate(all), "ended at 350 … 850 ms")
	s := metric.Of(metric.Run{Exchanges: all, Elapsed: 1150 * ms, Steady: true})
	v := values(s)
	require.Equal(t, 6/0.65, v["steady-req/s"])
	require.Equal(t, 120/0.65, v["steady-output-tok/s"])
	require.Equal(t, 106e6, v["steady-ttft-p50-ns"], "sent at 300 … 900 ms")
	require.Equal(t, 109e6, v["steady-ttft-p99-ns"])
	require.Equal(t, 104e6, v["ttft-p50-ns"])
	require.NotContains(t, v, "steady-headers-p50-ns")
	require.Contains(t, s.Notes, "steady part: 650ms of 1.15s, 7 of 10 requests sent in it")

	// All at once has no steady part.
	s = metric.Of(metric.Run{Exchanges: all[:1], Elapsed: time.Second, Steady: true})
	require.Contains(t, s.Notes, "no steady part: the last request was sent before the first had ended")
	for unit := range values(s) {
		require.NotContains(t, unit, "steady")
	}
	// Failures neither begin nor end it, and are in no rate.
	bad := at(0, 0, 0, failed(api.Timeout))
	w2, ok := metric.WindowOf(append(all, bad))
	require.True(t, ok)
	require.Equal(t, w, w2)
}

// Seconds stay seconds: what the server took comes out in nanoseconds, once.
func TestCaseH49Units(t *testing.T) {
	ex := at(0, 0, 0, stream(1250*ms, 50*ms))
	v := values(metric.Of(metric.Run{Exchanges: []*client.Exchange{ex}, Elapsed: 1301 * ms}))
	require.Equal(t, 1.25e9, v["ttft-p50-ns"])
	require.Equal(t, 1.3e9, v["e2e-p50-ns"])
	require.Equal(t, 5e7, v["itl-p50-ns"])
	require.Equal(t, 1.25e9, v["ttft-sched-p50-ns"])
	require.InEpsilon(t, 1/1.301, v["req/s"], 1e-15)
}
