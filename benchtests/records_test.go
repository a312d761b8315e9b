package benchtests

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/tokpace/fakeserver"
	"example.com/tokpace/pkg/client"
	"example.com/tokpace/pkg/load"
)

// A line is what these tests look at of a record.
type line struct {
	Schema string
	Run    string
	OK     bool
	Index  int
}

// readRecords reads the exchanges of a file of records, and as far as it goes one that was torn.
func readRecords(t *testing.T, path string) (all []line) {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	var in io.Reader = bytes.NewReader(data)
	if strings.HasSuffix(path, ".gz") && len(data) > 0 {
		if in, err = gzip.NewReader(in); errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		}
		require.NoError(t, err)
	}
	r := bufio.NewReader(in)
	for {
		text, err := r.ReadBytes('\n')
		if err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) {
			return all
		}
		require.NoError(t, err)
		var l line
		require.NoError(t, json.Unmarshal(text, &l), "%s", text)
		if l.Schema == load.RunSchema {
			continue
		}
		require.Equal(t, client.Schema, l.Schema)
		all = append(all, l)
	}
}

func byRun(all []line) map[string][]line {
	runs := map[string][]line{}
	for _, l := range all {
		runs[l.Run] = append(runs[l.Run], l)
	}
	return runs
}

// countingServer is a fake server that calls f with each POST and its number, from 1
// on, before it answers.
func countingServer(t *testing.T, f func(n int, r *http.Request)) (url string) {
	t.Helper()
	fake, err := fakeserver.New(fakeserver.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { fake.Close() })
	var posts atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			f(int(posts.Add(1)), r)
		}
		fake.Handler().ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

// A process that is killed loses no exchange that had ended: when the server has
// seen n requests, at most those in flight have no record. What it leaves can be
// read, and the next process goes on behind it.
func TestKilledRunKeepsItsRecords(t *testing.T) {
	const kills = 20
	for _, name := range []string{"r.ndjson", "r.ndjson.gz"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(5, uint64(len(name))))
			path := filepath.Join(t.TempDir(), name)
			records := "TOKPACE_RECORDS=" + path
			before := map[string][]line{}
			for kill := range kills {
				concurrency, conc := 1, "conc=1"
				if kill%2 == 1 {
					concurrency, conc = 8, "conc=8"
				}
				at, later := 1+rng.IntN(40), time.Duration(rng.IntN(3000))*time.Microsecond
				moment := make(chan struct{})
				var seen atomic.Int64 // requests of this process alone
				url := countingServer(t, func(n int, _ *http.Request) {
					seen.Add(1)
					if n == at {
						close(moment)
					}
				})
				cmd := benchCommand(t, []string{"OPENAI_BASE_URL=" + url, records}, "-test.bench=Rerank/"+conc, "-test.benchtime=1h")
				require.NoError(t, cmd.Start())
				<-moment
				time.Sleep(later) // any moment will do
				require.NoError(t, cmd.Process.Kill())
				require.Error(t, cmd.Wait())
				requests := int(seen.Load())

				runs := byRun(readRecords(t, path))
				for run, lines := range before {
					require.Equal(t, lines, runs[run], "records of runs before")
					delete(runs, run)
				}
				require.LessOrEqual(t, len(runs), 1)
				for run, lines := range runs {
					before[run] = lines
					require.GreaterOrEqual(t, len(lines), requests-concurrency)
					indices := map[int]bool{}
					for _, l := range lines {
						require.True(t, l.OK)
						indices[l.Index] = true
					}
					require.Len(t, indices, len(lines))
				}
				if len(runs) == 0 {
					require.LessOrEqual(t, requests, concurrency)
				}
			}
			o := bench(t, []string{records}, "-test.bench=Rerank/conc=1", "-test.benchtime=5x")
			require.Zero(t, o.code, o.stdout+o.stderr)
			total := 5
			for _, lines := range before {
				total += len(lines)
			}
			require.Len(t, readRecords(t, path), total)
			t.Logf("%d records of %d runs", total, len(before)+1)
		})
	}
}

// Two processes cannot write to one file at a time.
func TestRecordsOfTwoProcesses(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("files are not locked there")
	}
	path := filepath.Join(t.TempDir(), "r.ndjson")
	entered, hold := make(chan struct{}, 1), make(chan struct{})
	url := countingServer(t, func(int, *http.Request) {
		select {
		case entered <- struct{}{}:
		default:
		}
		<-hold
	})
	env := []string{"OPENAI_BASE_URL=" + url, "TOKPACE_RECORDS=" + path}
	args := []string{"-test.bench=Rerank/conc=1", "-test.benchtime=3x"}
	first := benchCommand(t, env, args...)
	require.NoError(t, first.Start())
	<-entered
	o := bench(t, env, args...)
	close(hold)
	require.NoError(t, first.Wait())
	require.Equal(t, 2, o.code)
	require.Equal(t, "tokpace: records: "+path+": another process writes to it\n", o.stderr)
	require.Empty(t, o.stdout)
	require.Len(t, readRecords(t, path), 3)
}

// A disk that fills fails the benchmark, and keeps what was written.
func TestRecordsOnAFullDisk(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no limit can be set on the size of files there")
	}
	path := filepath.Join(t.TempDir(), "r.ndjson")
	whole := benchCommand(t, []string{"TOKPACE_RECORDS=" + path}, "-test.bench=Rerank", "-test.benchtime=1h")
	cmd := exec.CommandContext(t.Context(), "sh", append([]string{"-c", `ulimit -f 8 && exec "$@"`, "sh", whole.Path}, whole.Args[1:]...)...)
	cmd.Env = whole.Env
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	exit, ok := err.(*exec.ExitError)
	require.True(t, ok, "%v %s", err, stderr.String())
	require.Equal(t, 1, exit.ExitCode())
	require.Empty(t, stderr.String())
	require.Empty(t, outcome{stdout: string(out)}.lines(t))
	require.Contains(t, string(out), "--- FAIL: BenchmarkRerank/conc=1")
	require.Contains(t, string(out), "records: write "+path+": ")
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NotEmpty(t, data)
	require.LessOrEqual(t, len(data), 8*1024)
	require.True(t, bytes.HasSuffix(data, []byte("}\n")), "whole records")
	require.NotEmpty(t, readRecords(t, path))
}
