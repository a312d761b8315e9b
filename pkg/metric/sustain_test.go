package metric_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/tokpace/pkg/api"
	"example.com/tokpace/pkg/client"
	"example.com/tokpace/pkg/metric"
)

// queueing is an open loop of n requests, one each 10 ms, on a server that takes
// them one by one, so long each.
func queueing(n int, takes time.Duration) (all []*client.Exchange) {
	free := time.Duration(0)
	for i := range n {
		send := time.Duration(i) * 10 * ms
		free = max(free, send) + takes
		all = append(all, at(send, send, send, stream(free-send-ms))) // body complete 1 ms later
	}
	return all
}

func TestSustained(t *testing.T) {
	slo := metric.SLO{"ttft-sched": 100 * ms}
	closed := func(n int) (all []*client.Exchange) {
		for i := range n {
			ex := at(0, 0, time.Duration(i)*10*ms, stream(9*ms))
			ex.Scheduled, ex.Ready = time.Time{}, time.Time{}
			all = append(all, ex)
		}
		return all
	}
	broken := queueing(100, 5*ms)
	broken[50] = at(0, 0, 500*ms, failed(api.Timeout))
	for name, tt := range map[string]struct {
		run   metric.Run
		below float64
		rate  float64
		why   string
	}{
		"in time":            {metric.Run{Exchanges: queueing(101, 5*ms)}, 0, 99 / 0.995, ""},
		"just so":            {metric.Run{Exchanges: queueing(101, 10*ms)}, 0, 99 / 0.99, ""},
		"overloaded":         {metric.Run{Exchanges: queueing(101, 20*ms)}, 0, 49 / 0.98, "49 of the 98 requests wanted in its steady part were answered in it"},
		"with limits kept":   {metric.Run{Exchanges: queueing(101, 5*ms), Goodput: slo, Elapsed: time.Second}, 0, 99 / 0.995, ""},
		"with limits broken": {metric.Run{Exchanges: queueing(101, 15*ms), Goodput: slo, Elapsed: time.Second}, 0, 65 / 0.985, "18 of 101 requests kept the limits, too few"},
		"unfinished":         {metric.Run{Exchanges: queueing(101, 5*ms), Unfinished: 10}, 0, 99 / 0.995, "99 of the 110 requests wanted in its steady part were answered in it"},
		"a failure":          {metric.Run{Exchanges: broken}, 0, 0, "1 of 100 requests failed"},
		"too short":          {metric.Run{Exchanges: queueing(1, 5*ms)}, 0, 0, "no steady part: the last request was sent before the first had ended"},
		"closed":             {metric.Run{Exchanges: closed(101)}, 90, 99 / 0.99, ""},
		"closed, no gain":    {metric.Run{Exchanges: closed(101)}, 96, 99 / 0.99, "100 requests/s, no more than fewer in flight bring (96)"},
	} {
		rate, why := metric.Sustained(tt.run, tt.below)
		require.Equal(t, tt.why, why, name)
		require.InDelta(t, tt.rate, rate, 1e-9, name)
	}
}
