package harness

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/tokpace/fakeserver"
	"example.com/tokpace/pkg/api"
	"example.com/tokpace/pkg/client"
	"example.com/tokpace/pkg/dataset"
	"example.com/tokpace/pkg/load"
)

// clean makes the process's settings those of an empty environment.
func clean(t *testing.T) {
	t.Helper()
	s, err := readSettings(nil)
	require.NoError(t, err)
	process.Lock()
	process.settings = s
	process.Unlock()
	t.Cleanup(closeServers)
	steps := fillSteps
	fillSteps = []string{"0s"} // a test's virtual time begins with the measured load
	t.Cleanup(func() { fillSteps = steps })
}

func setBenchtime(t *testing.T, v string) {
	t.Helper()
	f := flag.Lookup("test.benchtime")
	old := f.Value.String()
	require.NoError(t, f.Value.Set(v))
	t.Cleanup(func() { require.NoError(t, f.Value.Set(old)) })
}

func plan(s string) http.Header { return http.Header{fakeserver.PlanHeader: {s}} }

// 512 requests in flight on a server that takes 250 ms: b.Loop must see answers,
// not tickets, or a second of benchtime becomes a minute.
func TestManyInFlightEndSoon(t *testing.T) {
	clean(t)
	setBenchtime(t, "1s")
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		r := testing.Benchmark(func(b *testing.B) {
			Run(b, Target{Header: plan("ttft=250ms")}, dataset.Rerank{Query: 4, Documents: 1, Document: 4}, load.Closed{N: 512})
		})
		closeServers()
		elapsed := time.Since(start)
		require.GreaterOrEqual(t, elapsed, time.Second)
		require.LessOrEqual(t, elapsed, 2500*time.Millisecond)
		require.Equal(t, 1.0, r.Extra["ok/op"])
		require.Equal(t, float64(250*time.Millisecond), r.Extra["body-complete-p50-ns"])
		// The last wave may be smaller than 512: it began before the end was known.
		full := float64(250*time.Millisecond) / 512
		require.GreaterOrEqual(t, r.Extra["ns/op"], full)
		require.Less(t, r.Extra["ns/op"], 1.25*full)
		require.GreaterOrEqual(t, r.N, 4*512)
	})
}

// With -benchtime=Nx exactly N requests are sent, whatever the concurrency, and
// what one costs does not depend on N: no connection is made inside.
func TestExactlyNRequests(t *testing.T) {
	clean(t)
	srv := fakeserver.Start(t, FakeConfig())
	for name, d := range map[string]dataset.Dataset{
		"chat":       dataset.Chat{Input: 64, Output: 17, Stream: true},
		"embeddings": dataset.Embeddings{Input: 64},
	} {
		t.Run(name, func(t *testing.T) {
			measure := func(n int) map[string]float64 {
				setBenchtime(t, fmt.Sprintf("%dx", n))
				srv.Reset()
				r := testing.Benchmark(func(b *testing.B) {
					Run(b, Target{URL: srv.URL, InProcess: true}, d, load.Closed{N: 8})
				})
				posts := 0
				for _, rec := range srv.Journal() {
					if rec.Method == http.MethodPost {
						posts++
					}
				}
				require.Equal(t, n, posts)
				require.Equal(t, n, r.N)
				return r.Extra
			}
			measure(200) // fills the pools
			few, many := measure(5), measure(200)
			require.InEpsilon(t, many["allocs/op"], few["allocs/op"], 0.10)
			require.Greater(t, many["allocs/op"], 50.0)
			require.Equal(t, many["input-tok/op"], few["input-tok/op"])
		})
	}
}

// A body of 64 MiB is consumed in pieces: neither the client nor the server
// holds it.
func TestLargeBinaryBodyIsNotKept(t *testing.T) {
	clean(t)
	s, _, err := find(t.Context(), Target{})
	require.NoError(t, err)
	c := s.client(plan("dim=16777216"))
	src, err := s.source(t.Context(), dataset.Embeddings{Input: 4, Encoding: api.BytesOnly})
	require.NoError(t, err)
	req, err := src.Request(0)
	require.NoError(t, err)
	warm := *req
	require.True(t, s.client(nil).Do(t.Context(), &warm).OK)

	// Live heap is looked at from inside the body, several times on its way.
	var before, during runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	peak := uint64(0)
	done := make(chan *client.Exchange)
	go func() { done <- c.Do(context.Background(), req) }()
	for {
		select {
		case ex := <-done:
			require.True(t, ex.OK, "%v", ex.Error)
			require.EqualValues(t, 64<<20, ex.BodyBytes.V)
			require.NotZero(t, peak, "the body was over before the first look")
			require.Less(t, int64(peak)-int64(before.HeapAlloc), int64(2<<20))
			return
		default:
			runtime.GC()
			runtime.ReadMemStats(&during)
			peak = max(peak, during.HeapAlloc)
		}
	}
}

// What a server says of itself cannot put lines into the benchmark text.
func TestHostileModelName(t *testing.T) {
	clean(t)
	evil := "x\nBenchmarkForged-2 100 1 ns/op\x1b[2J"
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"data": []any{map[string]any{"id": evil, "owned_by": evil}}, "version": evil})
	}))
	t.Cleanup(srv.Close)
	s, release, err := find(t.Context(), Target{URL: srv.URL})
	require.NoError(t, err)
	defer release()
	var out strings.Builder
	printHeader(&out, s)
	require.NotContains(t, out.String(), "\nBenchmark")
	require.NotContains(t, out.String(), "\x1b")
	_, _, err = find(t.Context(), Target{URL: srv.URL, Model: "nope"})
	require.ErrorContains(t, err, `has no model "nope"`)
	require.NotContains(t, err.Error(), "\n")
}

// A target's own header goes out with the questions too, and a server at the
// same address is asked anew for each benchmark.
func TestTargetIsAskedWithItsHeader(t *testing.T) {
	clean(t)
	model := "one"
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Team") != "infra" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		fmt.Fprintf(w, `{"data":[{"id":%q}]}`, model)
	}))
	t.Cleanup(srv.Close)
	_, _, err := find(t.Context(), Target{URL: srv.URL})
	require.ErrorContains(t, err, "answered 401")
	for _, model = range []string{"one", "two"} {
		s, release, err := find(t.Context(), Target{URL: srv.URL, Header: http.Header{"x-team": {"infra"}}})
		require.NoError(t, err)
		require.Equal(t, model, s.model)
		release()
	}
}

// slowSource needs time to build each request.
type slowSource struct{ dataset.Rerank }

func (d slowSource) Source(env dataset.Env) (dataset.Source, error) {
	src, err := d.Rerank.Source(env)
	return slow{src}, err
}

type slow struct{ dataset.Source }

func (s slow) Request(i int) (*api.Request, error) {
	time.Sleep(20 * time.Millisecond) // virtual: what building costs
	return s.Source.Request(i)
}

// A client that builds requests slower than the server answers them does not
// hold the concurrency, and says so.
func TestStarvedClientIsSaid(t *testing.T) {
	for name, d := range map[string]dataset.Dataset{
		"slow": slowSource{dataset.Rerank{Query: 4, Documents: 1, Document: 4}},
		"fast": dataset.Rerank{Query: 4, Documents: 1, Document: 4},
	} {
		t.Run(name, func(t *testing.T) {
			clean(t)
			setBenchtime(t, "100x")
			synctest.Test(t, func(t *testing.T) {
				r := testing.Benchmark(func(b *testing.B) {
					Run(b, Target{Header: plan("ttft=10ms")}, d, load.Closed{N: 4})
				})
				closeServers()
				require.Equal(t, 100, r.N)
				// Four in flight take 2.5 ms a request; built one after the
				// other they take 20 ms.
				if name == "slow" {
					require.Greater(t, r.Extra["ns/op"], float64(15*time.Millisecond))
				} else {
					require.Equal(t, float64(2500*time.Microsecond), r.Extra["ns/op"])
				}
			})
		})
	}
}

func TestSettingsPrecedence(t *testing.T) {
	read := func(env ...string) *settings {
		s, err := readSettings(env)
		require.NoError(t, err)
		return s
	}
	require.Empty(t, read().baseURL)
	require.Equal(t, "a", read("OPENAI_BASE_URL=a").baseURL)
	require.Equal(t, "b", read("OPENAI_BASE_URL=a", "TOKPACE_BASE_URL=b").baseURL)
	require.Empty(t, read("OPENAI_BASE_URL=a", "TOKPACE_BASE_URL=b", "TOKPACE_TARGET=fake").baseURL)
	require.Equal(t, "k", read("OPENAI_API_KEY=k").apiKey)
	require.Equal(t, "l", read("OPENAI_API_KEY=k", "TOKPACE_API_KEY=l").apiKey)

	require.Empty(t, read().transport)
	require.Equal(t, client.NetHTTP, read("TOKPACE_TRANSPORT=net/http").transport)
	_, err := readSettings([]string{"TOKPACE_TRANSPORT=h2"})
	require.EqualError(t, err, "TOKPACE_TRANSPORT=h2: want h1 or net/http")

	fs := flag.NewFlagSet("", flag.ContinueOnError)
	t.Cleanup(func() { flagValues = nil })
	RegisterFlags(fs, "x.")
	require.Nil(t, fs.Lookup("x.api-key"), "a secret must not be a flag")
	require.NoError(t, fs.Parse([]string{"-x.base-url=c", "-x.seed=7", "-x.allow-remote"}))
	s := read("OPENAI_BASE_URL=a", "TOKPACE_BASE_URL=b", "TOKPACE_TARGET=fake", "TOKPACE_SEED=3")
	require.Equal(t, "c", s.baseURL)
	require.EqualValues(t, 7, s.seed)
	require.True(t, s.allowRemote)
	require.NoError(t, fs.Parse([]string{"-x.target=fake"}))
	require.Empty(t, read("OPENAI_BASE_URL=a").baseURL)
}

func TestSplitPattern(t *testing.T) {
	for pattern, want := range map[string][]string{
		"a":        {"a"},
		"a|b/c":    {"a", "b/c"},
		"(a|b)|c":  {"(a|b)", "c"},
		"[|]|x":    {"[|]", "x"},
		`a\|b|c`:   {`a\|b`, "c"},
		"":         {""},
		"a|":       {"a", ""},
		"[(]|[)]x": {"[(]", "[)]x"},
	} {
		require.Equal(t, want, splitPattern(pattern, '|'), pattern)
	}
}

func TestIsLoopback(t *testing.T) {
	for host, want := range map[string]bool{
		"localhost": true, "127.0.0.1": true, "127.8.9.10": true, "::1": true, "x.localhost": true,
		"localhost.example.com": false, "10.0.0.1": false, "0.0.0.0": false, "": false, "::": false, "127.0.0.1.nip.io": false,
	} {
		require.Equal(t, want, isLoopback(host), host)
	}
}
