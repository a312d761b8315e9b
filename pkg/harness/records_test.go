package harness

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/tokpace/pkg/client"
	"example.com/tokpace/pkg/dataset"
	"example.com/tokpace/pkg/load"
	"example.com/tokpace/pkg/metric"
)

// recordTo makes the benchmarks of t write records, and returns what reads them.
func recordTo(t *testing.T, text bool) (read func() []record) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "records.ndjson")
	commit() // no process is started in virtual time
	process.Lock()
	defer process.Unlock()
	old, s := process.settings, *process.settings
	s.records, s.recordsText = path, text
	process.settings = &s
	t.Cleanup(func() {
		process.Lock()
		defer process.Unlock()
		process.settings = old
		if s.recorder != nil {
			require.NoError(t, s.recorder.Close())
		}
	})
	return func() (all []record) {
		all, _ = readRecords(t, path)
		return all
	}
}

// readRecords reads a file of records, and checks that a run's line comes behind those
// of its exchanges.
func readRecords(t *testing.T, path string) (all []record, runs []runRecord) {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	for line := range bytes.Lines(data) {
		dec := json.NewDecoder(bytes.NewReader(line))
		dec.DisallowUnknownFields()
		if bytes.HasPrefix(line, []byte(`{"schema":"`+load.RunSchema+`"`)) {
			var r runRecord
			require.NoError(t, dec.Decode(&r))
			runs = append(runs, r)
			continue
		}
		r := record{Exchange: &client.Exchange{}}
		require.NoError(t, dec.Decode(&r))
		require.Equal(t, client.Schema, r.Schema)
		for _, run := range runs {
			require.NotEqual(t, run.Run, r.Run)
		}
		all = append(all, r)
	}
	return all, runs
}

// inBubble runs benchmarks of the built-in fake in virtual time.
func inBubble(t *testing.T, benchtime string, f func(start time.Time)) {
	t.Helper()
	setBenchtime(t, benchtime)
	synctest.Test(t, func(*testing.T) {
		f(time.Now())
		closeServers()
	})
}

// Each exchange is one record, that of the warm-up marked, with its times to the
// nanosecond.
func TestRecords(t *testing.T) {
	clean(t)
	read := recordTo(t, false)
	var start time.Time
	inBubble(t, "3x", func(now time.Time) {
		start = now
		r := testing.Benchmark(Benchmark{
			Target: Target{Header: plan("ttft=100ms")}, Dataset: rerank,
			Load: load.Open{Schedule: load.Constant{Rate: 40}, MaxConcurrency: 1, Warmup: load.Warmup{Requests: 1}},
		}.Run)
		require.Equal(t, 3, r.N)
	})
	all := read()
	require.Len(t, all, 4)
	require.True(t, all[0].Warmup)
	require.Equal(t, start.UTC(), all[0].Sent)
	start = start.Add(100 * time.Millisecond).UTC() // the warm-up's
	for i, r := range all[1:] {
		require.Equal(t, all[0].Run, r.Run)
		require.Equal(t, metric.Version, r.Metrics)
		require.Equal(t, i, r.Index)
		require.False(t, r.Warmup)
		require.True(t, r.OK)
		require.Equal(t, 100*time.Millisecond, r.E2E.V)
		require.Equal(t, start.Add(time.Duration(i)*25*time.Millisecond), r.Scheduled)
		require.Equal(t, r.Scheduled, r.Ready)
		require.Equal(t, start.Add(time.Duration(i)*100*time.Millisecond), r.Sent)
	}
}

// A closed loop has no schedule, failed and cut-off exchanges have records too, and
// every run has an identity of its own.
func TestRecordsOfAllEnds(t *testing.T) {
	clean(t)
	read := recordTo(t, false)
	process.settings.maxFail = 1000
	benchmark := func(fault string, limits load.Limits) {
		m := Benchmark{Target: Target{Header: plan("ttft=100ms")}, Dataset: rerank, Load: load.Closed{N: 2, Limits: limits}}
		m.Target.Header.Set("X-Fake-Fault", fault)
		testing.Benchmark(m.Run)
	}
	inBubble(t, "4x", func(time.Time) {
		benchmark("status=503", load.Limits{})
		time.Sleep(time.Second)
		benchmark("", load.Limits{Duration: 150 * time.Millisecond})
	})
	all := read()
	require.Len(t, all, 8)
	runs := map[string]int{}
	ends := map[string]int{}
	for _, r := range all {
		require.Zero(t, r.Scheduled)
		require.NotZero(t, r.Sent)
		runs[r.Run]++
		if r.OK {
			ends["ok"]++
		} else {
			ends[string(r.Error.Class)]++
		}
	}
	require.Equal(t, map[string]int{"http_status": 4, "ok": 2, "canceled": 2}, ends)
	require.Len(t, runs, 2)
}

// The loads of a search are runs of their own.
func TestRecordsOfASearch(t *testing.T) {
	clean(t)
	read := recordTo(t, false)
	inBubble(t, "1x", func(time.Time) {
		testing.Benchmark(Saturation{
			Benchmark: Benchmark{Target: Target{Header: plan("ttft=100ms")}, Dataset: rerank},
			Search:    load.Search{Low: 1, High: 2, Whole: true},
			At:        func(n float64) load.Load { return load.Closed{N: int(n)} },
			Time:      950 * time.Millisecond,
		}.Run)
	})
	points := map[string]int{}
	for _, r := range read() {
		points[r.Run[strings.LastIndexByte(r.Run, ' ')+1:]]++
	}
	require.Equal(t, map[string]int{"point=1": 10, "point=2": 20}, points)
}

// The text of answers is in the records on request only, and never kept.
func TestRecordsText(t *testing.T) {
	chat := Benchmark{Dataset: dataset.Chat{Input: 8, Output: 4, Stream: true}, Load: load.Closed{}}
	for _, text := range []bool{false, true} {
		clean(t)
		read := recordTo(t, text)
		setBenchtime(t, "2x")
		testing.Benchmark(func(b *testing.B) {
			p := chat.prepare(b)
			r := p.send(b)
			for _, ex := range r.Exchanges {
				require.Empty(t, ex.Text)
			}
		})
		all := read()
		require.Len(t, all, 2)
		for _, r := range all {
			if text {
				require.Len(t, strings.Fields(r.Text), 4)
			} else {
				require.Empty(t, r.Text)
			}
		}
		closeServers()
	}
}

// Benchmarks without Main cannot write either where nothing can be written.
func TestRecordsCannotBeWritten(t *testing.T) {
	clean(t)
	recordTo(t, false)
	process.settings.records = filepath.Join(t.TempDir(), "no", "folder")
	setBenchtime(t, "2x")
	ended := make(chan bool, 1)
	r := testing.Benchmark(func(b *testing.B) {
		defer func() { ended <- b.Failed() }()
		Run(b, Target{}, rerank, load.Closed{})
	})
	require.True(t, <-ended)
	require.Zero(t, r.N)
}
