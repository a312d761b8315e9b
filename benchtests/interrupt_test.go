package benchtests

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/perf/benchfmt"

	"example.com/tokpace/fakeserver"
	"example.com/tokpace/pkg/dataset"
	"example.com/tokpace/pkg/harness"
	"example.com/tokpace/pkg/load"
)

// stallingServer answers the first n POSTs, and no later one while the client waits
// for it; stalled tells of each.
func stallingServer(t *testing.T, n int) (url string, stalled <-chan struct{}) {
	t.Helper()
	held := make(chan struct{}, 64)
	over := make(chan struct{})
	t.Cleanup(func() { close(over) })
	return countingServer(t, func(i int, r *http.Request) {
		if i > n {
			_, _ = io.Copy(io.Discard, r.Body) // net/http sees a disconnect only then
			held <- struct{}{}
			select {
			case <-r.Context().Done():
			case <-over:
			}
		}
	}), held
}

// Ctrl-C on a server that does not answer any more ends the run soon, with all that
// there is of it in comments, and no line, also in the middle of one.
func TestCaseH34Interrupt(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no interrupt can be sent to another process")
	}
	for name, tt := range map[string]struct {
		args    []string
		answers int
		lines   int
		last    []int // indices of the last run's records
	}{
		"first run":  {[]string{"-test.benchtime=1h"}, 3, 0, []int{0, 1, 2, 3}},
		"second run": {[]string{"-test.benchtime=3x", "-test.count=2"}, 4, 1, []int{0, 1}},
		"verbose":    {[]string{"-test.benchtime=3x", "-test.count=2", "-test.v"}, 4, 1, []int{0, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, stalled := stallingServer(t, tt.answers)
			records := filepath.Join(t.TempDir(), "r.ndjson")
			cmd := benchCommand(t, []string{"OPENAI_BASE_URL=" + url, "TOKPACE_RECORDS=" + records}, append(tt.args, "-test.bench=Rerank/conc=1")...)
			var stdout, stderr bytes.Buffer
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			require.NoError(t, cmd.Start())
			<-stalled
			require.NoError(t, cmd.Process.Signal(os.Interrupt))
			require.Error(t, cmd.Wait())
			require.Equal(t, 1, cmd.ProcessState.ExitCode())
			require.Empty(t, stderr.String())

			results, broken, comments := 0, 0, ""
			text := stdout.String()
			r := benchfmt.NewReader(&stdout, "stdout")
			for r.Scan() {
				switch rec := r.Result().(type) {
				case *benchfmt.Result:
					results++
				case *benchfmt.SyntaxError:
					// Package testing's own, of a second run that fails.
					require.Regexp(t, `^BenchmarkRerank/conc=1\S* +\t--- FAIL: `, strings.Split(text, "\n")[rec.Line-1])
					broken++
				}
			}
			require.NoError(t, r.Err())
			require.Equal(t, tt.lines, results)
			require.LessOrEqual(t, broken, tt.lines)
			for line := range strings.Lines(text[strings.Index(text, "# interrupted"):]) {
				if !strings.HasPrefix(line, "# ") {
					break
				}
				comments += line
			}
			require.Regexp(t, `(?m)^# interrupted after [0-9.]+m?s: BenchmarkRerank/conc=1$`, text)
			done := len(tt.last) - 1
			require.Regexp(t, regexp.MustCompile(`# `+strconv.Itoa(done+1)+` sent, `+strconv.Itoa(done)+` done, 0 failed, 1 cut off\n(# .*\n)*# e2e-p50-ns \d+\n`), comments)
			require.Contains(t, text, "--- FAIL: BenchmarkRerank/conc=1")

			var last []int
			all := readRecords(t, records)
			for _, l := range all {
				if l.Run == all[len(all)-1].Run {
					require.Equal(t, l.Index < done, l.OK)
					last = append(last, l.Index)
				}
			}
			require.Equal(t, tt.last, last)
		})
	}
}

// A test that runs a benchmark dies with it when its time is over, and is told so
// before. Benchmarks of -bench have no such time.
func TestTimeoutOfGoTest(t *testing.T) {
	if os.Getenv("BENCHMARK_IN_A_TEST") != "" {
		never := http.Header{fakeserver.PlanHeader: {"ttft=1h"}}
		testing.Benchmark(func(b *testing.B) {
			harness.Run(b, harness.Target{Header: never}, dataset.Rerank{Query: 4, Documents: 1, Document: 4}, load.Closed{})
		})
		return
	}
	t.Parallel()
	o := bench(t, []string{"BENCHMARK_IN_A_TEST=1"}, "-test.run=^TestTimeoutOfGoTest$", "-test.timeout=2s")
	require.Equal(t, 2, o.code)
	notice := "tokpace: the test that runs this benchmark times out in 500ms (-timeout 2s): give go test -timeout 0, or make it a benchmark for -bench, which has no timeout\n"
	require.Contains(t, o.stderr, notice)
	require.Contains(t, o.stderr[strings.Index(o.stderr, notice):], "panic: test timed out after 2s")

	o = bench(t, nil, "-test.bench=Rerank/conc=1", "-test.benchtime=700ms", "-test.timeout=500ms")
	require.Zero(t, o.code, o.stdout)
	require.Empty(t, o.stderr)
	require.Len(t, o.lines(t), 1)
}
