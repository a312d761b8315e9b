package harness

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/tokpace/fakeserver"
	"example.com/tokpace/pkg/load"
)

// use makes the process's settings those given as name=value.
func use(t *testing.T, given ...string) *settings {
	t.Helper()
	s := settingsOf(t, given...)
	closeServers()
	process.Lock()
	process.settings = s
	process.Unlock()
	t.Cleanup(func() {
		closeServers()
		process.Lock()
		process.settings = nil
		process.Unlock()
	})
	return s
}

// serveOnce runs the first of the benchmarks that Serve would run.
func serveOnce(s *settings, t Target) testing.BenchmarkResult {
	v := s.shape.variations()[0]
	return testing.Benchmark(func(b *testing.B) { v.run(b, t) })
}

// In virtual time the server's own times are the client's, to the nanosecond,
// and its counts are those of the answers.
func TestServerMetricsAgreeWithTheClient(t *testing.T) {
	s := use(t, "backend=openai-chat", "input-len=20", "output-len=5", "max-concurrency=4")
	setBenchtime(t, "12x")
	synctest.Test(t, func(t *testing.T) {
		r := serveOnce(s, Target{Header: plan("ttft=30ms; itl=7ms; cached-tokens=3")})
		closeServers()
		require.Equal(t, 12, r.N)
		require.Equal(t, float64(30*time.Millisecond), r.Extra["ttft-p50-ns"])
		require.Equal(t, r.Extra["ttft-p50-ns"], r.Extra["server-ttft-mean-ns"])
		require.Equal(t, r.Extra["e2e-p50-ns"], r.Extra["server-e2e-mean-ns"])
		require.Equal(t, r.Extra["input-tok/op"], r.Extra["server-prompt-tok/op"])
		require.Equal(t, r.Extra["output-tok/op"], r.Extra["server-generation-tok/op"])
		require.Equal(t, r.Extra["input-tok/op"], r.Extra["server-prefix-cache-queries-tok/op"])
		require.Equal(t, 3.0, r.Extra["server-prefix-cache-hits-tok/op"])
		require.Equal(t, r.Extra["cached-tok/op"], r.Extra["server-prefix-cache-hits-tok/op"])
		require.Equal(t, 3/r.Extra["input-tok/op"], r.Extra["server-prefix-cache-hits/query"])
		for _, none := range []string{"server-queue-mean-ns", "server-spec-acceptance-rate", "server-preemptions/op", "server-running-max"} {
			require.NotContains(t, r.Extra, none)
		}
	})
}

// What is in flight is seen by looking while it is.
func TestServerMetricsDuringTheRun(t *testing.T) {
	s := use(t, "input-len=20", "output-len=5", "max-concurrency=4", "server-metrics-every=250ms")
	setBenchtime(t, "8x")
	synctest.Test(t, func(t *testing.T) {
		r := serveOnce(s, Target{Header: plan("ttft=1s")})
		closeServers()
		require.Equal(t, 4.0, r.Extra["server-running-max"])
		require.Equal(t, 0.0, r.Extra["server-waiting-max"])
		require.NotContains(t, r.Extra, "server-kv-cache-usage-max")
	})
}

// Other benchmarks look at the server only if asked to.
func TestServerMetricsElsewhere(t *testing.T) {
	setBenchtime(t, "2x")
	for given, want := range map[string]bool{"server-metrics=auto": false, "server-metrics=true": true, "server-metrics=false": false} {
		s := use(t, given, "input-len=4", "output-len=2")
		r := testing.Benchmark(func(b *testing.B) { Run(b, Target{}, s.shape.data(), load.Closed{}) })
		_, ok := r.Extra["server-prompt-tok/op"]
		require.Equal(t, want, ok, given)
	}
	s := use(t, "server-metrics=false", "input-len=4", "output-len=2")
	require.NotContains(t, serveOnce(s, Target{}).Extra, "server-prompt-tok/op")
}

// A server without metrics, or with some that cannot be read, is measured all
// the same.
func TestServerMetricsUnreadable(t *testing.T) {
	fake, err := fakeserver.New(fakeserver.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { fake.Close() })
	for name, answer := range map[string]func(w http.ResponseWriter, n int64){
		"none":         func(w http.ResponseWriter, _ int64) { w.WriteHeader(http.StatusNotFound) },
		"html":         func(w http.ResponseWriter, _ int64) { io.WriteString(w, "<html>") },
		"locked":       func(w http.ResponseWriter, _ int64) { w.WriteHeader(http.StatusUnauthorized) },
		"other server": func(w http.ResponseWriter, _ int64) { io.WriteString(w, "go_goroutines 7\n") },
		"restarted":    func(w http.ResponseWriter, n int64) { fmt.Fprintf(w, "vllm:prompt_tokens_total %d\n", 10-n) },
		"gone":         func(w http.ResponseWriter, n int64) { w.WriteHeader(map[bool]int{true: 200, false: 503}[n == 1]) },
	} {
		t.Run(name, func(t *testing.T) {
			var n atomic.Int64
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/metrics" {
					answer(w, n.Add(1))
					return
				}
				fake.Handler().ServeHTTP(w, r)
			}))
			t.Cleanup(srv.Close)
			s := use(t, "input-len=4", "output-len=2", "max-concurrency=1")
			setBenchtime(t, "3x")
			r := serveOnce(s, Target{URL: srv.URL})
			require.Equal(t, 3, r.N)
			require.Positive(t, n.Load())
			for unit := range r.Extra {
				require.False(t, strings.HasPrefix(unit, "server-"), unit)
			}
		})
	}
}

func endpoints(srv *fakeserver.Server) (all []string) {
	for _, rec := range srv.Journal() {
		all = append(all, rec.Endpoint)
	}
	return all
}

// The profiler is on around the measured part and nothing else, and off again
// after a run that failed.
func TestProfile(t *testing.T) {
	srv := fakeserver.Start(t, fakeserver.Config{})
	s := use(t, "input-len=4", "output-len=2", "max-concurrency=1", "profile=1")
	setBenchtime(t, "3x")
	require.Equal(t, 3, serveOnce(s, Target{URL: srv.URL}).N)
	const c = "/v1/completions"
	got := slices.DeleteFunc(endpoints(srv), func(e string) bool { return e == "/v1/models" || e == "/version" })
	require.Equal(t, []string{"/metrics", "/start_profile", c, c, c, "/stop_profile", "/metrics"}, got)

	srv.Reset()
	require.NoError(t, srv.Configure(fakeserver.Config{Rules: []fakeserver.Rule{{Match: fakeserver.Match{Endpoint: c}, Fault: fakeserver.Fault{Status: 500}}}}))
	require.Zero(t, serveOnce(s, Target{URL: srv.URL}).N)
	// The request that the failure of another cut off may come last.
	got = slices.DeleteFunc(endpoints(srv), func(e string) bool { return e == "/v1/models" || e == "/version" || e == c })
	require.Equal(t, []string{"/metrics", "/start_profile", "/stop_profile"}, got)
}

// A server without a profiler is told of before anything is sent.
func TestProfileRefused(t *testing.T) {
	srv := fakeserver.Start(t, fakeserver.Config{Rules: []fakeserver.Rule{
		{Match: fakeserver.Match{Endpoint: "/start_profile"}, Fault: fakeserver.Fault{Status: 404}},
	}})
	s := use(t, "profile=1")
	setBenchtime(t, "3x")
	require.Zero(t, serveOnce(s, Target{URL: srv.URL}).N)
	require.NotContains(t, endpoints(srv), "/v1/completions")
	require.NotContains(t, endpoints(srv), "/stop_profile")
	w := &watch{server: &server{settings: s}}
	found, release, err := find(t.Context(), Target{URL: srv.URL})
	require.NoError(t, err)
	defer release()
	w.client = found.client(nil)
	err = w.order(t.Context(), "/start_profile")
	require.ErrorContains(t, err, "profile: POST /start_profile answered 404")
	require.NotContains(t, err.Error(), "\n")
}

// notYet fails some requests before it lets them through.
type notYet struct {
	http.RoundTripper
	fail func(n int) (*http.Response, error) // nil, nil lets it through
	n    int
}

func (r *notYet) RoundTrip(req *http.Request) (*http.Response, error) {
	r.n++
	if resp, err := r.fail(r.n); resp != nil || err != nil {
		return resp, err
	}
	return r.RoundTripper.RoundTrip(req)
}

func answered(status int, body string) *http.Response {
	return &http.Response{StatusCode: status, Proto: "HTTP/1.1", Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}
}

func TestReadyCheck(t *testing.T) {
	const models = `{"data":[{"id":"m"}]}`
	for name, tt := range map[string]struct {
		given []string
		fail  func(n int) (*http.Response, error)
		waits time.Duration
		err   string
	}{
		"up at once": {nil, func(int) (*http.Response, error) { return nil, nil }, 0, ""},
		"up later": {nil, func(n int) (*http.Response, error) {
			if n <= 3 {
				return nil, fmt.Errorf("connection refused")
			}
			return nil, nil
		}, 700 * time.Millisecond, ""},
		"lists models before it serves": {nil, func(n int) (*http.Response, error) {
			switch n {
			case 1, 4: // each try asks for models and version first
				return answered(200, models), nil
			case 2, 5:
				return answered(404, ""), nil
			case 3:
				return answered(503, `{"error":{"message":"loading"}}`), nil
			case 6:
				return answered(200, `{"choices":[{"index":0,"text":"x","finish_reason":"length"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`), nil
			}
			return nil, fmt.Errorf("one request too many")
		}, 100 * time.Millisecond, ""},
		"never": {nil, func(int) (*http.Response, error) { return answered(502, "<html>"), nil }, 9500 * time.Millisecond,
			"not ready within 10s: http://127.0.0.1:1/v1/models answered 502"},
		"refused":   {nil, func(int) (*http.Response, error) { return answered(401, ""), nil }, 0, "set OPENAI_API_KEY"},
		"no answer": {[]string{"skip-check=1", "model=m"}, func(int) (*http.Response, error) { return answered(500, "boom"), nil }, 9500 * time.Millisecond, "not ready within 10s: http://127.0.0.1:1/v1/completions: http_status 500: boom"},
		"off":       {[]string{"ready-check-timeout-sec=0"}, func(int) (*http.Response, error) { return nil, fmt.Errorf("connection refused") }, 0, "cannot reach"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				given := tt.given
				if len(given) == 0 || !strings.HasPrefix(given[0], "ready") {
					given = append([]string{"ready-check-timeout-sec=10"}, given...)
				}
				set := settingsOf(t, given...)
				built, err := newServer(t.Context(), settingsOf(t), Target{})
				require.NoError(t, err)
				defer built.close()
				s := &server{settings: set, baseURL: "http://127.0.0.1:1", model: set.model, transport: &notYet{RoundTripper: built.transport, fail: tt.fail}}
				start := time.Now()
				err = s.awaitReady(t.Context())
				if tt.err == "" {
					require.NoError(t, err)
					// The fake's own answer takes a while.
					require.Equal(t, tt.waits, time.Since(start).Truncate(100*time.Millisecond))
					return
				}
				require.ErrorContains(t, err, tt.err)
				require.NotContains(t, err.Error(), "\n")
				require.LessOrEqual(t, time.Since(start), 10*time.Second)
				if tt.waits == 0 {
					require.Zero(t, time.Since(start))
				}
			})
		})
	}
}

func TestReadyCheckIsInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		s := &server{settings: settingsOf(t, "ready-check-timeout-sec=86400"), baseURL: "http://127.0.0.1:1",
			transport: &notYet{fail: func(int) (*http.Response, error) { return nil, fmt.Errorf("connection refused") }}}
		start := time.Now()
		require.Error(t, s.awaitReady(ctx))
		require.Equal(t, time.Minute, time.Since(start))
	})
}

// The server must know the adapters before anything is measured.
func TestAdaptersAreChecked(t *testing.T) {
	s := use(t, "lora-modules=tokpace-fake,nope")
	found, release, err := find(t.Context(), Target{})
	require.NoError(t, err)
	defer release()
	require.EqualError(t, found.checkShape(&s.shape), `built-in fake has no model "nope", which lora-modules names: it lists tokpace-fake (a model that it does not list: set TOKPACE_SKIP_CHECK=1)`)
	s = use(t, "lora-modules=tokpace-fake")
	require.NoError(t, found.checkShape(&s.shape))
}

func TestServedModelName(t *testing.T) {
	use(t, "model=Qwen/Qwen3-8B", "served-model-name=tokpace-fake")
	found, release, err := find(t.Context(), Target{})
	require.NoError(t, err)
	defer release()
	require.Equal(t, "tokpace-fake", found.model)
}

func TestShapeLoads(t *testing.T) {
	for _, tt := range []struct {
		given []string
		limit int
		want  load.Load
	}{
		{nil, 0, load.Closed{N: 8}},
		{[]string{"max-concurrency=3", "num-warmups=5", "warmup-time=2s", "limit-time=1m", "limit-tokens=7"}, 0,
			load.Closed{N: 3, Warmup: load.Warmup{Requests: 5, Duration: 2 * time.Second}, Limits: load.Limits{Duration: time.Minute, Tokens: 7}}},
		{[]string{"request-rate=10"}, 0, load.Open{Schedule: load.Poisson{Rate: 10}}},
		{[]string{"request-rate=10", "burstiness=1", "max-concurrency=4"}, 0, load.Open{Schedule: load.Poisson{Rate: 10}, MaxConcurrency: 4}},
		{[]string{"request-rate=10", "burstiness=inf"}, 0, load.Open{Schedule: load.Constant{Rate: 10}}},
		{[]string{"request-rate=10", "burstiness=0.25", "num-warmups=1"}, 0, load.Open{Schedule: load.Gamma{Rate: 10, Burstiness: 0.25}, Warmup: load.Warmup{Requests: 1}}},
		{[]string{"ramp-up-strategy=exponential", "ramp-up-start-rps=1", "ramp-up-end-rps=8"}, 30, load.Open{Schedule: load.Ramp{From: 1, To: 8, Requests: 30, Exponential: true}}},
		{[]string{"ramp-up-strategy=linear", "ramp-up-start-rps=8", "ramp-up-end-rps=1", "burstiness=2"}, 30, load.Open{Schedule: load.Ramp{From: 8, To: 1, Requests: 30, Burstiness: 2}}},
	} {
		require.Equal(t, tt.want, settingsOf(t, tt.given...).shape.variations()[0].load(tt.limit), tt.given)
	}
	ramp := settingsOf(t, "ramp-up-strategy=linear", "ramp-up-start-rps=8", "ramp-up-end-rps=1")
	require.ErrorContains(t, ramp.shape.checkCount(0), "-benchtime=1000x")
	require.NoError(t, ramp.shape.checkCount(2))
}

// Ten requests a second to a server that takes half a second for each and gets
// one at a time: the settings' names make the load that is known for hiding the
// queue, and the queue is seen.
func TestServeOpenLoop(t *testing.T) {
	s := use(t, "backend=vllm-pooling", "input-len=8", "request-rate=10", "burstiness=inf", "max-concurrency=1",
		"metric-percentiles=90,99.9", "percentile-metrics=e2el,e2el_including_client_queue", "goodput=e2el:500,e2e-sched:1700")
	setBenchtime(t, "8x")
	synctest.Test(t, func(t *testing.T) {
		r := serveOnce(s, Target{Header: plan("ttft=500ms")})
		closeServers()
		require.Equal(t, 8, r.N)
		const ms = float64(time.Millisecond)
		for unit, want := range map[string]float64{
			"e2e-p50-ns": 500 * ms, "e2e-p90-ns": 500 * ms, "e2e-p99.9-ns": 500 * ms, "e2e-sched-p50-ns": 1700 * ms, "e2e-sched-p90-ns": 3300 * ms, "e2e-sched-p99-ns": 3300 * ms,
			"queue-p99-ns": 2800 * ms, "req/s": 2, "goodput-req/s": 1, "server-e2e-mean-ns": 500 * ms,
		} {
			require.Equal(t, want, r.Extra[unit], unit)
		}
		require.NotContains(t, r.Extra, "ttft-p90-ns")
	})
}

// Warm-up requests have prompts of their own and are in no number, the server's
// included.
func TestServeWarmUp(t *testing.T) {
	srv := fakeserver.Start(t, fakeserver.Config{CachedTokens: 1})
	s := use(t, "input-len=8", "output-len=2", "max-concurrency=2", "num-warmups=5", "profile=1")
	setBenchtime(t, "4x")
	r := serveOnce(s, Target{URL: srv.URL})
	require.Equal(t, 8.0, r.Extra["server-prompt-tok/op"])
	got := slices.DeleteFunc(endpoints(srv), func(e string) bool { return e == "/v1/models" || e == "/version" })
	require.Len(t, got, 5+2+4+2)
	require.Equal(t, []string{"/metrics", "/start_profile"}, got[5:7])
	require.Equal(t, []string{"/stop_profile", "/metrics"}, got[11:])
}
