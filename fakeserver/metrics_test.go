package fakeserver

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// metrics are the samples of /metrics by name and labels, histograms' buckets left out.
func metrics(t *testing.T, s *Server, c *http.Client) map[string]string {
	t.Helper()
	res, err := c.Get(s.URL + "/metrics")
	require.NoError(t, err)
	defer res.Body.Close()
	require.Equal(t, "text/plain; version=0.0.4; charset=utf-8", res.Header.Get("Content-Type"))
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	samples := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		name, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "} ")
		require.True(t, ok, line)
		name = strings.NewReplacer(`,model_name="tokpace-fake"`, "", `model_name="tokpace-fake"`, "").Replace(name) + "}"
		require.NotContains(t, samples, name)
		samples[strings.ReplaceAll(strings.TrimPrefix(name, "vllm:"), "{}", "")] = value
	}
	return samples
}

func TestMetrics(t *testing.T) {
	noLeaks(t)
	virtual(t, Config{Headers: 5 * ms, TTFT: 30 * ms, ITL: 10 * ms, CachedTokens: 3}, func(t *testing.T, s *Server, c *http.Client) {
		m := metrics(t, s, c)
		for name, v := range m {
			require.Equal(t, "0", v, name)
		}
		require.Contains(t, m, "num_requests_waiting")

		const prompt = `"prompt":" able acid aged also"`
		fetch(t, c, s.URL+"/v1/completions", `{`+prompt+`,"max_tokens":3,"stream":true}`)
		fetch(t, c, s.URL+"/v1/completions", `{`+prompt+`,"max_tokens":5}`, PlanHeader, "output-tokens=2; cached-tokens=9")
		fetch(t, c, s.URL+"/v1/embeddings", `{"input":[" able acid"," aged"]}`)
		for _, none := range []string{"/tokenize", "/start_profile", "/v1/models"} { // of the model, nothing
			fetch(t, c, s.URL+none, `{"prompt":" able"}`)
		}
		fetch(t, c, s.URL+"/v1/completions", `{"prompt":7}`)
		fetch(t, c, s.URL+"/v1/completions", `{`+prompt+`}`, FaultHeader, "status=503")

		want := map[string]string{
			"num_requests_running": "0", "num_requests_waiting": "0",
			"prompt_tokens_total": "14", "generation_tokens_total": "5",
			"prefix_cache_queries_total": "14", "prefix_cache_hits_total": "8",
			`request_success_total{finished_reason="stop"}`: "2", `request_success_total{finished_reason="length"}`: "1", `request_success_total{finished_reason="abort"}`: "0",
			"time_to_first_token_seconds_count": "1", "time_to_first_token_seconds_sum": "0.03",
			"e2e_request_latency_seconds_count": "3", "e2e_request_latency_seconds_sum": "0.12", // 50, 40 and 30 ms
			`time_to_first_token_seconds_bucket{le="0.02"}`: "0", `time_to_first_token_seconds_bucket{le="0.04"}`: "1",
			`time_to_first_token_seconds_bucket{le="60"}`: "1", `time_to_first_token_seconds_bucket{le="+Inf"}`: "1",
		}
		m = metrics(t, s, c)
		for name, v := range want {
			require.Equal(t, v, m[name], name)
		}
	})
}

// What runs is running; what the client left, and what broke off, was aborted.
func TestMetricsOfUnfinished(t *testing.T) {
	noLeaks(t)
	virtual(t, Config{TTFT: 30 * ms, ITL: 10 * ms}, func(t *testing.T, s *Server, c *http.Client) {
		ctx, cancel := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, "POST", s.URL+"/v1/completions", strings.NewReader(`{"prompt":" able acid","max_tokens":9,"stream":true}`))
		require.NoError(t, err)
		res, err := c.Do(req)
		require.NoError(t, err)
		defer res.Body.Close()
		_, err = io.ReadFull(res.Body, make([]byte, 10))
		require.NoError(t, err)
		m := metrics(t, s, c)
		require.Equal(t, "1", m["num_requests_running"])
		require.Equal(t, "0", m["prompt_tokens_total"])
		require.Equal(t, "1", m["time_to_first_token_seconds_count"])
		cancel()
		synctest.Wait()
		m = metrics(t, s, c)
		require.Equal(t, "0", m["num_requests_running"])
		require.Equal(t, "1", m["generation_tokens_total"])
		require.Equal(t, "1", m[`request_success_total{finished_reason="abort"}`])

		cut := post(t, c, s.URL+"/v1/completions", `{"prompt":" able","max_tokens":9,"stream":true}`, FaultHeader, "cut=2")
		_, err = io.ReadAll(cut.Body)
		cut.Body.Close()
		require.Error(t, err)
		synctest.Wait()
		m = metrics(t, s, c)
		require.Equal(t, "3", m["generation_tokens_total"])
		require.Equal(t, "2", m[`request_success_total{finished_reason="abort"}`])
		require.Equal(t, "0", m["e2e_request_latency_seconds_count"])
	})
}
