package gate

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// lines are results of one benchmark, a line each.
func lines(format string, values ...float64) string {
	var b strings.Builder
	for _, v := range values {
		fmt.Fprintf(&b, format+"\n", plain(v))
	}
	return b.String()
}

// paired puts a mark before every line.
func paired(text string) string {
	var b strings.Builder
	n := 0
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "Benchmark") {
			n++
			fmt.Fprintf(&b, "# tokpace-pair %d %s\n", n, []string{"BA", "AB"}[n%2])
		}
		b.WriteString(line)
	}
	return b.String()
}

// around gives n values about a center, spread by at most that share.
func around(center float64, spread float64, n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = center * (1 + spread*float64((i*7)%n-n/2)/float64(n/2))
	}
	return out
}

func judged(t *testing.T, base, head string) *Report {
	t.Helper()
	return Compare(readSet(t, base), readSet(t, head), nil)
}

// row returns the one row of a unit.
func (r *Report) row(t *testing.T, unit string) Row {
	t.Helper()
	for _, row := range r.Rows {
		if row.Unit == unit {
			return row
		}
	}
	require.Fail(t, "no such row", "%q in %v", unit, r.Rows)
	return Row{}
}

func TestCaseH52BenchmarksOnOneSide(t *testing.T) {
	chat := lines("BenchmarkChat-8 10 %s ns/op", 238, 239, 240, 241, 242, 243)
	vision := lines("BenchmarkVision-8 10 %s ns/op", 96000, 96001, 96002, 96003, 96004, 96005)
	r := judged(t, header+chat+vision, header+chat)
	require.Len(t, r.Rows, 2)
	require.Equal(t, "Vision-8", r.Rows[0].Name)
	require.Equal(t, Missing, r.Rows[0].Verdict)
	require.Equal(t, OK, r.Rows[1].Verdict)
	require.Zero(t, r.Rows[1].Shift.Center)
	require.Equal(t, CodeNoVerdict, r.Code())

	r = judged(t, header+chat, header+chat+vision)
	require.Equal(t, New, r.Rows[0].Verdict)
	require.Equal(t, CodePass, r.Code())
}

func TestCaseH55NaNMetric(t *testing.T) {
	base := header + lines("BenchmarkIdle-8 10 %s ns/op 0 B/op", 310, 311, 309, 310, 312, 308)
	r := judged(t, base, header+strings.Repeat("BenchmarkIdle-8 0 NaN ns/op 0 B/op\n", 6))
	row := r.row(t, "sec/op")
	require.Equal(t, Incomparable, row.Verdict)
	require.Equal(t, "6 non-finite samples left out, the first is NaN ns/op at f.txt:4", row.Reason)
	require.Equal(t, OK, r.row(t, "B/op").Verdict)
	require.Equal(t, CodeNoVerdict, r.Code())

	r = judged(t, base+"BenchmarkIdle-8 1 -Inf ns/op 0 B/op\n", base)
	require.Equal(t, "1 non-finite sample left out: -Inf ns/op at f.txt:10", r.row(t, "sec/op").Reason)
}

func TestCaseH57OneSideConstant(t *testing.T) {
	base := header + lines("BenchmarkA-8 10 %s ns/op", 310, 311, 309, 310, 312, 308)
	head := header + lines("BenchmarkA-8 10 %s ns/op", 290, 290, 290, 290, 290, 290)
	row := judged(t, base, head).row(t, "sec/op")
	require.Equal(t, Improvement, row.Verdict)
	require.Equal(t, "-6.45%", row.delta())
	require.Equal(t, "0.002", fmt.Sprintf("%.3f", row.P()))
	require.Equal(t, []int{6, 6}, []int{row.Base.N, row.Head.N})
	r := judged(t, head, base)
	require.Equal(t, Regression, r.Rows[0].Verdict)
	require.Equal(t, CodeWorse, r.Code())
}

func TestCaseH59HigherIsBetter(t *testing.T) {
	for _, unit := range []string{"MB/s", "req/s", "tok/s", "score"} {
		format := "BenchmarkCopy-8 100 50 ns/op %s " + unit
		meta := header + "Unit score better=higher\n"
		slow := meta + lines(format, 400, 401, 402, 403, 404, 405)
		fast := meta + lines(format, 500, 501, 502, 503, 504, 505)
		r := judged(t, slow, fast)
		require.Equal(t, Improvement, r.Rows[0].Verdict, unit)
		require.Equal(t, CodePass, r.Code(), unit)
		r = judged(t, fast, slow)
		require.Equal(t, Regression, r.Rows[0].Verdict, unit)
		require.Equal(t, CodeWorse, r.Code(), unit)
		require.Equal(t, OK, r.row(t, "sec/op").Verdict)
	}
}

// TestVerdicts: one row, in every way that it can come out.
func TestVerdicts(t *testing.T) {
	const n = 12
	ns := func(values []float64) string { return lines("BenchmarkA-8 10 %s ns/op", values...) }
	in := func(unit string, values ...float64) string { return lines("BenchmarkA-8 10 %s "+unit, values...) }
	same := []float64{5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5}
	steps := make([]float64, n) // half of them 0
	for i := range steps {
		steps[i] = float64(i % 2)
	}
	for _, c := range []struct {
		name       string
		base, head string
		// of separate samples, and of pairs
		loose, pairs Verdict
	}{
		{"same", ns(around(100, .01, n)), ns(around(100, .01, n)), OK, OK},
		{"+20%", ns(around(100, .01, n)), ns(around(120, .01, n)), Regression, Regression},
		{"-20%", ns(around(100, .01, n)), ns(around(80, .01, n)), Improvement, Improvement},
		{"+3%", ns(around(100, .01, n)), ns(around(103, .01, n)), OK, OK},
		{"+6% of drift that both have", ns(around(100, .2, n)), ns(around(106, .2, n)), Suspect, Regression},
		{"+2% of drift that both have", ns(around(100, .2, n)), ns(around(102, .2, n)), Noisy, OK},
		{"-8% of drift that both have", ns(around(100, .2, n)), ns(around(92, .2, n)), OK, Improvement},
		{"too few", ns(around(100, .01, 5)), ns(around(120, .01, 5)), Incomparable, Incomparable},
		{"6 is enough for samples", ns(around(100, .01, 6)), ns(around(120, .01, 6)), Regression, Incomparable},
		{"one allocation of 5 more", in("allocs/op", same...), in("allocs/op", 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6), Regression, Regression},
		{"half an allocation more", in("allocs/op", same...), in("allocs/op", 5.5, 5.5, 5.5, 5.5, 5.5, 5.5, 5.5, 5.5, 5.5, 5.5, 5.5, 5.5), OK, OK},
		{"5 of 1000 bytes", in("B/op", around(1000, 0, n)...), in("B/op", around(1005, 0, n)...), OK, OK},
		{"15 of 1000 bytes", in("B/op", around(1000, 0, n)...), in("B/op", around(1015, 0, n)...), Regression, Regression},
		{"0 and 0", in("B/op", 0), in("B/op", 0), OK, OK},
		{"0 to something", in("errors/op", make([]float64, n)...), in("errors/op", same...), Regression, Regression},
		{"something to 0", in("errors/op", same...), in("errors/op", make([]float64, n)...), Improvement, Improvement},
		{"0 to something, higher better", in("x/s", make([]float64, n)...), in("x/s", same...), Improvement, Improvement},
		{"something to 0, higher better", in("x/s", same...), in("x/s", make([]float64, n)...), Regression, Regression},
		{"0 to sometimes", in("errors/op", make([]float64, n)...), in("errors/op", steps...), Suspect, Suspect},
		{"no direction", in("score", same...), in("score", around(9, 0, n)...), Shown, Shown},
		{"below 0", "Unit gain better=higher\n" + in("gain", around(-10, .01, n)...), in("gain", around(-20, .01, n)...), Regression, Regression},
		{"exact", "Unit tok/op assume=exact\n" + in("tok/op", 17), "Unit tok/op assume=exact\n" + in("tok/op", 17), OK, OK},
		{"exact and more", "Unit tok/op assume=exact\n" + in("tok/op", 17), "Unit tok/op assume=exact\n" + in("tok/op", 18), Changed, Changed},
		{"exact and less", "Unit tok/op assume=exact\n" + in("tok/op", 17), "Unit tok/op assume=exact\n" + in("tok/op", 16), Changed, Changed},
		{"exact and better", "Unit ok/op assume=exact better=higher\n" + in("ok/op", .5), "Unit ok/op assume=exact better=higher\n" + in("ok/op", 1), Improvement, Improvement},
		{"exact and worse", "Unit ok/op assume=exact better=higher\n" + in("ok/op", 1), "Unit ok/op assume=exact better=higher\n" + in("ok/op", .5), Changed, Changed},
		{"exact and various", "Unit tok/op assume=exact\n" + in("tok/op", 17, 17), "Unit tok/op assume=exact\n" + in("tok/op", 17, 18), Incomparable, Incomparable},
		{"exact on one side", "Unit tok/op assume=exact\n" + in("tok/op", 17), in("tok/op", 17), Incomparable, Incomparable},
		{"other direction", "Unit x better=lower\n" + in("x", same...), "Unit x better=higher\n" + in("x", same...), Incomparable, Incomparable},
		{"unit lost", in("x 5 ns/op", same...), ns(same), Missing, Missing},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := judged(t, header+c.base, header+c.head)
			require.False(t, r.Paired)
			require.Equal(t, c.loose, r.Rows[0].Verdict, "%+v", r.Rows[0])
			require.Contains(t, strings.Join(r.Notes, "\n"), "not interleaved")
			r = judged(t, header+paired(c.base), header+paired(c.head))
			require.True(t, r.Paired)
			require.Equal(t, c.pairs, r.Rows[0].Verdict, "%+v", r.Rows[0])
			require.NotContains(t, strings.Join(r.Notes, "\n"), "not interleaved")
		})
	}
}

// TestConfigurations: what has to be the same on both sides, and what does not.
func TestConfigurations(t *testing.T) {
	run := func(name string, keys ...string) string {
		return strings.Join(keys, "\n") + "\n" + lines("Benchmark"+name+" 10 %s ns/op", around(100, .01, 12)...)
	}
	for _, c := range []struct {
		name       string
		base, head string
		want       Verdict
		reason     string
	}{
		{"cpu", run("A-8", "cpu: x"), run("A-8", "cpu: y"), Incomparable, "cpu: x in base, y in head"},
		{"cpu on one side", run("A-8", "cpu: x"), run("A-8", "pkg: a"), Incomparable, "cpu: x in base, nothing in head"},
		{"cpu within a side", run("A-8", "cpu: x"), run("A-8", "cpu: x") + run("A-8", "cpu: y"), Incomparable, "cpu: x in base, x and y in head"},
		{"definitions", run("A-8", "harness-metrics: v1"), run("A-8", "harness-metrics: v2"), Incomparable, "harness-metrics: v1 in base, v2 in head"},
		{"system", run("A-8", "goos: linux"), run("A-8", "goos: windows"), Incomparable, "goos: linux in base, windows in head"},
		{"processors", run("A-8", "pkg: a"), run("A-4", "pkg: a"), Incomparable, "GOMAXPROCS: 8 in base, 4 in head"},
		{"one processor", run("A-8", "pkg: a"), run("A", "pkg: a"), Incomparable, "GOMAXPROCS: 8 in base, 1 in head"},
		{"module renamed", run("A-8", "pkg: a"), run("A-8", "pkg: b"), OK, ""},
		{"commit", run("A-8", "commit: a"), run("A-8", "commit: b"), OK, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := judged(t, c.base, c.head)
			require.Len(t, r.Rows, 1)
			require.Equal(t, c.want, r.Rows[0].Verdict)
			if c.want == Incomparable {
				require.Equal(t, c.reason, r.Rows[0].Reason)
			}
		})
	}
	r := judged(t, run("A-8", "pkg: a")+run("A-8", "pkg: b"), run("A-8", "pkg: a")+run("A-8", "pkg: c"))
	require.Equal(t, "1 missing, 1 new, 1 ok", r.Summary())
	require.Equal(t, "pkg: b", r.Rows[0].Config)
	r = judged(t, run("A-8", "commit: a"), run("A-8", "commit: b"))
	require.Contains(t, r.Notes, "commit: a in base, b in head")
	// -cpu 1,8 on both sides are two benchmarks, each with its partner.
	r = judged(t, run("A", "pkg: a")+run("A-8", "pkg: a"), run("A-8", "pkg: a")+run("A", "pkg: a"))
	require.Equal(t, "2 ok", r.Summary())
}

func TestPairsHaveToBePairs(t *testing.T) {
	text := paired(lines("BenchmarkA-8 10 %s ns/op", around(100, .01, 12)...))
	for _, c := range []struct{ name, head, reason string }{
		{"one lost", strings.Replace(text, "# tokpace-pair 3 AB\nBenchmarkA-8 10", "# tokpace-pair 3 AB\nBenchmarkB-8 10", 1), "pair 3 AB is in base only"},
		{"one more", text + "# tokpace-pair 13 AB\nBenchmarkA-8 10 100 ns/op\n", "pair 13 AB is in head only"},
		{"other order", strings.Replace(text, "pair 3 AB", "pair 3 BA", 1), "pair 3 BA is in head only"},
		{"one twice", text + "BenchmarkA-8 10 100 ns/op\n", "two results in pair 12 BA of head"},
	} {
		row := judged(t, text, c.head).row(t, "sec/op")
		require.Equal(t, Incomparable, row.Verdict, c.name)
		require.Equal(t, c.reason, row.Reason)
		// Of what is not gated nobody is told more than that.
		off := "Unit ns/op gate=off\n"
		row = judged(t, off+text, off+c.head).row(t, "sec/op")
		require.Equal(t, Shown, row.Verdict, c.name)
		require.Equal(t, c.reason, row.Reason)
	}
	// Order within a file is of no account, and files belong together by place.
	parts := strings.SplitAfter(text, "ns/op\n")
	backwards := ""
	for _, p := range parts {
		backwards = p + backwards
	}
	r := Compare(readSet(t, text, text), readSet(t, backwards, backwards), nil)
	require.Equal(t, "1 ok", r.Summary())
	require.Equal(t, Interval{Level: r.Rows[0].Shift.Level}, r.Rows[0].Shift)
	require.Equal(t, looks[0], r.Rows[0].Base.N, "decided at the first look")
}

// TestDefaultPolicy: of the units of this project's harness one latency of each
// kind is gated.
func TestDefaultPolicy(t *testing.T) {
	const latencies = "5 body-complete-p50-ns 5 e2e-p50-ns 5 e2e-p99-ns 5 itl-p50-ns 5 headers-p50-ns"
	for _, c := range []struct {
		name, key, values, want string
	}{
		{"stream", "harness-metrics: v1", latencies + " 5 ttft-p50-ns 5 ttft-p99-ns 5 tpot-p50-ns 5 ns/op 5 output-tok/s 5 B/op 5 allocs/op",
			"B/op allocs/op e2e-p50-sec tpot-p50-sec ttft-p50-sec"},
		{"no stream", "harness-metrics: v1", latencies + " 5 ns/op 5 input-tok/s", "body-complete-p50-sec"},
		{"open loop", "harness-metrics: v1", "5 ttft-p50-ns 5 req/s 5 output-tok/s 5 input-tok/s 5 queue-p99-ns", "output-tok/s req/s ttft-p50-sec"},
		{"of others", "pkg: a", "5 ns/op 5 step-ns 5 MB/s 5 score 5 errors/op 5 wins/op", "B/s errors/op sec/op step-sec"},
		{"of ollama", "pkg: a", "5 ns/token 5 token/sec", "sec/token token/sec"},
	} {
		text := c.key + "\n" + strings.Repeat("BenchmarkA-8 10 "+c.values+"\n", 6)
		r := judged(t, text, text)
		var gated []string
		for _, row := range r.Rows {
			if row.Verdict != Shown {
				require.Equal(t, OK, row.Verdict)
				gated = append(gated, row.Unit)
			}
		}
		require.ElementsMatch(t, strings.Fields(c.want), gated, c.name)
	}
}

// TestNothingToJudgeDoesNotPass: a gate that can never fail is none.
func TestNothingToJudgeDoesNotPass(t *testing.T) {
	text := lines("BenchmarkA-8 10 %s score", around(100, .01, 12)...)
	r := judged(t, text, text)
	require.Equal(t, CodeNoVerdict, r.Code())
	require.Equal(t, "1 not gated, nothing to judge", r.Summary())
	require.Contains(t, r.Notes[0], "score (a line `Unit score better=lower` would)")
}

func TestCodePrecedence(t *testing.T) {
	for _, c := range []struct {
		want     int
		verdicts []Verdict
	}{
		{CodePass, []Verdict{OK, Noisy, Improvement, New, Shown}},
		{CodeNoVerdict, []Verdict{OK, Suspect}},
		{CodeNoVerdict, []Verdict{Missing, OK}},
		{CodeNoVerdict, []Verdict{OK, Incomparable}},
		{CodeWorse, []Verdict{Suspect, Missing, Incomparable, Changed}},
		{CodeWorse, []Verdict{Regression, Missing}},
		{CodeNoVerdict, []Verdict{Shown, New}},
	} {
		r := &Report{}
		for _, v := range c.verdicts {
			r.Rows = append(r.Rows, Row{Verdict: v})
		}
		require.Equal(t, c.want, r.Code(), c.verdicts)
	}
}

func TestNamesAreNoTerminalCommands(t *testing.T) {
	text := strings.Repeat("BenchmarkA\x1b[2J-8 10 5 ns/op\n", 6)
	var b strings.Builder
	require.NoError(t, judged(t, text, strings.ReplaceAll(text, " 5 ", " 9 ")).WriteText(&b))
	require.Contains(t, b.String(), "A\ufffd[2J-8")
	require.NotContains(t, b.String(), "\x1b")
}
