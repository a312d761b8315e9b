package benchtests

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/tokpace/fakeserver"
	"example.com/tokpace/pkg/client"
	"example.com/tokpace/pkg/dataset"
	"example.com/tokpace/pkg/load"
	"example.com/tokpace/pkg/metric"
)

// perf skips a test of speed: on a machine that does something else as well it
// would fail for no fault of the code.
func perf(t *testing.T) {
	t.Helper()
	if os.Getenv("PERF") == "" {
		t.Skip("set PERF=1 on an idle machine: it measures speed")
	}
}

// fakeProcess starts the fake server as a process of its own, so that what is
// measured of this one is the client alone, and returns a client of it.
func fakeProcess(t *testing.T, plan string) *client.Client {
	t.Helper()
	dir := t.TempDir()
	exe, addr := filepath.Join(dir, "tokpace"), filepath.Join(dir, "addr")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", exe, "../pkg/cmd/tokpace").CombinedOutput()
	require.NoError(t, err, string(out))
	var stderr bytes.Buffer
	cmd := exec.Command(exe, "fake", "-listen", "127.0.0.1:0", "-addr-file", addr)
	cmd.Stderr = &stderr
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
	})
	var host []byte
	require.Eventually(t, func() bool {
		host, err = os.ReadFile(addr)
		return err == nil && len(host) > 0
	}, 30*time.Second, 10*time.Millisecond, "%s", &stderr)
	c := &client.Client{
		BaseURL:     "http://" + strings.TrimSpace(string(host)),
		Header:      http.Header{fakeserver.PlanHeader: {plan}},
		DiscardText: true,
	}
	t.Cleanup(c.CloseIdleConnections)
	return c
}

func perfSource(t *testing.T, d dataset.Dataset) dataset.Source {
	t.Helper()
	src, err := d.Source(dataset.Env{Model: "tokpace-fake", IgnoreEOS: true})
	require.NoError(t, err)
	return src
}

// 2,000 requests a second for 10 s: the rate within 0.5 %, and 99 in 100 sends at
// most 2 ms late.
func TestPerfOpenLoopRate(t *testing.T) {
	perf(t)
	const rate, n = 2000, 20_000
	for name, schedule := range map[string]load.Schedule{"constant": load.Constant{Rate: rate}, "poisson": load.Poisson{Rate: rate}} {
		t.Run(name, func(t *testing.T) {
			c := fakeProcess(t, "ttft=2ms")
			src := perfSource(t, dataset.Embeddings{Input: 16})
			l := load.Open{Schedule: schedule, Warmup: load.Warmup{Requests: rate}}
			c.Warm(t.Context(), l.Connections(0), "/v1/models")
			_, err := l.WarmUp(t.Context(), c.Do, src)
			require.NoError(t, err)
			exchanges, _, err := l.Start(t.Context(), c.Do, src, n).Wait()
			require.NoError(t, err)
			set := metric.Of(metric.Run{Exchanges: exchanges, Elapsed: time.Second})
			require.Equal(t, n, set.OK, metric.Failures(exchanges, n))

			sends := make([]time.Time, n)
			wanted := make([]time.Time, n)
			lags := make([]time.Duration, n)
			for i, ex := range exchanges {
				sends[i], wanted[i], lags[i] = ex.Sent, ex.Scheduled, ex.SendLag().V
			}
			slices.SortFunc(sends, time.Time.Compare)
			slices.SortFunc(wanted, time.Time.Compare)
			slices.Sort(lags)
			asked := float64(n-1) / wanted[n-1].Sub(wanted[0]).Seconds()
			sent := float64(n-1) / sends[n-1].Sub(sends[0]).Seconds()
			w, ok := metric.WindowOf(exchanges)
			require.True(t, ok)
			t.Logf("asked %.2f, sent %.2f, answered %.2f requests/s; send lag p50 %v, p99 %v, largest %v",
				asked, sent, w.Rate(exchanges), metric.Percentile(lags, 50), metric.Percentile(lags, 99), lags[n-1])
			require.InEpsilon(t, asked, sent, 0.005)
			require.InEpsilon(t, asked, w.Rate(exchanges), 0.005)
			require.LessOrEqual(t, metric.Percentile(lags, 99), 2*time.Millisecond)
		})
	}
}

// 5,000 slow streams at once are all counted, and cost this process at most
// 64 KiB of resident memory each.
func TestPerfManyStreams(t *testing.T) {
	perf(t)
	if runtime.GOOS != "linux" {
		t.Skip("resident memory is read from /proc")
	}
	const n = 5000
	c := fakeProcess(t, "ttft=8s; itl=1s")
	src := perfSource(t, dataset.Chat{Input: 16, Output: 3, Stream: true})
	warm, err := src.Request(load.WarmupIndex)
	require.NoError(t, err)
	quick := *warm
	quick.Header = http.Header{fakeserver.PlanHeader: {"ttft=0s"}}
	require.True(t, c.Do(t.Context(), &quick).OK)
	runtime.GC()
	before := resident(t)
	r := load.Open{Schedule: load.Constant{Rate: 1500}, MaxLag: time.Minute}.Start(t.Context(), c.Do, src, n)
	peak, tick := 0, time.NewTicker(100*time.Millisecond)
	defer tick.Stop()
	for done := false; !done; {
		select {
		case _, ok := <-r.Done():
			done = !ok
		case <-tick.C:
			peak = max(peak, resident(t))
		}
	}
	exchanges, _, err := r.Wait()
	require.NoError(t, err)
	set := metric.Of(metric.Run{Exchanges: exchanges, Elapsed: time.Second})
	require.Equal(t, n, set.OK, metric.Failures(exchanges, n))
	inFlight, most := 0, 0
	type step struct {
		at time.Time
		by int
	}
	var steps []step
	for _, ex := range exchanges {
		require.Equal(t, 3, ex.Events.V)
		steps = append(steps, step{ex.Sent, 1}, step{ex.Sent.Add(ex.BodyComplete.V), -1})
	}
	slices.SortFunc(steps, func(a, b step) int { return a.at.Compare(b.at) })
	for _, s := range steps {
		inFlight += s.by
		most = max(most, inFlight)
	}
	each := (peak - before) / n
	t.Logf("%d streams at once; resident before %d KiB, at most %d KiB: %.1f KiB each", most, before>>10, peak>>10, float64(each)/1024)
	require.Equal(t, n, most)
	require.LessOrEqual(t, each, 64<<10)
}

// resident is this process's resident memory in bytes.
func resident(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/statm")
	require.NoError(t, err)
	pages, err := strconv.Atoi(strings.Fields(string(text))[1])
	require.NoError(t, err)
	return pages * os.Getpagesize()
}

// BenchmarkSendLag is how late an open loop at 1,000 requests a second sends,
// beside one that sleeps between the sends, on an idle machine.
func BenchmarkSendLag(b *testing.B) {
	if os.Getenv("PERF") == "" {
		b.Skip("set PERF=1 on an idle machine: it measures speed")
	}
	srv := fakeserver.Start(b, fakeserver.Config{TTFT: 2 * time.Millisecond})
	src, err := dataset.Embeddings{Input: 16}.Source(dataset.Env{Model: "tokpace-fake"})
	require.NoError(b, err)
	schedule := load.Poisson{Rate: 1000}
	for _, dispatcher := range []string{"sleep", "pacer"} {
		b.Run(fmt.Sprintf("dispatcher=%s", dispatcher), func(b *testing.B) {
			c := &client.Client{BaseURL: srv.URL, DiscardText: true}
			defer c.CloseIdleConnections()
			c.Warm(b.Context(), 64, "/v1/models")
			var lags []time.Duration
			if dispatcher == "pacer" {
				exchanges, _, err := load.Open{Schedule: schedule}.Start(b.Context(), c.Do, src, b.N).Wait()
				require.NoError(b, err)
				for _, ex := range exchanges {
					lags = append(lags, ex.Queue().V)
				}
			} else {
				lags = sleeping(b, c, src, schedule)
			}
			slices.Sort(lags)
			b.ReportMetric(float64(metric.Percentile(lags, 50)), "send-lag-p50-ns")
			b.ReportMetric(float64(metric.Percentile(lags, 99)), "send-lag-p99-ns")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// sleeping sends b.N requests by time.Sleep to absolute times, a goroutine each.
func sleeping(b *testing.B, c *client.Client, src dataset.Source, s load.Schedule) (lags []time.Duration) {
	times, err := s.Times(0)
	require.NoError(b, err)
	ended := make(chan time.Duration, b.N)
	start, i := time.Now(), 0
	for at := range times {
		if i == b.N {
			break
		}
		req, err := src.Request(i)
		require.NoError(b, err)
		due := start.Add(at)
		time.Sleep(time.Until(due))
		go func() { ended <- c.Do(b.Context(), req).Sent.Sub(due) }()
		i++
	}
	for range b.N {
		lags = append(lags, <-ended)
	}
	return lags
}
