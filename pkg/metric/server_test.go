package metric_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/tokpace/pkg/metric"
	"example.com/tokpace/pkg/prom"
)

func scrape(t *testing.T, text string) prom.Metrics {
	t.Helper()
	m, err := prom.Parse([]byte(text))
	require.NoError(t, err)
	return m
}

func serverValues(t *testing.T, r metric.ServerRun) (map[string]float64, []string) {
	t.Helper()
	values, notes := metric.OfServer(r)
	got := map[string]float64{}
	for _, v := range values {
		require.NotContains(t, got, v.Unit)
		got[v.Unit] = v.V
	}
	return got, notes
}

// A server of two engines, with speculation, under today's names.
const engines = `process_start_time_seconds 1.7e9
vllm:num_requests_running{engine="0"} 0
vllm:num_requests_waiting{engine="0"} 0
vllm:prompt_tokens_total{engine="0"} 1000
vllm:prompt_tokens_total{engine="1"} 500
vllm:generation_tokens_total{engine="0"} 100
vllm:prefix_cache_queries_total{engine="0"} 1000
vllm:prefix_cache_hits_total{engine="0"} 990
vllm:request_success_total{finished_reason="stop"} 7
vllm:num_preemptions_total 1
vllm:spec_decode_num_drafts_total 10
vllm:spec_decode_num_draft_tokens_total 40
vllm:spec_decode_num_accepted_tokens_total 15
vllm:time_to_first_token_seconds_sum 3.5
vllm:time_to_first_token_seconds_count 7
vllm:request_queue_time_seconds_sum 0.25
vllm:request_queue_time_seconds_count 7
vllm:inter_token_latency_seconds_sum 1
vllm:inter_token_latency_seconds_count 93
`

func TestOfServer(t *testing.T) {
	after := scrape(t, `process_start_time_seconds 1.7e9
vllm:num_requests_running{engine="0"} 0
vllm:num_requests_waiting{engine="0"} 0
vllm:prompt_tokens_total{engine="0"} 1300
vllm:prompt_tokens_total{engine="1"} 600
vllm:generation_tokens_total{engine="0"} 140
vllm:prefix_cache_queries_total{engine="0"} 1400
vllm:prefix_cache_hits_total{engine="0"} 1000
vllm:request_success_total{finished_reason="stop"} 9
vllm:request_success_total{finished_reason="length"} 2
vllm:num_preemptions_total 1
vllm:spec_decode_num_drafts_total 20
vllm:spec_decode_num_draft_tokens_total 80
vllm:spec_decode_num_accepted_tokens_total 45
vllm:time_to_first_token_seconds_sum 3.9
vllm:time_to_first_token_seconds_count 11
vllm:request_queue_time_seconds_sum 0.25
vllm:request_queue_time_seconds_count 11
vllm:inter_token_latency_seconds_sum 1
vllm:inter_token_latency_seconds_count 93
`)
	during := []prom.Metrics{
		scrape(t, "vllm:num_requests_running{engine=\"0\"} 3\nvllm:num_requests_running{engine=\"1\"} 2\nvllm:num_requests_waiting 0\nvllm:kv_cache_usage_perc{engine=\"0\"} 0.25\nvllm:kv_cache_usage_perc{engine=\"1\"} 0.5\n"),
		scrape(t, "vllm:num_requests_running{engine=\"0\"} 4\nvllm:num_requests_waiting 9\nvllm:kv_cache_usage_perc{engine=\"0\"} 0.125\n"),
	}
	r := metric.ServerRun{Before: scrape(t, engines), After: after, During: during, Sent: 4}
	got, notes := serverValues(t, r)
	require.Equal(t, map[string]float64{
		"server-prompt-tok/op": 100, "server-generation-tok/op": 10, "server-prefix-cache-queries-tok/op": 100, "server-prefix-cache-hits-tok/op": 2.5, "server-preemptions/op": 0,
		"server-prefix-cache-hits/query": 0.025, "server-spec-acceptance-rate": 0.75, "server-spec-acceptance-length": 4,
		"server-ttft-mean-ns": 100e6, "server-queue-mean-ns": 0,
		"server-running-max": 5, "server-waiting-max": 9, "server-kv-cache-usage-max": 0.5,
	}, got)
	require.Empty(t, notes)

	units := map[string]bool{}
	for _, u := range metric.ServerUnits() {
		units[u.Name] = true
	}
	for unit := range got {
		require.True(t, units[unit], unit)
	}

	// Gauges exist only where somebody looked.
	r.During = nil
	got, _ = serverValues(t, r)
	require.NotContains(t, got, "server-running-max")
	require.NotContains(t, got, "server-kv-cache-usage-max")
}

// Under the names of before: queries of the cache were blocks then.
func TestOfServerOldNames(t *testing.T) {
	before := scrape(t, "vllm:gpu_prefix_cache_queries_total 10\nvllm:gpu_prefix_cache_hits_total 10\nvllm:time_per_output_token_seconds_sum 1\nvllm:time_per_output_token_seconds_count 10\n")
	after := scrape(t, "vllm:gpu_prefix_cache_queries_total 20\nvllm:gpu_prefix_cache_hits_total 15\nvllm:time_per_output_token_seconds_sum 1.5\nvllm:time_per_output_token_seconds_count 35\n")
	got, notes := serverValues(t, metric.ServerRun{Before: before, After: after, Sent: 5,
		During: []prom.Metrics{scrape(t, "vllm:gpu_cache_usage_perc 0.75\n")}})
	require.Equal(t, map[string]float64{
		"server-prefix-cache-hits/query": 0.5, "server-itl-mean-ns": 20e6, "server-kv-cache-usage-max": 0.75,
	}, got)
	require.Len(t, notes, 1)
	require.Contains(t, notes[0], "50 % of the prompts' tokens came from the server's prefix cache")
}

// What a server lacks or has switched off is absent.
func TestOfServerAbsent(t *testing.T) {
	for _, text := range []string{"", "python_gc_objects_collected_total 7\n",
		"vllm:prefix_cache_queries_total 0\nvllm:prefix_cache_hits_total 0\nvllm:spec_decode_num_drafts_total 3\nvllm:spec_decode_num_draft_tokens_total 3\nvllm:spec_decode_num_accepted_tokens_total 3\n",
		"vllm:prompt_tokens_total NaN\nvllm:time_to_first_token_seconds_sum +Inf\nvllm:time_to_first_token_seconds_count 3\n"} {
		got, notes := serverValues(t, metric.ServerRun{Before: scrape(t, text), After: scrape(t, text), Sent: 3, During: []prom.Metrics{scrape(t, text)}})
		require.Empty(t, got, text)
		require.Empty(t, notes, text)
	}
	got, notes := serverValues(t, metric.ServerRun{})
	require.Empty(t, got)
	require.Empty(t, notes)
}

// A server that was started anew counts from 0, and may have passed the old
// count: one counter that fell speaks for all.
func TestOfServerRestarted(t *testing.T) {
	before := scrape(t, "vllm:prompt_tokens_total 100\nvllm:request_success_total 50\n")
	got, notes := serverValues(t, metric.ServerRun{Before: before, After: scrape(t, "vllm:prompt_tokens_total 400\nvllm:request_success_total 4\n"), Sent: 4})
	require.Empty(t, got)
	require.Equal(t, []string{"the server's own metrics are left out: its counter vllm:request_success_total fell during the run, so it was started anew"}, notes)

	got, notes = serverValues(t, metric.ServerRun{Before: scrape(t, "process_start_time_seconds 10\nvllm:prompt_tokens_total 0\n"), After: scrape(t, "process_start_time_seconds 11\nvllm:prompt_tokens_total 8\n"), Sent: 4})
	require.Empty(t, got)
	require.Len(t, notes, 1)
}

func TestOfServerCompany(t *testing.T) {
	before := scrape(t, "vllm:num_requests_running 2\nvllm:num_requests_waiting 1\nvllm:request_success_total{r=\"stop\"} 10\n")
	after := scrape(t, "vllm:num_requests_running 0\nvllm:num_requests_waiting 0\nvllm:request_success_total{r=\"stop\"} 19\n")
	_, notes := serverValues(t, metric.ServerRun{Before: before, After: after, Sent: 4})
	require.Equal(t, []string{
		"the server was busy with 3 requests of others when the run began",
		"the server finished 9 requests during the run, which sent 4: others used it, and its own metrics are over all of them",
	}, notes)
}
