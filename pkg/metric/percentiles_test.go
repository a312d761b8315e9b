package metric_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/tokpace/pkg/api"
	"example.com/tokpace/pkg/client"
	"example.com/tokpace/pkg/metric"
)

func TestParsePercent(t *testing.T) {
	for text, want := range map[string]string{"50": "50", "99.9": "99.9", "99.990": "99.99", "0.001": "0.001", "99.999": "99.999", "07.5": "7.5", "5.": "5"} {
		p, err := metric.ParsePercent(text)
		require.NoError(t, err, text)
		require.Equal(t, want, p.String())
	}
	for _, text := range []string{"", "0", "100", "0.0001", "99.9999", "-1", "+5", "1e1", "x", "5.x", "NaN", "50,9", ".", "1 0", "99.9.9"} {
		_, err := metric.ParsePercent(text)
		require.Error(t, err, text)
	}
}

func TestParseLatency(t *testing.T) {
	for name, want := range map[string]string{"ttft": "ttft", "e2el": "e2e", "e2e": "e2e", "client_queue_time": "queue", "e2el_including_client_queue": "e2e-sched", "body-complete": "body-complete"} {
		got, err := metric.ParseLatency(name)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err := metric.ParseLatency("speed")
	require.ErrorContains(t, err, `no latency is called "speed": choose among body-complete, `)
}

func TestPercentiles(t *testing.T) {
	var exchanges []*client.Exchange
	for i := range 1000 {
		d := api.Some(time.Duration(1000 - i))
		exchanges = append(exchanges, &client.Exchange{OK: true, TTFT: d, E2E: d})
	}
	exchanges = append(exchanges, &client.Exchange{TTFT: api.Some(time.Hour), Error: &api.Failure{Class: api.Timeout}})
	percents := []metric.Percent{1, 90_000, 99_900, 99_950, 50_000, 99_000}
	values, notes := metric.Percentiles(exchanges, []string{"ttft", "itl", "queue"}, percents)
	require.Equal(t, []metric.Value{{Unit: "ttft-p0.001-ns", V: 1}, {Unit: "ttft-p90-ns", V: 900}, {Unit: "ttft-p99.9-ns", V: 999}, {Unit: "ttft-p99.95-ns", V: 1000}}, values)
	require.Equal(t, []string{"p99.95 of 1000 samples is just the largest: ttft"}, notes)

	var units []string
	for _, u := range metric.PercentileUnits([]string{"ttft", "queue"}, percents[1:2]) {
		require.Equal(t, "lower", u.Better)
		units = append(units, u.Name)
	}
	require.Equal(t, []string{"queue-p90-ns", "ttft-p90-ns"}, units)
	for _, u := range metric.Units() {
		require.NotContains(t, units, u.Name)
	}
}
