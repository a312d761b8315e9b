package benchtests

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/tokpace/fakeserver"
	"example.com/tokpace/pkg/harness"
)

// BenchmarkServe is shaped by the settings: see the package's documentation.
// Without any it is one line, of longer prompts and answers than the other
// benchmarks have, so that `-bench Serve` is of use before a flag is known; on
// the fake that costs a quarter of a second of a pass of the compared suite.
func BenchmarkServe(b *testing.B) { harness.Serve(b, harness.Target{}) }

// Settings shape BenchmarkServe, against a server in another process, and what
// the server says of itself is what the answers said.
func TestServeFlags(t *testing.T) {
	url := startFakeProcess(t)
	o := bench(t, []string{"OPENAI_BASE_URL=" + url + "/v1", "TOKPACE_TOP_P=0.9"}, "-test.bench=Serve", "-test.benchtime=9x",
		"-tokpace.backend=openai-chat", "-tokpace.input-len=40", "-tokpace.output-len=5", "-tokpace.max-concurrency=1,3", "-tokpace.temperature=0.5",
		"-tokpace.ready-check-timeout-sec=30", "-tokpace.profile", "-tokpace.metadata=gpu=none", "-tokpace.label=first")
	require.Zero(t, o.code, o.stdout+o.stderr)
	require.Empty(t, o.stderr)
	require.Contains(t, o.stdout, "\n# metadata: gpu=none\n")
	require.Contains(t, o.stdout, "\nUnit server-ttft-mean-ns better=lower\n")
	lines := o.lines(t)
	require.Len(t, lines, 2)
	for _, conc := range []string{"1", "3"} {
		line := lines["BenchmarkServe/backend=openai-chat/input=40/output=5/temperature=0.5/top-p=0.9/conc="+conc+"/label=first"]
		require.Equal(t, "9", line["N"], o.stdout)
		require.Equal(t, "5.000", line["output-tok/op"])
		require.Equal(t, line["input-tok/op"], line["server-prompt-tok/op"])
		require.Equal(t, line["output-tok/op"], line["server-generation-tok/op"])
		require.Equal(t, line["input-tok/op"], line["server-prefix-cache-queries-tok/op"])
		require.LessOrEqual(t, number(t, line["server-ttft-mean-ns"]), number(t, line["ttft-p99-ns"]), "the server's time is a part of the client's")
	}
}

// A rate makes an open loop: its own units, and no ns/op, which the schedule
// sets.
func TestServeRate(t *testing.T) {
	o := bench(t, nil, "-test.bench=Serve", "-test.benchtime=20x", "-tokpace.input-len=8", "-tokpace.output-len=2", "-tokpace.request-rate=500,1000",
		"-tokpace.burstiness=inf", "-tokpace.num-warmups=3", "-tokpace.goodput=e2el:60000", "-tokpace.metric-percentiles=99.9", "-tokpace.percentile-metrics=e2el")
	require.Zero(t, o.code, o.stdout+o.stderr)
	require.Contains(t, o.stdout, "\nUnit e2e-p99.9-ns better=lower\n")
	lines := o.lines(t)
	require.Len(t, lines, 2)
	for _, rate := range []string{"500", "1000"} {
		line := lines["BenchmarkServe/backend=openai/input=8/output=2/rate="+rate+"/burstiness=inf/goodput=e2e60000"]
		require.Equal(t, "20", line["N"], o.stdout)
		require.NotContains(t, line, "ns/op")
		require.Equal(t, line["req/s"], line["goodput-req/s"])
		for _, unit := range []string{"send-lag-p99-ns", "e2e-sched-p50-ns", "e2e-p99.9-ns"} {
			require.Contains(t, line, unit)
		}
		require.Equal(t, "8.000", line["server-prompt-tok/op"])
	}
}

// The settings of BenchmarkServe leave the other benchmarks as they are.
func TestServeSettingsStayThere(t *testing.T) {
	args := []string{"-test.bench=Rerank/conc=1|Serve", "-test.benchtime=2x"}
	o := bench(t, nil, append(args, "-tokpace.backend=openai-chat", "-tokpace.input-len=3", "-tokpace.output-len=2", "-tokpace.max-concurrency=1",
		"-tokpace.temperature=0", `-tokpace.extra-body={"priority":1}`)...)
	rerank := o.lines(t)["BenchmarkRerank/conc=1"]
	require.NotEmpty(t, rerank, o.stdout+o.stderr)
	require.Len(t, o.lines(t), 2)
	require.NotContains(t, rerank, "server-prompt-tok/op")
	without := bench(t, nil, "-test.bench=Rerank/conc=1", "-test.benchtime=2x")
	require.Equal(t, exactRows(t, without)["BenchmarkRerank/conc=1 input-tok/op"], exactRows(t, o)["BenchmarkRerank/conc=1 input-tok/op"])
	require.Equal(t, exactRows(t, without)["BenchmarkRerank/conc=1 body-B/op"], exactRows(t, o)["BenchmarkRerank/conc=1 body-B/op"])
}

// Adapters, identities and whatever the body shall hold arrive at the server.
func TestServeRequests(t *testing.T) {
	fake, err := fakeserver.New(fakeserver.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { fake.Close() })
	type seen struct {
		Model string `json:"model"`
		TopK  int    `json:"top_k"`
		id    string
	}
	var (
		mu  sync.Mutex
		got []seen
	)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/models":
			fmt.Fprint(w, `{"data":[{"id":"base"},{"id":"lora-a"},{"id":"lora/b"}]}`)
			return
		case "/v1/completions":
			body, _ := io.ReadAll(r.Body)
			one := seen{id: r.Header.Get("X-Request-Id")}
			_ = json.Unmarshal(body, &one)
			if one.id != "" { // not one that counts tokens
				mu.Lock()
				got = append(got, one)
				mu.Unlock()
			}
			for _, name := range []string{"base", "lora-a", "lora/b"} {
				body = bytes.Replace(body, []byte(`"`+name+`"`), []byte(`"tokpace-fake"`), 1)
			}
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		}
		fake.Handler().ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	o := bench(t, []string{"OPENAI_BASE_URL=" + srv.URL}, "-test.bench=Serve", "-test.benchtime=4x", "-tokpace.input-len=8", "-tokpace.output-len=2",
		"-tokpace.max-concurrency=1", "-tokpace.lora-modules=lora-a,lora/b", "-tokpace.lora-assignment=round-robin", "-tokpace.request-id-prefix=run-",
		"-tokpace.top-k=7", `-tokpace.extra-body={"top_k":9}`)
	require.Zero(t, o.code, o.stdout+o.stderr)
	require.Equal(t, []seen{{"lora-a", 9, "run-0"}, {"lora/b", 9, "run-1"}, {"lora-a", 9, "run-2"}, {"lora/b", 9, "run-3"}}, got)
}

// TLS: a certificate that nobody vouches for is refused, until its authority is
// given or the refusal is switched off.
func TestServeTLS(t *testing.T) {
	fake, err := fakeserver.New(fakeserver.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { fake.Close() })
	srv := httptest.NewUnstartedServer(fake.Handler())
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.StartTLS()
	t.Cleanup(srv.Close)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}), 0o600))
	for _, transport := range []string{"h1", "net/http"} {
		env := []string{"OPENAI_BASE_URL=" + srv.URL + "/v1", "TOKPACE_TRANSPORT=" + transport}
		args := []string{"-test.bench=Serve", "-test.benchtime=2x", "-tokpace.input-len=8", "-tokpace.output-len=2"}
		o := bench(t, env, args...)
		require.Equal(t, 2, o.code, o.stdout)
		require.Regexp(t, `^tokpace: [^\n]*certificate[^\n]*: TOKPACE_CA_CERT names [^\n]*\n$`, o.stderr)
		for _, flag := range []string{"-tokpace.insecure", "-tokpace.ca-cert=" + ca} {
			o = bench(t, env, append(args, flag)...)
			require.Zero(t, o.code, o.stdout+o.stderr)
			require.Len(t, o.lines(t), 1)
		}
	}
}

// A proxy of the environment is left alone, and that is said; one that is asked
// for is used.
func TestServeProxy(t *testing.T) {
	fake := fakeserver.Start(t, fakeserver.Config{})
	var through atomic.Int64
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Host != "192.0.2.1" || r.Header.Get("Proxy-Authorization") == "" {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		through.Add(1)
		fake.Handler().ServeHTTP(w, r)
	}))
	t.Cleanup(proxy.Close)
	withUser := strings.Replace(proxy.URL, "://", "://user:proxysecret@", 1)
	args := []string{"-test.bench=Serve", "-test.benchtime=2x", "-tokpace.input-len=8", "-tokpace.output-len=2"}

	o := bench(t, []string{"HTTP_PROXY=" + withUser, "OPENAI_BASE_URL=" + fake.URL}, args...)
	require.Zero(t, o.code, o.stderr)
	require.Contains(t, o.stdout, "\n# proxy: HTTP_PROXY is set and not used (TOKPACE_PROXY=env would)\n")
	// No proxy is ever used for the loopback; this address leads nowhere without one.
	elsewhere := []string{"OPENAI_BASE_URL=http://192.0.2.1/v1", "TOKPACE_ALLOW_REMOTE=1", "TOKPACE_TRANSPORT=net/http"}
	o = bench(t, append(elsewhere, "HTTP_PROXY="+withUser, "TOKPACE_TIMEOUT=100ms"), args...)
	require.Equal(t, 2, o.code, o.stdout)
	require.Zero(t, through.Load())

	for _, env := range [][]string{{"HTTP_PROXY=" + withUser, "TOKPACE_PROXY=env"}, {"TOKPACE_PROXY=" + withUser}} {
		through.Store(0)
		o := bench(t, append(env, elsewhere...), args...)
		require.Zero(t, o.code, o.stderr)
		require.Len(t, o.lines(t), 1)
		require.GreaterOrEqual(t, through.Load(), int64(2))
		require.NotContains(t, o.stdout+o.stderr, "proxysecret")
		require.NotContains(t, o.stdout, "# proxy:")
	}
}

// vllmFlags are the flags of `vllm bench serve`.
func vllmFlags(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("testdata/vllm_bench_serve_flags.txt")
	require.NoError(t, err)
	var flags []string
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "--"); ok {
			flags = append(flags, name)
		}
	}
	require.Greater(t, len(flags), 100)
	return flags
}

// Each flag of `vllm bench serve` is a setting here, or -help says why not, and
// so does the package's documentation.
func TestFlagsOfVLLM(t *testing.T) {
	o := bench(t, nil, "-help")
	require.Zero(t, o.code)
	_, rest, ok := strings.Cut(o.stdout, "\nFlags of vllm bench serve that are no settings:\n")
	require.True(t, ok)
	list, _, ok := strings.Cut(rest, "\n\n")
	require.True(t, ok)
	why := map[string]string{}
	for line := range strings.Lines(list) {
		names, reason, ok := strings.Cut(strings.TrimSpace(line), ": ")
		require.True(t, ok, line)
		require.NotEmpty(t, reason)
		for _, name := range strings.Split(names, ", ") {
			require.NotContains(t, why, name)
			why[name] = reason
		}
	}
	source, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	documented := strings.Join(strings.Fields(strings.ReplaceAll(string(source), "//", " ")), " ")
	flags := vllmFlags(t)
	for _, name := range flags {
		if flag.Lookup("tokpace."+name) != nil {
			require.NotContains(t, why, name)
			continue
		}
		require.Contains(t, why, name, "neither a setting nor in the list of those that are none")
		require.Contains(t, documented, name)
		require.Contains(t, documented, why[name], name)
	}
	for name := range why {
		require.Contains(t, flags, name, "no flag of vllm bench serve")
	}
}
