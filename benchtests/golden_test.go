package benchtests

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/tokpace/pkg/api"
	"example.com/tokpace/pkg/client"
	"example.com/tokpace/pkg/dataset"
	"example.com/tokpace/pkg/h1"
	"example.com/tokpace/pkg/harness"
	"example.com/tokpace/pkg/load"
	"example.com/tokpace/pkg/metric"
	"example.com/tokpace/pkg/virtual"
)

var update = flag.Bool("update", false, "rewrite the golden file of the virtual-time results")

const goldenFile = "../testdata/golden/virtual.txt"

// families are all benchmarks, in the order of the golden file.
var families = []struct {
	name      string
	scenarios []scenario
}{
	{"Chat", chatScenarios},
	{"Images", imageScenarios},
	{"Completions", completionScenarios},
	{"Embeddings", embeddingScenarios},
	{"Pooling", poolingScenarios},
	{"Rerank", rerankScenarios},
}

// A fault puts an error of measuring between the client and its results, so
// that a test can show that the golden file would not let it pass. The zero
// fault is none.
type fault struct {
	transport func(http.RoundTripper) http.RoundTripper
	do        func(load.Do) load.Do
}

// requestsPerRun is enough for every connection to be used twice.
const requestsPerRun = 16

// results measures a scenario in virtual time: every metric, zeros included,
// then the record of the first request sent alone.
func results(t *testing.T, s scenario, l load.Load, f fault) string {
	var out strings.Builder
	virtual.Run(t, harness.FakeConfig(), func(t *testing.T, c *client.Client) {
		c.Header = s.header()
		if f.transport != nil {
			c.Transport = f.transport(c.Transport)
		}
		c.Warm(t.Context(), l.Connections(requestsPerRun), "/v1/models") // as the harness does
		do := load.Do(c.Do)
		if f.do != nil {
			do = f.do(do)
		}
		src, err := s.data.Source(dataset.Env{Model: "tokpace-fake", IgnoreEOS: true})
		require.NoError(t, err)
		exchanges, elapsed, err := l.Start(t.Context(), do, src, requestsPerRun).Wait()
		require.NoError(t, err)
		run := metric.Run{Exchanges: exchanges, Elapsed: elapsed}
		if _, open := l.(load.Open); open {
			run.Goodput, run.Steady = metric.SLO{"e2e-sched": 60 * time.Millisecond}, true
		}
		set := metric.Of(run)
		fmt.Fprintf(&out, "ok %d\nfailed %d\n", set.OK, set.Failed)
		for _, v := range set.Values {
			fmt.Fprintf(&out, "%s %s\n", v.Unit, strconv.FormatFloat(v.V, 'f', -1, 64))
		}
		for _, note := range set.Notes {
			fmt.Fprintf(&out, "note %s\n", note)
		}
		req, err := src.Request(0)
		require.NoError(t, err)
		ex := do(t.Context(), req)
		ex.Reads = 0 // how many reads there are is the transport's and the scheduler's affair
		record, err := json.Marshal(ex)
		require.NoError(t, err)
		fmt.Fprintf(&out, "%s\n", record)
	})
	return out.String()
}

// allResults is the golden file's text under a fault.
func allResults(t *testing.T, f fault) string {
	var out strings.Builder
	for _, fam := range families {
		for _, s := range fam.scenarios {
			for _, n := range s.conc {
				fmt.Fprintf(&out, "== %s\n%s", join(join(fam.name, s.name), fmt.Sprintf("conc=%d", n)), results(t, s, load.Closed{N: n}, f))
			}
		}
	}
	for _, s := range openScenarios {
		fmt.Fprintf(&out, "== OpenLoop/%s\n%s", s.name, results(t, openChat, s.load, f))
	}
	return out.String()
}

// Every metric of every benchmark, in virtual time, bytewise: a change of what a
// metric means shows as a diff of the golden file.
func TestGolden(t *testing.T) {
	got := allResults(t, fault{})
	if *update {
		require.NoError(t, os.WriteFile(goldenFile, []byte(got), 0o644))
	}
	want, err := os.ReadFile(goldenFile)
	require.NoError(t, err, "go test ./benchtests -run Golden -update writes it")
	require.Equal(t, strings.ReplaceAll(string(want), "\r\n", "\n"), got)
}

// The faults that the project was born from, put back one at a time.

// clockAtHeaders stops the clock when the header has been read.
func clockAtHeaders(do load.Do) load.Do {
	return func(ctx context.Context, req *api.Request) *client.Exchange {
		ex := do(ctx, req)
		if !ex.Stream {
			ex.E2E, ex.BodyComplete = ex.Headers, ex.Headers
		}
		return ex
	}
}

// usageOnlyAlone hides the usage of events that also have choices, as a reader
// does that looks for usage only where choices is empty.
func usageOnlyAlone(rt http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		resp, err := rt.RoundTrip(req)
		if err != nil || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
			return resp, err
		}
		defer resp.Body.Close()
		stream, err := io.ReadAll(resp.Body)
		if err != nil {
			return nil, err
		}
		events := strings.Split(string(stream), "\n\n")
		for i, ev := range events {
			if !strings.Contains(ev, `"choices":[]`) {
				events[i] = strings.Replace(ev, `"usage":`, `"hidden":`, 1)
			}
		}
		resp.Body = io.NopCloser(strings.NewReader(strings.Join(events, "\n\n")))
		return resp, nil
	})
}

// bytesOnlyAsJSON reads every answer but those with metadata as JSON.
func bytesOnlyAsJSON(do load.Do) load.Do {
	return func(ctx context.Context, req *api.Request) *client.Exchange {
		if req.Encoding == api.BytesOnly {
			asJSON := *req
			asJSON.Encoding = ""
			req = &asJSON
		}
		return do(ctx, req)
	}
}

func jsonContentType(rt http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		resp, err := rt.RoundTrip(req)
		if err == nil && resp.Header.Get("Content-Type") == "application/octet-stream" && resp.Header.Get(api.MetadataHeader) == "" {
			resp.Header.Set("Content-Type", "application/json")
		}
		return resp, err
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func TestOldFaultsWouldChangeTheGolden(t *testing.T) {
	golden, err := os.ReadFile(goldenFile)
	require.NoError(t, err)
	sections := strings.SplitAfter(string(golden), "\n== ")
	section := func(name string) string {
		for _, s := range sections {
			s = strings.TrimSuffix(s, "== ")
			if _, body, ok := strings.Cut(strings.TrimPrefix(s, "== "), "\n"); ok && strings.HasPrefix(strings.TrimPrefix(s, "== "), name+"\n") {
				return body
			}
		}
		t.Fatalf("the golden file has no section %q", name)
		return ""
	}
	for name, c := range map[string]struct {
		fault    fault
		scenario scenario
		section  string
		lost     string // a line of the golden that the fault changes
		gained   string // what stands there instead
	}{
		"clock stopped at the headers": {
			fault{do: clockAtHeaders}, find(t, embeddingScenarios, "format=bytes/body=slow"), "Embeddings/format=bytes/body=slow/conc=8",
			"body-complete-p50-ns 250000000\n", "body-complete-p50-ns 0\n",
		},
		"usage only where choices is absent": {
			fault{transport: usageOnlyAlone}, find(t, imageScenarios, "image=1024x800/usage=with-choices"), "Images/image=1024x800/usage=with-choices/conc=1",
			"\ninput-tok/op 1606\n", "client-input-tok/op 512\n",
		},
		"bytes_only read as JSON": {
			fault{transport: jsonContentType, do: bytesOnlyAsJSON}, find(t, poolingScenarios, "format=bytes_only"), "Pooling/format=bytes_only/conc=8",
			"ok 16\nfailed 0\n", "ok 0\nfailed 16\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			want := section(c.section)
			conc := 8
			if strings.HasSuffix(c.section, "conc=1") {
				conc = 1
			}
			require.Equal(t, want, results(t, c.scenario, load.Closed{N: conc}, fault{}), "without the fault")
			got := results(t, c.scenario, load.Closed{N: conc}, c.fault)
			require.Contains(t, want, c.lost)
			require.NotContains(t, got, c.lost)
			require.Contains(t, got, c.gained)
		})
	}
}

func find(t *testing.T, scenarios []scenario, name string) scenario {
	t.Helper()
	for _, s := range scenarios {
		if s.name == name {
			return s
		}
	}
	t.Fatalf("no scenario %q", name)
	return scenario{}
}

// The fake server sends one event an HTTP chunk: there net/http's transport must
// measure the same.
func TestGoldenThroughNetHTTP(t *testing.T) {
	golden, err := os.ReadFile(goldenFile)
	require.NoError(t, err)
	netHTTP := fault{transport: func(rt http.RoundTripper) http.RoundTripper {
		return client.NewTransport(rt.(*h1.Transport).Dial)
	}}
	require.Equal(t, strings.ReplaceAll(string(golden), "\r\n", "\n"), allResults(t, netHTTP))
}
