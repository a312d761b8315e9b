package ab_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"example.com/tokpace/pkg/ab"
	"example.com/tokpace/pkg/gate"

	"github.com/stretchr/testify/require"
)

// samples is the text of a test file whose benchmarks report numbers of the files
// in testdata: each line is a benchmark's name and what it reports in turn, from
// process to process. Nothing else is gated.
const samples = `package benchtests

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
)

func TestMain(m *testing.M) {
	fmt.Println("Unit ns/op gate=off")
	os.Exit(m.Run())
}

func BenchmarkOf(b *testing.B) {
	side, err := os.ReadFile("testdata/side")
	if err != nil {
		b.Fatal(err)
	}
	runs, err := os.OpenFile(os.Getenv("AB_TEST_RUNS")+strings.TrimSpace(string(side)), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
	if err != nil {
		b.Fatal(err)
	}
	runs.WriteString("x")
	info, _ := runs.Stat()
	runs.Close()
	text, err := os.ReadFile("testdata/values")
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		b.Run(f[0], func(b *testing.B) {
			for b.Loop() {
			}
			v, err := strconv.ParseFloat(f[1+int(info.Size())%(len(f)-1)], 64)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(v, "work-sec")
		})
	}
}
`

// values writes the numbers of a side.
func (r *repo) values(side, text string) {
	r.write("benchtests/testdata/side", side)
	r.write("benchtests/testdata/values", text)
}

// newSamples is a repository in which base and the working tree report numbers.
func newSamples(t *testing.T, base, head string) (r *repo, cfg ab.Config, stderr *bytes.Buffer) {
	r = newRepo(t)
	t.Setenv("AB_TEST_RUNS", filepath.Join(t.TempDir(), "runs-"))
	r.write("benchtests/bench_test.go", samples)
	r.values("base", base)
	r.commit()
	r.values("head", head)
	stderr = new(bytes.Buffer)
	return r, ab.Config{Base: "HEAD", Dir: r.root, Out: "out", Iters: 1, Stderr: stderr}, stderr
}

// pairsOf counts the results of a benchmark in a file.
func (r *repo) pairsOf(file, name string) int {
	r.t.Helper()
	return len(regexp.MustCompile(`(?m)^BenchmarkOf/`+regexp.QuoteMeta(name)+`(-\d+)?\s`).FindAllString(r.read(file), -1))
}

const odd = "wild=1.5+(y)|[z]/of=^2$"

func TestLooksEndWhenAllIsDecided(t *testing.T) {
	r, cfg, stderr := newSamples(t, "slow 100 101\nsame 7\n", "slow 120 121\nsame 7\n")
	report, err := ab.Run(t.Context(), cfg)
	require.NoError(t, err)
	require.Equal(t, gate.CodeWorse, report.Code())
	require.Contains(t, report.Summary(), "1 regression, ")
	for _, file := range []string{"out/base.txt", "out/head.txt"} {
		require.Equal(t, 10, r.pairsOf(file, "slow"))
		require.Equal(t, 10, r.pairsOf(file, "same"))
	}
	require.Regexp(t, `^building head and base \w{12}\nexpected: 10 to 26 pairs, about \S+ to \S+; none begins after 10m0s\n$`, stderr.String())
	require.Equal(t, []string{"ab.log", "base.txt", "head.txt"}, r.out())
	r.requireClean()
}

// Later looks run the undecided benchmarks alone, whatever they are called.
func TestLooksRunOnWhatIsUndecided(t *testing.T) {
	wild := "100 200 50 150 90 300 80\n"
	r, cfg, stderr := newSamples(t, odd+" "+wild+"wild=1.5+(y)|[z]/of=^2$x 5\nwild 5\nsame 7\n",
		odd+" 70 "+wild+"wild=1.5+(y)|[z]/of=^2$x 5\nwild 5\nsame 7\n")
	report, err := ab.Run(t.Context(), cfg)
	require.NoError(t, err)
	for _, file := range []string{"out/base.txt", "out/head.txt"} {
		require.Equal(t, 26, r.pairsOf(file, odd))
		for _, name := range []string{"same", "wild", odd + "x"} {
			require.Equal(t, 10, r.pairsOf(file, name), name)
		}
	}
	require.Equal(t, []string{"Of/" + odd}, report.Undecided())
	for _, n := range []int{10, 14, 20} {
		require.Contains(t, stderr.String(), fmt.Sprintf("\n%d pairs: 1 benchmark undecided, and measured on\n", n))
	}
	require.NotContains(t, stderr.String(), "26 pairs:")
}

func TestCountTakesAllOfAll(t *testing.T) {
	r, cfg, stderr := newSamples(t, "wild 100 200 50 150\nsame 7\n", "wild 100 50 200 210 90\nsame 7\n")
	cfg.Count = 12
	report, err := ab.Run(t.Context(), cfg)
	require.NoError(t, err)
	require.NotEmpty(t, report.Undecided())
	require.Equal(t, 12, r.pairsOf("out/base.txt", "wild"))
	require.Equal(t, 12, r.pairsOf("out/head.txt", "same"))
	require.Contains(t, stderr.String(), "expected: 12 pairs, about ")
}

// What the policy says decides, and what is accepted, here or by the commit.
func TestPolicyAndTrailers(t *testing.T) {
	r, cfg, _ := newSamples(t, "slow 100\nworse 100\n", "slow 120\nworse 120\n")
	cfg.Count = 10
	cfg.Policy = &gate.Policy{Accept: []gate.Acceptance{{Unit: "work-sec", Name: "Of/worse", From: "the test"}}}
	judge := func() string {
		report, err := ab.Run(t.Context(), cfg)
		require.NoError(t, err)
		return report.Summary()
	}
	require.Equal(t, "1 regression, 1 accepted, 2 not gated", judge())

	r.git("commit", "--quiet", "-am", "slower\n\nGate-Accept: work-sec:Of/slow it is worth it")
	cfg.Base = "HEAD~1"
	require.Equal(t, "2 accepted, 2 not gated", judge())
	require.Len(t, cfg.Policy.Accept, 1, "the policy was changed")

	// Base's own trailers say nothing about what is new.
	cfg.Base = "HEAD"
	r.values("head", "slow 150\nworse 150\n")
	require.Equal(t, "1 regression, 1 accepted, 2 not gated", judge())

	r.git("commit", "--quiet", "-am", "odd\n\nGate-Accept: nonsense")
	cfg.Base = "HEAD~1"
	_, err := ab.Run(t.Context(), cfg)
	requireCode(t, err, gate.CodeInput)
	require.ErrorContains(t, err, `"nonsense" is nothing to accept`)
}

// clock has time pass by a minute with each sample.
func (r *repo) clock() {
	start := time.Now()
	ab.SetClock(r.t, func() time.Time {
		passed := 0
		for _, side := range []string{"base", "head"} {
			text, _ := os.ReadFile(os.Getenv("AB_TEST_RUNS") + side)
			passed += len(text)
		}
		return start.Add(time.Duration(passed) * time.Minute)
	})
}

func TestBudget(t *testing.T) {
	r, cfg, stderr := newSamples(t, "wild 100 200 50 150\nsame 7\n", "wild 100 50 200 210 90\nsame 7\n")
	r.clock()
	cfg.Budget = 11 * time.Minute
	_, err := ab.Run(t.Context(), cfg)
	requireCode(t, err, gate.CodeNoVerdict)
	require.EqualError(t, err, "no verdict: the budget of 11m0s was over after 6 pairs, and the first look is at 10 (a longer -budget, or fewer benchmarks or iterations)\n"+
		"6 finished pairs kept in "+filepath.Join(r.root, "out")+": -resume goes on")
	require.Contains(t, stderr.String(), "expected: 10 to 26 pairs, about 20m0s to 52m0s; none begins after 11m0s\n")
	require.Equal(t, []string{"ab.log", "unfinished"}, r.out())
	r.requireClean()

	// The same again, and then the verdict of the last look.
	cfg.Resume = true
	stderr.Reset()
	report, err := ab.Run(t.Context(), cfg)
	require.NoError(t, err)
	require.Contains(t, stderr.String(), "resuming after 6 pairs\nexpected: 10 to 26 pairs, about 8m0s to 40m0s; none begins after 11m0s\n")
	require.Contains(t, report.Notes, "the budget of 11m0s was over after 12 pairs: undecided rows are as they were at the look at 10 (-resume goes on)")
	for _, row := range report.Rows {
		require.Equal(t, 10, row.Base.N, row.Name)
	}
	require.Equal(t, 12, r.pairsOf("out/base.txt", "wild"))
	require.Equal(t, 10, r.pairsOf("out/base.txt", "same"))
	require.Equal(t, []string{"ab.log", "base.txt", "head.txt"}, r.out())

	// Finished results can be gone on with too, and stay as they are until the end.
	cfg.Budget = time.Hour
	report, err = ab.Run(t.Context(), cfg)
	require.NoError(t, err)
	require.Equal(t, 26, r.pairsOf("out/head.txt", "wild"))
	require.Equal(t, 10, r.pairsOf("out/head.txt", "same"))
	require.Equal(t, []string{"Of/wild"}, report.Undecided())
	require.Equal(t, []string{"ab.log", "base.txt", "head.txt"}, r.out())

	// And when there is nothing left to do, they are judged again.
	before := r.read("out/base.txt")
	again, err := ab.Run(t.Context(), cfg)
	require.NoError(t, err)
	require.Equal(t, report, again)
	require.Equal(t, before, r.read("out/base.txt"))
}

// interrupter is a terminal that interrupts when it shows a text.
type interrupter struct {
	text   string
	cancel context.CancelCauseFunc
	shown  bytes.Buffer
}

func (i *interrupter) Write(p []byte) (int, error) {
	i.shown.Write(p)
	if strings.Contains(string(p), i.text) {
		i.cancel(errors.New("interrupt signal received"))
	}
	return len(p), nil
}

func TestResume(t *testing.T) {
	r, cfg, stderr := newSamples(t, "slow 100\nsame 7\n", "slow 120\nsame 7\n")
	r.write("out/base.txt", "old base")
	r.write("out/head.txt", "old head")
	interrupt := func(at string) *interrupter {
		t.Helper()
		ctx, cancel := context.WithCancelCause(t.Context())
		screen := &interrupter{text: at, cancel: cancel}
		cfg.Terminal = screen
		_, err := ab.Run(ctx, cfg)
		requireCode(t, err, gate.CodeInput)
		require.ErrorContains(t, err, "interrupt signal received")
		r.requireClean()
		cfg.Terminal = nil
		return screen
	}
	refused := func(want string) {
		t.Helper()
		_, err := ab.Run(t.Context(), cfg)
		requireCode(t, err, gate.CodeInput)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "\n")
	}
	cfg.Resume = true
	refused("cannot resume what is in " + filepath.Join(r.root, "out") + ": base.txt is no result of tokpace ab")
	cfg.Resume = false

	screen := interrupt("pair 4 of 10")
	require.Regexp(t, `\r\x1b\[Kpair 1 of 10, look 1 of 4, done [\d:]{8}, latest [\d:]{8}\r`, screen.shown.String())
	require.True(t, strings.HasSuffix(screen.shown.String(), "\r\x1b[K"), "the line stays")
	require.NotContains(t, stderr.String(), "pair 1")
	require.Equal(t, "old base", r.read("out/base.txt"))
	require.Equal(t, "old head", r.read("out/head.txt"))
	base, head := r.read("out/unfinished/base.txt"), r.read("out/unfinished/head.txt")
	require.True(t, strings.HasSuffix(base, "# tokpace-end 3\n"))

	// Of the fourth pair one side is complete, and the other torn.
	require.True(t, strings.HasSuffix(head, "# tokpace-end 3\n"))
	sample := base[strings.Index(base, "# tokpace-pair 2 BA\n"):strings.Index(base, "# tokpace-pair 3")]
	sample = strings.NewReplacer("pair 2", "pair 4", "end 2", "end 4").Replace(sample)
	r.write("out/unfinished/base.txt", base+sample)
	r.write("out/unfinished/head.txt", head+sample[:len(sample)-2])

	// Another comparison is not mixed in.
	cfg.Resume = true
	for _, tc := range []struct {
		want string
		edit func(*ab.Config)
	}{
		{`it was started with -bench "."`, func(c *ab.Config) { c.Bench = "Of/slow" }},
		{"it was started with -iters 1", func(c *ab.Config) { c.Iters = 2 }},
		{"it was started without -count", func(c *ab.Config) { c.Count = 10 }},
		{"it compares commits", func(c *ab.Config) {
			c.Base, c.BaseTarget, c.HeadTarget = "", "http://127.0.0.1:1", "http://127.0.0.1:2"
		}},
	} {
		whole := cfg
		tc.edit(&cfg)
		refused("cannot resume what is in " + filepath.Join(r.root, "out", "unfinished") + ": " + tc.want + " (start anew without -resume)")
		cfg = whole
	}
	t.Setenv("TOKPACE_SEED", "7")
	refused("TOKPACE_ or OPENAI_ variables were others")
	require.NoError(t, os.Unsetenv("TOKPACE_SEED"))
	r.values("head", "slow 121\nsame 7\n")
	refused("head is other code by now, or other data")
	r.values("head", "slow 120\nsame 7\n")
	commit := r.git("rev-parse", "HEAD")
	r.git("commit", "--quiet", "--allow-empty", "-m", "later")
	refused("its base is " + commit[:12])
	cfg.Base = commit

	// An interrupt once more, and the rest.
	interrupt("pair 6 of 10")
	require.True(t, strings.HasPrefix(r.read("out/unfinished/head.txt"), head))
	stderr.Reset()
	report, err := ab.Run(t.Context(), cfg)
	require.NoError(t, err)
	require.Contains(t, stderr.String(), "resuming after 5 pairs\n")
	require.Contains(t, report.Summary(), "1 regression, ")
	require.Equal(t, []string{"ab.log", "base.txt", "head.txt"}, r.out())
	var marks []string
	for _, m := range regexp.MustCompile(`(?m)^# tokpace-(?:pair|end) .*$`).FindAllString(r.read("out/head.txt"), -1) {
		marks = append(marks, strings.TrimPrefix(m, "# tokpace-"))
	}
	require.Equal(t, "pair 1 AB end 1 pair 2 BA end 2 pair 3 AB end 3 pair 4 BA end 4 pair 5 AB end 5 "+
		"pair 6 BA end 6 pair 7 AB end 7 pair 8 BA end 8 pair 9 AB end 9 pair 10 BA end 10", strings.Join(marks, " "))
	require.Equal(t, 10, r.pairsOf("out/base.txt", "slow"))
	log := r.read("out/ab.log")
	require.Contains(t, log, "== pair 1 AB, base:")
	require.Contains(t, log, "== pair 10 BA, head:")

	// Without Resume, what is unfinished is not mixed in either.
	cfg.Resume = false
	interrupt("pair 3 of 10")
	stderr.Reset()
	interrupt("pair 2 of 10")
	require.Contains(t, stderr.String(), "replacing 2 finished pairs of this comparison, which -resume would keep\n")
	require.NotContains(t, r.read("out/unfinished/base.txt"), "# tokpace-pair 2")
}

func TestIdentical(t *testing.T) {
	r := newRepo(t)
	r.bench(1, "")
	r.write("other/testdata/deep/a", "1")
	r.commit()
	cfg, stdout, stderr := r.config("HEAD")
	cfg.Force, cfg.Count = false, 1
	same := func() bool {
		t.Helper()
		stdout.Reset()
		report, err := ab.Run(t.Context(), cfg)
		require.NoError(t, err)
		if report == nil {
			require.Contains(t, stdout.String(), "in benchtests\n")
			return false
		}
		require.True(t, report.Identical)
		require.Equal(t, gate.CodePass, report.Code())
		require.Empty(t, report.Rows)
		require.NotContains(t, stderr.String(), "expected")
		return true
	}
	require.True(t, same())
	require.NoDirExists(t, filepath.Join(r.root, "out"))
	r.requireClean()

	r.write("other/testdata/deep/a", "2")
	require.False(t, same())
	require.NotContains(t, stderr.String(), "noise")
	r.write("other/testdata/deep/a", "1")
	cfg.Force = true
	require.False(t, same())
	require.Contains(t, stderr.String(), "both sides are the same code: what differs is noise\n")
}

func TestBenchFromHead(t *testing.T) {
	r := newRepo(t)
	r.write("product/product.go", "package product\n\nconst Speed = 1\n")
	bench := func(factor int) {
		r.write("benchtests/bench_test.go", fmt.Sprintf(`package benchtests

import (
	"os"
	"strconv"
	"testing"

	"example.com/m/product"
)

func BenchmarkSpeed(b *testing.B) {
	for b.Loop() {
	}
	text, err := os.ReadFile("testdata/offset")
	if err != nil {
		b.Fatal(err)
	}
	offset, _ := strconv.Atoi(string(text))
	b.ReportMetric(float64(product.Speed*%d+offset), "widgets/op")
}
`, factor))
	}
	bench(10)
	r.write("benchtests/gone_test.go", "package benchtests\n\nimport \"testing\"\n\nfunc BenchmarkGone(b *testing.B) { b.Fatal(1) }\n")
	r.write("benchtests/testdata/offset", "1")
	r.write("benchtests/testdata/gone", "1")
	r.commit()
	r.write("product/product.go", "package product\n\nconst Speed = 2\n")
	bench(100)
	require.NoError(t, os.Remove(filepath.Join(r.root, "benchtests/gone_test.go")))
	require.NoError(t, os.Remove(filepath.Join(r.root, "benchtests/testdata/gone")))
	r.write("benchtests/testdata/offset", "5")
	require.NoError(t, os.Symlink("offset", filepath.Join(r.root, "benchtests/testdata/link")))

	cfg, _, _ := r.config("HEAD")
	cfg.BenchFromHead, cfg.Count = true, 1
	require.NoError(t, run(t.Context(), cfg))
	require.Contains(t, r.read("out/base.txt"), " 105.0 widgets/op")
	require.Contains(t, r.read("out/head.txt"), " 205.0 widgets/op")
	require.NotContains(t, r.read("out/base.txt"), "Gone")
	r.requireClean()

	// A changed benchmark alone is no difference.
	cfg.Force = false
	r.write("product/product.go", "package product\n\nconst Speed = 1\n")
	report, err := ab.Run(t.Context(), cfg)
	require.NoError(t, err)
	require.True(t, report.Identical)

	// Benchmarks that are new measure base too.
	require.NoError(t, os.Rename(filepath.Join(r.root, "benchtests"), filepath.Join(r.root, "young")))
	cfg.Force, cfg.Package = true, "./young"
	require.NoError(t, run(t.Context(), cfg))
	require.Contains(t, r.read("out/base.txt"), " 105.0 widgets/op")
	r.requireClean()
}
