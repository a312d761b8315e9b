package benchtests

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/tokpace/fakeserver"
)

// An outcome is what a run of this test binary as a benchmark process gave.
type outcome struct {
	stdout, stderr string
	code           int
}

// bench runs the benchmarks of this package in a process of their own.
func bench(t *testing.T, env []string, args ...string) outcome {
	t.Helper()
	cmd := benchCommand(t, env, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if _, exited := err.(*exec.ExitError); err != nil && !exited {
		t.Fatal(err)
	}
	return outcome{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

func benchCommand(t *testing.T, env []string, args ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), exe, append([]string{"-test.run=^$"}, args...)...)
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "TOKPACE_") && !strings.HasPrefix(kv, "OPENAI_") {
			cmd.Env = append(cmd.Env, kv)
		}
	}
	cmd.Env = append(cmd.Env, env...)
	return cmd
}

// lines are the benchmark lines of an output, by name without -GOMAXPROCS.
func (o outcome) lines(t *testing.T) map[string]map[string]string {
	t.Helper()
	all := map[string]map[string]string{}
	for line := range strings.Lines(o.stdout) {
		f := strings.Fields(line)
		if len(f) < 4 || !strings.HasPrefix(f[0], "Benchmark") {
			continue
		}
		name := regexp.MustCompile(`-\d+$`).ReplaceAllString(f[0], "")
		require.NotContains(t, all, name)
		values := map[string]string{"N": f[1]}
		for i := 2; i+1 < len(f); i += 2 {
			values[f[i+1]] = f[i]
		}
		all[name] = values
	}
	return all
}

func TestOutput(t *testing.T) {
	o := bench(t, nil, "-test.bench=Chat|Images", "-test.benchtime=3x")
	require.Zero(t, o.code, o.stdout+o.stderr)
	require.Empty(t, o.stderr)
	require.Contains(t, o.stdout, "harness-metrics: v1\n")
	require.Contains(t, o.stdout, "Unit ttft-p50-ns better=lower\n")
	require.Contains(t, o.stdout, "Unit input-tok/op assume=exact\n")
	require.Contains(t, o.stdout, "# default target: built-in fake server (neither TOKPACE_BASE_URL nor OPENAI_BASE_URL is set)\n")

	lines := o.lines(t)
	stream := lines["BenchmarkChat/stream=true/conc=1"]
	for _, unit := range []string{"ns/op", "ttft-p50-ns", "itl-p99-ns", "e2e-p50-ns", "tpot-p50-ns", "body-complete-p99-ns", "headers-p50-ns",
		"input-tok/op", "output-tok/op", "events/op", "body-B/op", "output-tok/s", "ok/op", "B/op", "allocs/op"} {
		require.Contains(t, stream, unit)
	}
	require.Equal(t, "531.0", stream["input-tok/op"])
	require.NotContains(t, lines["BenchmarkChat/stream=false/conc=1"], "ttft-p50-ns")

	// DESIGN's first fault: image tokens are the server's, wherever its usage is.
	require.Equal(t, "531.0", lines["BenchmarkImages/image=none/conc=1"]["input-tok/op"])
	require.Equal(t, "1606", lines["BenchmarkImages/image=1024x800/conc=1"]["input-tok/op"])
	require.Equal(t, "1606", lines["BenchmarkImages/image=1024x800/usage=with-choices/conc=1"]["input-tok/op"])
	off := lines["BenchmarkImages/image=1024x800/usage=off/conc=1"]
	require.Equal(t, "512.0", off["client-input-tok/op"])
	require.NotContains(t, off, "input-tok/op")
	require.NotContains(t, off, "output-tok/s")
}

// Nothing varies between runs but comments and measurements, or benchstat would
// put each run into a table of its own.
func TestConfigurationLinesAreConstant(t *testing.T) {
	config := func(seed string) string {
		var keep []string
		o := bench(t, []string{"TOKPACE_SEED=" + seed}, "-test.bench=Rerank/conc=1", "-test.benchtime=1x")
		require.Zero(t, o.code, o.stderr)
		for line := range strings.Lines(o.stdout) {
			if !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "Benchmark") && !strings.HasPrefix(line, "---") && !strings.HasPrefix(line, " ") {
				keep = append(keep, line)
			}
		}
		return strings.Join(keep, "")
	}
	require.Equal(t, config("1"), config("2"))
}

// The second fault, on real time: the clock stops with the body's last byte.
func TestSlowBodyLines(t *testing.T) {
	o := bench(t, nil, "-test.bench=(Embeddings|Pooling)/format=.*/body=slow", "-test.benchtime=16x")
	require.Zero(t, o.code, o.stdout+o.stderr)
	lines := o.lines(t)
	require.Len(t, lines, 4)
	for name, line := range lines {
		require.GreaterOrEqual(t, number(t, line["body-complete-p50-ns"]), 250e6, name)
		require.Less(t, number(t, line["headers-p50-ns"]), 250e6, name)
		if strings.Contains(name, "bytes_only") {
			require.Equal(t, "128.0", line["client-input-tok/op"])
			require.NotContains(t, line, "input-tok/op")
		} else {
			require.Equal(t, "128.0", line["input-tok/op"])
			require.NotContains(t, line, "client-input-tok/op")
		}
	}
}

func number(t *testing.T, s string) float64 {
	t.Helper()
	var v float64
	_, err := fmt.Sscan(s, &v)
	require.NoError(t, err, "%q", s)
	return v
}

// exactUnits have the same value on every run against a fake server.
var exactUnits = []string{"N", "input-tok/op", "output-tok/op", "client-input-tok/op", "client-output-tok/op", "image-tok/op", "events/op", "body-B/op", "ok/op"}

func exactRows(t *testing.T, o outcome) map[string]string {
	t.Helper()
	require.Zero(t, o.code, o.stdout+o.stderr)
	rows := map[string]string{}
	for name, line := range o.lines(t) {
		for _, unit := range exactUnits {
			if v, ok := line[unit]; ok {
				rows[name+" "+unit] = v
			}
		}
	}
	return rows
}

// The fake server as a process of its own gives the same exact rows as the
// built-in one.
func TestFakeProcessGivesSameRows(t *testing.T) {
	url := startFakeProcess(t)
	args := []string{"-test.bench=.", "-test.benchtime=2x"}
	builtIn := exactRows(t, bench(t, nil, args...))
	require.Greater(t, len(builtIn), 100)
	o := bench(t, []string{"OPENAI_BASE_URL=" + url + "/v1"}, args...)
	require.Equal(t, builtIn, exactRows(t, o))
	require.Contains(t, o.stdout, "# default target: "+url)
	for name, line := range o.lines(t) {
		if !strings.HasPrefix(name, "BenchmarkFloor/") { // it has a server of its own
			require.NotContains(t, line, "allocs/op", name)
		}
	}
	// A stray address does not matter where the fake is chosen.
	o = bench(t, []string{"OPENAI_BASE_URL=http://198.51.100.1/v1", "TOKPACE_TARGET=fake"}, "-test.benchtime=1x", "-test.bench=Rerank")
	require.Zero(t, o.code, o.stderr)
	require.Contains(t, o.stdout, "# default target: built-in fake server (chosen by TOKPACE_TARGET)")
}

// buildCommand builds the command.
func buildCommand(t *testing.T) (exe string) {
	t.Helper()
	exe = filepath.Join(t.TempDir(), "tokpace.exe")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", exe, "../pkg/cmd/tokpace").CombinedOutput()
	require.NoError(t, err, string(out))
	return exe
}

// startFakeProcess builds the command and starts its fake server.
func startFakeProcess(t *testing.T) (url string) {
	t.Helper()
	exe := buildCommand(t)
	addrFile := filepath.Join(t.TempDir(), "addr")
	cmd := exec.Command(exe, "fake", "-listen", "127.0.0.1:0", "-addr-file", addrFile)
	stderr, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	// The line on stderr comes when the server listens and the file is there.
	line, err := bufio.NewReader(stderr).ReadString('\n')
	require.NoError(t, err)
	addr, err := os.ReadFile(addrFile)
	require.NoError(t, err, line)
	return "http://" + strings.TrimSpace(string(addr))
}

// Each mistake ends in one line of ours, with exit code 2, before a benchmark
// or anything else is printed.
func TestMistakes(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	closed := "http://" + l.Addr().String()
	l.Close()
	srv := fakeserver.Start(t, fakeserver.Config{})
	html := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>hello</html>") }))
	t.Cleanup(html.Close)
	locked := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(401) }))
	t.Cleanup(locked.Close)
	notes := filepath.Join(t.TempDir(), "notes.txt")
	require.NoError(t, os.WriteFile(notes, []byte("notes that nobody wants to lose"), 0o666))
	any, serve := []string{"-test.bench=Chat"}, []string{"-test.bench=Serve"}
	for name, c := range map[string]struct {
		env   []string
		args  []string
		words string
	}{
		"unreachable":          {[]string{"OPENAI_BASE_URL=" + closed}, any, "cannot reach " + closed + "/v1/models"},
		"remote host":          {[]string{"OPENAI_BASE_URL=https://api.example.com/v1"}, any, "set TOKPACE_ALLOW_REMOTE=1"},
		"remote by name":       {[]string{"TOKPACE_BASE_URL=http://localhost.example.com/v1"}, any, "set TOKPACE_ALLOW_REMOTE=1"},
		"remote by flag":       {nil, append(any, "-tokpace.base-url=http://198.51.100.1"), "set TOKPACE_ALLOW_REMOTE=1"},
		"wrong path":           {[]string{"OPENAI_BASE_URL=" + srv.URL + "/llm"}, any, "/llm/v1/models answered 404: is the base URL right?"},
		"not an API":           {[]string{"OPENAI_BASE_URL=" + html.URL}, any, "no list of models"},
		"no key":               {[]string{"OPENAI_BASE_URL=" + locked.URL}, any, "set OPENAI_API_KEY"},
		"no scheme":            {[]string{"OPENAI_BASE_URL=127.0.0.1:8000"}, any, "the base URL cannot be read: give one such as http://127.0.0.1:8000/v1"},
		"unreadable URL":       {[]string{"OPENAI_BASE_URL=http://key:secret@[::1"}, any, "the base URL cannot be read"},
		"unknown model":        {[]string{"OPENAI_BASE_URL=" + srv.URL, "TOKPACE_MODEL=nope"}, any, `has no model "nope": it lists tokpace-fake`},
		"unknown model, fake":  {[]string{"TOKPACE_MODEL=nope"}, any, `built-in fake has no model "nope"`},
		"unknown target":       {[]string{"TOKPACE_TARGET=vllm"}, any, `TOKPACE_TARGET=vllm: the only named target is "fake"`},
		"unknown variable":     {[]string{"TOKPACE_BASEURL=x"}, any, "TOKPACE_BASEURL is no setting"},
		"bad number":           {[]string{"TOKPACE_SEED=-1"}, any, "TOKPACE_SEED=-1: want a whole number"},
		"bad timeout":          {[]string{"TOKPACE_TIMEOUT=0s"}, any, "TOKPACE_TIMEOUT=0s: want a duration"},
		"bad header":           {[]string{"TOKPACE_HEADER=nothing"}, any, "TOKPACE_HEADER: want K=V"},
		"bad flag":             {nil, append(any, "-tokpace.nope"), "flag provided but not defined"},
		"bare flag":            {nil, append(any, "-model=x"), "did you mean -tokpace.model?"},
		"bad flag value":       {nil, append(any, "-tokpace.seed=x"), "want a whole number"},
		"no match":             {nil, []string{"-test.bench=Nope"}, `-bench "Nope" matches no benchmark: choose among BenchmarkChat`},
		"no match below":       {nil, []string{"-test.bench=Chat/nope"}, `-bench "Chat/nope" matches no benchmark: there is one of that name, but none below it`},
		"bad pattern":          {nil, []string{"-test.bench=Chat("}, "missing closing )"},
		"not a setting":        {[]string{"TOKPACE_NUM_PROMPTS=1000"}, any, "TOKPACE_NUM_PROMPTS is no setting of tokpace: -benchtime=1000x sends 1000 requests"},
		"not a flag":           {nil, append(any, "-tokpace.num-prompts=1000"), "-tokpace.num-prompts: -benchtime=1000x sends 1000 requests"},
		"vllm's bare flag":     {nil, append(any, "-save-result"), "results are benchmark text on standard output"},
		"shape of another":     {[]string{"TOKPACE_TEMPERATURE=0"}, any, `temperature is a setting of BenchmarkServe alone, which -bench "Chat" does not run`},
		"shape by flag":        {nil, append(any, "-tokpace.request-rate=5"), `request-rate is a setting of BenchmarkServe alone`},
		"contradiction":        {nil, append(serve, "-tokpace.burstiness=0.5"), "give request-rate too"},
		"ramp of one request":  {nil, append(serve, "-tokpace.ramp-up-strategy=linear", "-tokpace.ramp-up-start-rps=1", "-tokpace.ramp-up-end-rps=9"), "-benchtime=1000x"},
		"endless prompt":       {nil, append(serve, "-tokpace.input-len=100000000"), "at most 16777216 tokens in all"},
		"endless number":       {nil, append(serve, "-tokpace.input-len=99999999999"), "want a whole number from 1 to 2147483647"},
		"endless batch":        {nil, append(serve, "-tokpace.backend=openai-embeddings", "-tokpace.random-batch-size=1000000000", "-tokpace.input-len=1"), "at most 16777216 tokens in all"},
		"endless run":          {nil, append(serve, "-test.benchtime=999999999999x"), "a run has at most 100000000 requests"},
		"wrong body":           {nil, append(serve, `-tokpace.extra-body={"key":"secret"`), "-tokpace.extra-body: want a JSON object"},
		"wrong header flag":    {nil, append(serve, "-tokpace.header=secret"), "-tokpace.header: want K=V"},
		"no such adapter":      {nil, append(serve, "-tokpace.lora-modules=nope"), `built-in fake has no model "nope", which lora-modules names`},
		"never ready":          {[]string{"OPENAI_BASE_URL=" + closed}, append(serve, "-tokpace.ready-check-timeout-sec=0.3"), "not ready within 300ms: cannot reach " + closed + "/v1/models"},
		"no key, ready check":  {[]string{"OPENAI_BASE_URL=" + locked.URL}, append(serve, "-tokpace.ready-check-timeout-sec=60"), "set OPENAI_API_KEY"},
		"proxy on h1":          {[]string{"TOKPACE_PROXY=http://127.0.0.1:1"}, any, "proxy needs transport=net/http"},
		"no such file":         {nil, append(any, "-tokpace.ca-cert=/does/not/exist"), "/does/not/exist"},
		"records nowhere":      {[]string{"TOKPACE_RECORDS=/no/such/folder/r.ndjson"}, any, "records: open "},
		"records over notes":   {nil, append(any, "-tokpace.records="+notes), "holds something else than records: give another file"},
		"text without records": {[]string{"TOKPACE_RECORDS_TEXT=1"}, any, "records-text needs records"},
		"bad progress":         {[]string{"TOKPACE_PROGRESS=no"}, any, "TOKPACE_PROGRESS=no: want auto or off"},
		"bad share":            {[]string{"TOKPACE_MAX_OWN_ERROR=NaN"}, any, "TOKPACE_MAX_OWN_ERROR=NaN: want a share from 0 on, such as 0.1"},
		"negative share":       {nil, append(any, "-tokpace.max-own-error=-0.1"), "want a share from 0 on"},
		"bad grace":            {[]string{"TOKPACE_GRACE=-1s"}, any, "TOKPACE_GRACE=-1s: want a duration"},
		"skip check, no model": {[]string{"OPENAI_BASE_URL=" + srv.URL, "TOKPACE_SKIP_CHECK=1"}, any, "needs TOKPACE_MODEL"},
	} {
		t.Run(name, func(t *testing.T) {
			o := bench(t, c.env, append([]string{"-test.benchtime=1x"}, c.args...)...)
			require.Equal(t, 2, o.code, o.stdout+o.stderr)
			require.Regexp(t, `^tokpace: [^\n]+\n$`, o.stderr)
			require.Contains(t, o.stderr, c.words)
			require.NotContains(t, o.stderr, "secret")
			require.NotContains(t, o.stdout, "Benchmark")
		})
	}
}

// Failed requests fail the benchmark: no line, their classes and first
// messages, exit code 1. An allowance makes them a count.
func TestFailedRequests(t *testing.T) {
	fake, err := fakeserver.New(fakeserver.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { fake.Close() })
	var posts atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			if posts.Add(1) == 2 {
				http.Error(w, `{"error":{"message":"out of memory, key sk-1234567890"}}`, http.StatusInternalServerError)
				return
			}
		}
		fake.Handler().ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	env := []string{"OPENAI_BASE_URL=" + srv.URL, "OPENAI_API_KEY=sk-1234567890"}
	args := []string{"-test.bench=Rerank/conc=1", "-test.benchtime=5x"}
	o := bench(t, env, args...)
	require.Equal(t, 1, o.code)
	require.Empty(t, o.lines(t))
	require.Contains(t, o.stdout, "1 of 2 requests failed:\n")
	require.Contains(t, o.stdout, "1 × http_status 500: out of memory, key [redacted]")
	require.NotContains(t, o.stdout+o.stderr, "sk-1234567890")

	posts.Store(0)
	o = bench(t, append(env, "TOKPACE_MAX_FAIL=1"), args...)
	require.Zero(t, o.code, o.stdout)
	require.Equal(t, "0.8000", o.lines(t)["BenchmarkRerank/conc=1"]["ok/op"])
	require.Contains(t, o.stdout, "1 of 5 requests failed and are in no statistic")
}

// A run in which nothing succeeded has no line, whatever was allowed.
func TestNothingSucceeded(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		fmt.Fprint(w, `{"data":[{"id":"m"}]}`)
	}))
	t.Cleanup(srv.Close)
	o := bench(t, []string{"OPENAI_BASE_URL=" + srv.URL, "TOKPACE_MAX_FAIL=1000"}, "-test.bench=Rerank/conc=1", "-test.benchtime=5x")
	require.Equal(t, 1, o.code)
	require.Empty(t, o.lines(t))
	require.Contains(t, o.stdout, "5 of 5 requests failed:\n")
	require.Contains(t, o.stdout, "5 × http_status 503")
}

// An interrupt ends the run soon, with no line for the benchmark it met.
func TestInterrupt(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no interrupt can be sent to another process")
	}
	entered := make(chan struct{}, 64)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			fmt.Fprint(w, `{"data":[{"id":"m"}]}`)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body) // net/http sees a disconnect only then
		entered <- struct{}{}
		<-r.Context().Done()
	}))
	t.Cleanup(srv.Close)
	cmd := benchCommand(t, []string{"OPENAI_BASE_URL=" + srv.URL, "TOKPACE_SKIP_CHECK=1", "TOKPACE_MODEL=m"}, "-test.bench=Rerank/conc=8")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	require.NoError(t, cmd.Start())
	// The first request may be the one that counts tokens; the handler holds it.
	<-entered
	start := time.Now()
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	_ = cmd.Wait()
	require.Less(t, time.Since(start), 10*time.Second)
	o := outcome{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
	require.Equal(t, 1, o.code, o.stdout+o.stderr)
	require.Empty(t, o.lines(t))
}

func TestHelpListsSettings(t *testing.T) {
	o := bench(t, nil, "-help")
	require.Zero(t, o.code)
	require.Empty(t, o.stderr)
	require.Contains(t, o.stdout, "-tokpace.base-url URL")
	require.Contains(t, o.stdout, "TOKPACE_MAX_FAIL")
}

func TestNames(t *testing.T) {
	for _, f := range families {
		for _, s := range f.scenarios {
			if s.name == "" {
				continue
			}
			for segment := range strings.SplitSeq(s.name, "/") {
				require.Regexp(t, `^[a-z]+=[A-Za-z0-9._+-]+$`, segment)
				require.NotRegexp(t, `-\d+$`, segment)
			}
		}
	}
	total := 0
	for _, f := range families {
		for _, s := range f.scenarios {
			require.NotEmpty(t, s.conc)
			require.True(t, slices.IsSorted(s.conc))
			total += len(s.conc)
		}
	}
	require.LessOrEqual(t, total, 40, "make bench promises at most 40 sub-benchmarks")
}
