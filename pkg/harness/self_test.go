package harness

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"example.com/tokpace/fakeserver"
	"example.com/tokpace/pkg/api"
	"example.com/tokpace/pkg/client"
	"example.com/tokpace/pkg/dataset"
	"example.com/tokpace/pkg/load"
	"example.com/tokpace/pkg/metric"
)

var chat = dataset.Chat{Input: 8, Output: 4, Stream: true}

// lateTransport gives what it has read only after some time: a client that is slow.
type lateTransport struct {
	http.RoundTripper
	by time.Duration
}

func (l lateTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := l.RoundTripper.RoundTrip(req)
	if err == nil && req.Method == http.MethodPost {
		resp.Body = &lateBody{ReadCloser: resp.Body, by: l.by}
	}
	return resp, err
}

type lateBody struct {
	io.ReadCloser
	by    time.Duration
	slept time.Time // until then
}

func (b *lateBody) Read(p []byte) (int, error) {
	begun := time.Now()
	n, err := b.ReadCloser.Read(p)
	// What is there when it has just slept came together with what it slept for.
	if there := b.slept.Equal(begun) && b.slept.Equal(time.Now()); n > 0 && !there {
		time.Sleep(b.by) // virtual
		b.slept = time.Now()
	}
	return n, err
}

// An outcome is what a run of judged gave.
type outcome struct {
	result   testing.BenchmarkResult
	failed   bool
	run      runRecord
	comments string
}

// judged runs a benchmark of the built-in fake in virtual time, whose client is late,
// and in which no pause of the garbage collector is seen but what pause says.
func judged(t *testing.T, n int, m Benchmark, late, pause time.Duration, set func(*settings)) outcome {
	t.Helper()
	clean(t)
	recordTo(t, false)
	path := process.settings.records
	set(process.settings)
	process.invalid = nil
	t.Cleanup(func() { process.invalid = nil })
	old := readCollections
	t.Cleanup(func() { readCollections = old })
	looks := uint64(0)
	readCollections = func() collections {
		looks++
		return collections{cycles: looks, pauses: []uint64{looks}, bounds: []float64{0, pause.Seconds()}}
	}
	var o outcome
	setBenchtime(t, fmt.Sprintf("%dx", n))
	synctest.Test(t, func(t *testing.T) {
		s, _, err := find(t.Context(), Target{})
		require.NoError(t, err)
		if late > 0 {
			s.transport = lateTransport{s.transport, late}
		}
		o.result = testing.Benchmark(func(b *testing.B) {
			defer func() { o.failed = b.Failed() }()
			m.Run(b)
		})
		closeServers()
	})
	exchanges, runs := readRecords(t, path)
	require.Len(t, exchanges, n)
	require.Len(t, runs, 1)
	o.run, o.comments = runs[0], invalidComments()
	require.Equal(t, exchanges[0].Run, o.run.Run)
	return o
}

// A client that is late by a known time finds just that against the journal, and a run
// in which it is too much for what is measured is marked, and fails if asked for.
func TestClientLag(t *testing.T) {
	none := func(*settings) {}
	const ms = time.Millisecond
	slow := Target{Header: plan("ttft=100ms;itl=50ms")}
	for name, c := range map[string]struct {
		bench   Benchmark
		late    time.Duration
		pause   time.Duration
		set     func(*settings)
		events  int
		invalid string
		strict  bool
	}{
		"exact stream":   {Benchmark{Target: slow, Dataset: chat, Load: load.Closed{N: 3}}, 0, 0, none, 80, "", false},
		"exact, strict":  {Benchmark{Target: slow, Dataset: chat, Load: load.Closed{N: 3}}, 0, 0, func(s *settings) { s.strict, s.maxOwnError = true, 0 }, 80, "", false},
		"exact open":     {Benchmark{Target: slow, Dataset: chat, Load: load.Open{Schedule: load.Constant{Rate: 100}}}, 0, 0, none, 80, "", false},
		"exact plain":    {Benchmark{Target: slow, Dataset: rerank, Load: load.Closed{N: 3}}, 0, 0, none, 20, "", false},
		"a tenth late":   {Benchmark{Target: slow, Dataset: chat, Load: load.Closed{N: 3}}, 10 * ms, 0, none, 80, "", false},
		"too late":       {Benchmark{Target: slow, Dataset: chat, Load: load.Closed{N: 3}}, 15 * ms, 0, none, 80, "client lag p99 is 15ms, more than 10 % of the median TTFT, 115ms (max-own-error)", false},
		"strict":         {Benchmark{Target: slow, Dataset: chat, Load: load.Closed{N: 3}}, 15 * ms, 0, func(s *settings) { s.strict = true }, 80, "client lag p99 is 15ms, more than 10 % of the median TTFT, 115ms (max-own-error)", true},
		"allowed":        {Benchmark{Target: slow, Dataset: chat, Load: load.Closed{N: 3}}, 15 * ms, 0, func(s *settings) { s.maxOwnError = 0.5 }, 80, "", false},
		"too late plain": {Benchmark{Target: slow, Dataset: rerank, Load: load.Closed{N: 3}}, 15 * ms, 0, none, 20, "client lag p99 is 15ms, more than 10 % of the median E2E, 115ms (max-own-error)", false},
		"paused":         {Benchmark{Target: slow, Dataset: rerank, Load: load.Closed{N: 3}}, 0, 11 * ms, none, 20, "longest GC pause is 11ms, more than 10 % of the median E2E, 100ms (max-own-error)", false},
	} {
		t.Run(name, func(t *testing.T) {
			o := judged(t, 20, c.bench, c.late, c.pause, c.set)
			require.Equal(t, &metric.Lag{P50: c.late, P99: c.late, Max: c.late, Events: c.events}, o.run.Self.ClientLag)
			require.Equal(t, 1, o.run.Self.GCs)
			require.Equal(t, api.Some(c.pause), o.run.Self.GCPauseMax)
			require.Equal(t, max(c.late, c.pause), o.run.OwnError.V)
			require.Equal(t, api.Some(c.invalid == ""), o.run.Valid)
			require.Equal(t, 20, o.run.OK)
			require.Zero(t, o.run.Failed)
			require.Equal(t, c.strict, o.failed)
			if c.invalid == "" {
				require.Empty(t, o.run.Invalid)
				require.Empty(t, o.comments)
			} else {
				require.True(t, strings.HasPrefix(o.run.Invalid, c.invalid+": "), o.run.Invalid)
				require.Equal(t, fmt.Sprintf("# invalid: %s: %s\n", o.run.Benchmark, o.run.Invalid), o.comments)
			}
			if c.strict {
				require.Zero(t, o.result.N, "no line")
				return
			}
			require.Equal(t, 20, o.result.N)
			if _, streams := c.bench.Dataset.(dataset.Chat); streams {
				require.Equal(t, 0.0, o.result.Extra["merged-reads/op"])
			}
		})
	}
}

// A source that is slow makes the sends late.
func TestLateSendsAreInvalid(t *testing.T) {
	m := Benchmark{
		Target: Target{Header: plan("ttft=100ms")}, Dataset: slowSource{rerank},
		Load: load.Open{Schedule: load.Constant{Rate: 100}, MaxLag: time.Hour},
	}
	o := judged(t, 200, m, 0, 0, func(*settings) {})
	lag := time.Duration(o.result.Extra["send-lag-p99-ns"])
	require.Greater(t, lag, 10*time.Millisecond)
	require.Equal(t, api.Some(lag), o.run.Self.SendLagP99)
	require.Equal(t, &metric.OwnError{Of: "send lag p99", V: lag}, o.run.OwnError)
	require.Equal(t, fmt.Sprintf("send lag p99 is %v, more than 10 %% of the median E2E, 100ms (max-own-error): ask for a lower rate, or give the client more of the machine", lag), o.run.Invalid)
	require.False(t, o.failed)
	o = judged(t, 200, m, 0, 0, func(s *settings) { s.strict = true })
	require.True(t, o.failed)
}

// Several invalid runs of a benchmark are one comment.
func TestInvalidComments(t *testing.T) {
	process.invalid = []invalidRuns{{"BenchmarkA", 1, "x"}, {"BenchmarkB/conc=1", 3, "y"}}
	t.Cleanup(func() { process.invalid = nil })
	require.Equal(t, "# invalid: BenchmarkA: x\n# invalid: BenchmarkB/conc=1: (3 runs, the last:) y\n", invalidComments())
}

// Each load of a search is a run that tells of itself.
func TestSearchTellsOfItself(t *testing.T) {
	clean(t)
	recordTo(t, false)
	path := process.settings.records
	inBubble(t, "1x", func(time.Time) {
		testing.Benchmark(Saturation{
			Benchmark: Benchmark{Target: Target{Header: plan("ttft=100ms")}, Dataset: rerank},
			Search:    load.Search{Low: 1, High: 2, Whole: true},
			At:        func(n float64) load.Load { return load.Closed{N: int(n)} },
			Time:      950 * time.Millisecond,
		}.Run)
	})
	_, runs := readRecords(t, path)
	require.Len(t, runs, 2)
	for i, r := range runs {
		require.True(t, strings.HasSuffix(r.Run, fmt.Sprintf(" point=%d", i+1)), r.Run)
		require.Equal(t, 10*(i+1), r.OK)
		require.Equal(t, time.Second, r.Elapsed)
		require.Equal(t, &metric.Lag{Events: r.OK}, r.Self.ClientLag)
	}
}

// What the journal has of others, of failures and of what came before is not taken for
// an exchange's own, and times that cannot be told apart are left out.
func TestClientLagsMatch(t *testing.T) {
	begun := time.Now()
	at := func(ms int) time.Time { return begun.Add(time.Duration(ms) * time.Millisecond) }
	span := func(ms int) client.Dur { return api.Some(time.Duration(ms) * time.Millisecond) }
	conn := func(port int) net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port} }
	stream := func(port, sent int, gaps ...int) *client.Exchange {
		ex := &client.Exchange{OK: true, Local: conn(port), Sent: at(sent), TTFT: span(10), Events: api.Some(len(gaps) + 1)}
		total := 10
		for _, g := range gaps {
			ex.ITL = append(ex.ITL, time.Duration(g)*time.Millisecond)
			total += g
		}
		ex.E2E, ex.BodyComplete = span(total), span(total+1)
		return ex
	}
	index := 0
	record := func(port, arrived int, tokens ...int) fakeserver.Record {
		index++
		r := fakeserver.Record{Index: index, Remote: conn(port).String(), Arrived: at(arrived)}
		r.Events = append(r.Events, fakeserver.Stamp{Kind: fakeserver.KindRole})
		for _, ms := range tokens {
			r.Events = append(r.Events, fakeserver.Stamp{Kind: fakeserver.KindToken, Actual: time.Duration(ms) * time.Millisecond})
		}
		r.Events = append(r.Events, fakeserver.Stamp{Kind: fakeserver.KindDone, Actual: time.Hour})
		return r
	}
	plain := func(bytes int64) ([]*client.Exchange, []fakeserver.Record) {
		ex := &client.Exchange{OK: true, Local: conn(1), Sent: at(0), E2E: span(9), BodyComplete: span(9)}
		r := fakeserver.Record{Remote: conn(1).String(), Arrived: at(1), Events: []fakeserver.Stamp{{Actual: 2e6}, {Actual: 5e6, Bytes: bytes}}}
		return []*client.Exchange{ex}, []fakeserver.Record{r}
	}
	type exchanges = []*client.Exchange
	type journal = []fakeserver.Record
	failed := stream(1, 200, 1)
	failed.OK = false
	choices := stream(1, 0, 3, 3) // four events, so two gaps are those of two choices
	choices.Events = api.Some(4)
	small, smallJournal := plain(maxTimed)
	large, largeJournal := plain(maxTimed + 1)
	for name, c := range map[string]struct {
		exchanges []*client.Exchange
		journal   []fakeserver.Record
		want      []int // ms
	}{
		"one":               {exchanges{stream(1, 0, 5, 5)}, journal{record(1, 1, 8, 12, 19)}, []int{1, 2, 0}},
		"no journal":        {exchanges{stream(1, 0, 5, 5)}, nil, nil},
		"another":           {exchanges{stream(1, 0, 5)}, journal{record(2, 1, 8, 13)}, nil},
		"one before":        {exchanges{stream(1, 100, 5)}, journal{record(1, 1, 8, 13), record(1, 101, 9, 12)}, []int{0, 2}},
		"one after":         {exchanges{stream(1, 0, 5), stream(1, 200, 5)}, journal{record(1, 201, 9, 13)}, []int{0, 1}},
		"a failure between": {exchanges{stream(1, 0, 5), failed, stream(1, 300, 5)}, journal{record(1, 1, 9, 14), record(1, 201, 1), record(1, 301, 7, 14)}, []int{0, 0, 2, 0}},
		"two connections":   {exchanges{stream(1, 0, 5), stream(2, 0, 5)}, journal{record(2, 0, 9, 9), record(1, 1, 9, 14)}, []int{0, 0, 1, 6}},
		"other events":      {exchanges{stream(1, 0, 5)}, journal{record(1, 1, 8, 9, 10)}, nil},
		"no connection":     {exchanges{{OK: true, Sent: at(0), BodyComplete: span(5)}}, journal{record(1, 1, 8)}, nil},
		"choices":           {exchanges{choices}, journal{record(1, 0, 7, 7, 14, 14)}, []int{2, 3}},
		"plain":             {small, smallJournal, []int{3}},
		"plain and large":   {large, largeJournal, nil},
	} {
		lags := clientLags(c.exchanges, c.journal)
		var got []int
		for _, lag := range lags {
			got = append(got, int(lag/time.Millisecond))
		}
		require.ElementsMatch(t, c.want, got, name)
	}
}

func TestCollectionsSince(t *testing.T) {
	bounds := []float64{math.Inf(-1), 0.001, 0.002, math.Inf(1)}
	before := collections{cycles: 3, pauses: []uint64{1, 2, 0}, bounds: bounds}
	for _, c := range []struct {
		after collections
		n     int
		want  client.Dur
	}{
		{before, 0, api.Some[time.Duration](0)},
		{collections{cycles: 5, pauses: []uint64{4, 2, 0}, bounds: bounds}, 2, api.Some(time.Millisecond)},
		{collections{cycles: 5, pauses: []uint64{4, 3, 0}, bounds: bounds}, 2, api.Some(2 * time.Millisecond)},
		{collections{cycles: 5, pauses: []uint64{4, 3, 1}, bounds: bounds}, 2, api.Some(2 * time.Millisecond)},
		{collections{cycles: 5}, 2, client.Dur{}},
	} {
		n, longest := c.after.since(before)
		require.Equal(t, c.n, n)
		require.Equal(t, c.want, longest)
	}
	before = readCollections()
	require.NotEmpty(t, before.pauses)
	work := make([][]byte, 0)
	for range 64 {
		work = append(work, make([]byte, 1<<20)) // enough for a collection, whatever GOGC is by default
	}
	require.Len(t, work, 64)
	n, longest := readCollections().since(before)
	require.Positive(t, n)
	require.Positive(t, longest.V)
}

// Processor time never goes back, and some goes by while something is done.
func TestProcessTime(t *testing.T) {
	first := processTime()
	if !first.Known {
		t.Skip("no processor time is known here")
	}
	last := first.V
	for range 10_000_000 { // the coarsest clock ticks 60 times a second
		now := processTime().V
		require.GreaterOrEqual(t, now, last)
		if last = now; now > first.V {
			return
		}
	}
	t.Fatal("no processor time went by")
}

// The server that does nothing answers what comes, and ends with all it had.
func TestNullServer(t *testing.T) {
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
	n, err := startNull(nullAnswers[floorPlain])
	require.NoError(t, err)
	defer n.close()
	c, err := net.Dial("tcp", n.addr())
	require.NoError(t, err)
	defer c.Close()
	_, err = io.WriteString(c, "POST /x HTTP/1.1\r\ncontent-LENGTH: 5\r\n\r\nhelloGET / HTTP/1.1\r\nHost: x\r\n\r\n")
	require.NoError(t, err)
	r := bufio.NewReader(c)
	for range 2 {
		resp, err := http.ReadResponse(r, nil)
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Equal(t, nullAnswers[floorPlain][len(nullAnswers[floorPlain])-len(body):], body)
	}
	n.close()
	_, err = r.ReadByte()
	require.Error(t, err)
}
