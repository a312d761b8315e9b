package ab_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"example.com/tokpace/pkg/ab"
	"example.com/tokpace/pkg/gate"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// toolVariable turns the test binary into a stand-in for benchstat.
const toolVariable = "AB_TEST_TOOL"

func TestMain(m *testing.M) {
	switch os.Getenv(toolVariable) {
	case "print": // the arguments, and how many lines each file has
		wd, _ := os.Getwd()
		fmt.Println("in", filepath.Base(wd))
		for _, arg := range os.Args[1:] {
			name, path, _ := strings.Cut(arg, "=")
			data, err := os.ReadFile(path)
			fmt.Println(name, filepath.Base(path), bytes.Count(data, []byte("# tokpace-pair")), err)
		}
		os.Exit(0)
	case "serve":
		serve()
	case "fail":
		fmt.Fprintln(os.Stderr, "no statistics today")
		os.Exit(3)
	}
	// The temporary modules need nothing, and nobody's settings may change that.
	for k, v := range map[string]string{
		"GOFLAGS": "-ldflags=-w", "GOWORK": "off", "GOPROXY": "off",
		"GIT_CONFIG_GLOBAL": os.DevNull, "GIT_CONFIG_SYSTEM": os.DevNull,
		"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.com",
		"GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@example.com",
	} {
		if err := os.Setenv(k, v); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m)
}

// run is ab.Run for comparisons without a report.
func run(ctx context.Context, cfg ab.Config) error {
	report, err := ab.Run(ctx, cfg)
	if report != nil {
		err = errors.Join(err, errors.New("there is a report: "+report.Summary()))
	}
	return err
}

// repo is a temporary repository with a module and one package of benchmarks.
type repo struct {
	t    *testing.T
	root string
	tmp  string // where Run makes its temporary files
}

func newRepo(t *testing.T) *repo {
	t.Helper()
	r := &repo{t: t, root: filepath.Join(t.TempDir(), "repo"), tmp: t.TempDir()}
	t.Setenv("TMPDIR", r.tmp)
	t.Setenv("TMP", r.tmp)
	t.Setenv("TEMP", r.tmp)
	r.write("go.mod", "module example.com/m\n\ngo 1.24\n")
	r.write(".gitignore", "/out/\n")
	r.git("init", "--quiet", "--initial-branch=main")
	return r
}

func (r *repo) write(name, text string) {
	r.t.Helper()
	path := filepath.Join(r.root, filepath.FromSlash(name))
	require.NoError(r.t, os.MkdirAll(filepath.Dir(path), 0o777))
	require.NoError(r.t, os.WriteFile(path, []byte(text), 0o666))
}

func (r *repo) git(args ...string) string {
	r.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = r.root
	out, err := cmd.CombinedOutput()
	require.NoError(r.t, err, "git %v: %s", args, out)
	return strings.TrimSpace(string(out))
}

func (r *repo) commit() string {
	r.t.Helper()
	r.git("add", "-A")
	r.git("commit", "--quiet", "-m", "change")
	return r.git("rev-parse", "HEAD")
}

// bench writes the benchmark file: body is what BenchmarkSize does beside
// counting the widgets that testdata tells.
func (r *repo) bench(widgets int, body string) {
	r.t.Helper()
	r.write("benchtests/testdata/widgets", fmt.Sprint(widgets))
	r.write("benchtests/bench_test.go", `package benchtests

import (
	"os"
	"strconv"
	"testing"
)

func BenchmarkSize(b *testing.B) {
	text, err := os.ReadFile("testdata/widgets")
	if err != nil {
		b.Fatal(err)
	}
	widgets, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("kind=a", func(b *testing.B) {
		for b.Loop() {
		}
		`+body+`
		b.ReportMetric(widgets, "widgets/op")
		b.ReportMetric(`+fmt.Sprint(widgets*100)+`, "gadgets/op")
	})
}

func BenchmarkOther(b *testing.B) {
	for b.Loop() {
	}
	println("said on stderr")
}

func TestNeverRun(t *testing.T) { t.Fatal("a test was run") }
`)
}

// config compares with base, with a stand-in for benchstat.
func (r *repo) config(base string) (cfg ab.Config, stdout, stderr *bytes.Buffer) {
	r.t.Helper()
	exe, err := os.Executable()
	require.NoError(r.t, err)
	r.t.Setenv(toolVariable, "print")
	stdout, stderr = new(bytes.Buffer), new(bytes.Buffer)
	return ab.Config{
		Base: base, Dir: r.root, Out: "out", Count: 3, Iters: 7, Benchstat: []string{exe}, Force: true,
		Stdout: stdout, Stderr: stderr,
	}, stdout, stderr
}

// requireClean checks that nothing of a run is left, in git or on disk.
func (r *repo) requireClean() {
	r.t.Helper()
	require.Len(r.t, strings.Split(r.git("worktree", "list"), "\n"), 1)
	require.NoDirExists(r.t, filepath.Join(r.root, ".git", "worktrees", "base"))
	left, err := os.ReadDir(r.tmp)
	require.NoError(r.t, err)
	require.Empty(r.t, left)
	require.Empty(r.t, r.git("stash", "list"))
}

func (r *repo) out() (names []string) {
	r.t.Helper()
	entries, err := os.ReadDir(filepath.Join(r.root, "out"))
	require.NoError(r.t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func (r *repo) read(name string) string {
	r.t.Helper()
	data, err := os.ReadFile(filepath.Join(r.root, filepath.FromSlash(name)))
	require.NoError(r.t, err)
	return string(data)
}

func requireCode(t *testing.T, err error, code int) {
	t.Helper()
	var e *ab.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, code, e.ExitCode(), "%v", err)
	require.Equal(t, code, ab.ExitCode(err))
}

func TestRunComparesTheWorkingTree(t *testing.T) {
	r := newRepo(t)
	r.bench(1, "")
	base := r.commit()
	r.bench(2, "")
	r.commit()
	r.bench(3, "")
	dirty := r.git("status", "--porcelain")
	// A hook that would spoil a checkout, and a variable that hooks get.
	r.write(".git/hooks/post-checkout", "#!/bin/sh\nexit 1\n")
	require.NoError(t, os.Chmod(filepath.Join(r.root, ".git/hooks/post-checkout"), 0o755))
	t.Setenv("GIT_DIR", filepath.Join(r.tmp, "elsewhere"))

	cfg, stdout, stderr := r.config("HEAD~1")
	require.NoError(t, run(t.Context(), cfg))
	require.NoError(t, os.Unsetenv("GIT_DIR"))

	for name, want := range map[string]string{"base": "1.000 widgets/op", "head": "3.000 widgets/op"} {
		text := r.read("out/" + name + ".txt")
		// The marks, each followed by one whole output.
		parts := regexp.MustCompile(`(?m)^# tokpace-pair (.*)\n`).FindAllStringSubmatchIndex(text, -1)
		require.Len(t, parts, 3, text)
		for i, p := range parts {
			require.Equal(t, []string{"1 AB", "2 BA", "3 AB"}[i], text[p[2]:p[3]])
			end := len(text)
			if i+1 < len(parts) {
				end = parts[i+1][0]
			}
			sample, whole := strings.CutSuffix(text[p[1]:end], fmt.Sprintf("# tokpace-end %d\n", i+1))
			require.True(t, whole, text)
			require.Regexp(t, `^goos: `, sample)
			require.Regexp(t, `\nPASS\n$`, sample)
			require.Regexp(t, `(?m)^BenchmarkSize/kind=a\S*\s+7\s`, sample)
			require.Equal(t, 1, strings.Count(sample, "BenchmarkOther"), sample)
			require.Equal(t, 1, strings.Count(sample, " "+want), sample)
			require.NotContains(t, sample, "stderr")
		}
		require.Regexp(t, `^# tokpace-ab \{"mode":"commits".*\n# tokpace-pair`, text)
	}
	require.Contains(t, r.read("out/base.txt"), " 100.0 gadgets/op")
	require.Contains(t, r.read("out/head.txt"), " 300.0 gadgets/op")

	require.Equal(t, "in benchtests\nbase base.txt 3 <nil>\nhead head.txt 3 <nil>\n", stdout.String())
	require.Regexp(t, `^building head and base `+base[:12]+`\nexpected: 3 pairs, about \S+s\n$`, stderr.String())
	require.Equal(t, []string{"ab.log", "base.txt", "head.txt"}, r.out())
	log := r.read("out/ab.log")
	require.Equal(t, 7, strings.Count(log, "said on stderr"), "a trial run and three pairs")
	var titles []string
	for _, m := range regexp.MustCompile(`(?m)^== (pair .*):`).FindAllStringSubmatch(log, -1) {
		titles = append(titles, m[1])
	}
	require.Equal(t, []string{
		"pair 1 AB, base", "pair 1 AB, head", "pair 2 BA, head", "pair 2 BA, base", "pair 3 AB, base", "pair 3 AB, head",
	}, titles)
	require.Equal(t, dirty, r.git("status", "--porcelain"))
	r.requireClean()
}

func TestRunWithBenchstat(t *testing.T) {
	module, err := filepath.Abs("../..")
	require.NoError(t, err)
	r := newRepo(t)
	r.bench(5, "")
	r.commit()
	cfg, stdout, _ := r.config("HEAD")
	t.Setenv("GOFLAGS", "-buildvcs=false")
	cfg.Benchstat = []string{"go", "-C", module, "tool", "benchstat"}
	cfg.Bench = "Size/kind=a"
	cfg.Count = 6
	require.NoError(t, run(t.Context(), cfg))
	require.Regexp(t, `(?m)^Size/kind=a\S*\s+5\.000 ± 0%\s+5\.000 ± 0%\s+~ \(p=1\.000 n=6\)`, stdout.String())
	r.requireClean()
}

func TestRunRefusesBadInput(t *testing.T) {
	r := newRepo(t)
	r.write("other/other_test.go", "package other\n")
	r.write("plain/plain.go", "package plain\n")
	old := r.commit()
	r.bench(1, "")
	r.commit()
	r.write("untracked/x_test.go", "package untracked\n")
	bare := t.TempDir()

	for _, tc := range []struct {
		name string
		edit func(*ab.Config)
		want string
	}{
		{"no ref", func(c *ab.Config) { c.Base = "" }, "no base commit given: say which, as in -base main"},
		{"no benchstat", func(c *ab.Config) { c.Benchstat = ab.DefaultBenchstat() }, "go get -tool golang.org/x/perf/cmd/benchstat"},
		{"unknown ref", func(c *ab.Config) { c.Base = "nowhere" }, `unknown commit "nowhere"`},
		{"option as ref", func(c *ab.Config) { c.Base = "--all" }, `unknown commit "--all"`},
		{"tree as ref", func(c *ab.Config) { c.Base = "HEAD:benchtests" }, `unknown commit "HEAD:benchtests"`},
		{"no repository", func(c *ab.Config) { c.Dir = bare }, " is in no git working tree: git rev-parse: fatal: not a git repository"},
		{"no package", func(c *ab.Config) { c.Package = "./nothing" }, "package ./nothing: go list: "},
		{"many packages", func(c *ab.Config) { c.Package = "./..." }, "package ./... stands for 4 packages, want 1"},
		{"package of the standard library", func(c *ab.Config) { c.Package = "fmt" }, "package fmt is in no git working tree"},
		{"package new since base", func(c *ab.Config) { c.Base = old }, "package ./benchtests does not exist at base " + old},
		{"package not committed", func(c *ab.Config) { c.Package = "./untracked" }, "package ./untracked does not exist at base HEAD"},
		{"package without tests", func(c *ab.Config) { c.Package = "./plain" }, "package ./plain has no test files at base HEAD"},
		{"count", func(c *ab.Config) { c.Count = -1 }, "count is -1, want at least 1"},
		{"iterations", func(c *ab.Config) { c.Iters = -5 }, "iterations are -5, want at least 1"},
		{"timeout", func(c *ab.Config) { c.Timeout = -1 }, "timeout is -1ns, want more than 0"},
		{"pattern", func(c *ab.Config) { c.Bench = "Size/(" }, "bad benchmark pattern: error parsing regexp: missing closing )"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg, stdout, stderr := r.config("HEAD")
			tc.edit(&cfg)
			err := run(t.Context(), cfg)
			requireCode(t, err, gate.CodeInput)
			require.ErrorContains(t, err, tc.want)
			require.NotContains(t, err.Error(), "\n")
			require.Empty(t, stdout.String()+stderr.String(), "it began to build")
			require.NoDirExists(t, filepath.Join(r.root, "out"))
		})
	}

	// These need the binary.
	for _, tc := range []struct{ bench, want string }{
		{"Nothing", `pattern "Nothing" matches no benchmark in head`},
		{"TestNeverRun", `pattern "TestNeverRun" matches no benchmark in head`},
		{"Size/kind=b", "trial run of head: pattern \"Size/kind=b\": no benchmark result was printed"},
	} {
		cfg, stdout, stderr := r.config("HEAD")
		cfg.Bench = tc.bench
		err := run(t.Context(), cfg)
		requireCode(t, err, gate.CodeInput)
		require.ErrorContains(t, err, tc.want)
		require.NotContains(t, stderr.String(), "expected")
		require.Empty(t, stdout.String())
		require.Equal(t, []string{"ab.log"}, r.out())
	}
	r.requireClean()
}

func TestRunKeepsOldResultsOnFailure(t *testing.T) {
	r := newRepo(t)
	r.bench(1, "")
	r.commit()
	r.write("out/base.txt", "old base")
	r.write("out/head.txt", "old head")
	requireOld := func() {
		t.Helper()
		require.Equal(t, []string{"ab.log", "base.txt", "head.txt", "unfinished"}, r.out())
		require.Equal(t, "old base", r.read("out/base.txt"))
		require.Equal(t, "old head", r.read("out/head.txt"))
		r.requireClean()
	}

	// It fails in the middle: the trial run and the first pair are well.
	runs := filepath.Join(t.TempDir(), "runs")
	t.Setenv("AB_TEST_RUNS", runs)
	r.bench(1, `f, _ := os.OpenFile(os.Getenv("AB_TEST_RUNS"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
		f.WriteString("x")
		f.Close()
		if n, _ := os.ReadFile(os.Getenv("AB_TEST_RUNS")); len(n) == 3 {
			println("on stderr")
			b.Fatal("widget is broken")
		}`)
	cfg, stdout, _ := r.config("HEAD")
	cfg.Bench = "Size"
	err := run(t.Context(), cfg)
	requireCode(t, err, gate.CodeInput)
	logPath := filepath.Join(r.root, "out", "ab.log")
	require.ErrorContains(t, err, "pair 2 BA, head: exit status 1\n")
	require.ErrorContains(t, err, "widget is broken")
	require.ErrorContains(t, err, "on stderr")
	require.True(t, strings.HasSuffix(err.Error(), "\nlog: "+logPath+"\n1 finished pair kept in "+filepath.Dir(logPath)+": -resume goes on"), err)
	require.Contains(t, r.read("out/ab.log"), "widget is broken")
	require.Empty(t, stdout.String())
	requireOld()

	// A value that would hang the statistics.
	r.bench(1, `b.ReportMetric(1/float64(b.N-b.N), "odd/op")`)
	err = run(t.Context(), cfg)
	requireCode(t, err, gate.CodeInput)
	require.ErrorContains(t, err, "has the value +Inf for odd/op")
	requireOld()

	// The timeout ends a benchmark that does not.
	r.bench(1, `quiet, _, _ := os.Pipe()
		quiet.Read(make([]byte, 1))`)
	cfg.Timeout = 300 * time.Millisecond
	err = run(t.Context(), cfg)
	requireCode(t, err, gate.CodeInput)
	require.ErrorContains(t, err, "no end within the timeout of 300ms")
	requireOld()

	// head.txt cannot be put in place: the old base.txt comes back.
	r.bench(1, "")
	require.NoError(t, os.Remove(filepath.Join(r.root, "out", "head.txt")))
	require.NoError(t, os.MkdirAll(filepath.Join(r.root, "out", "head.txt", "x"), 0o777))
	old := r.read("out/base.txt")
	cfg.Timeout = ab.DefaultTimeout
	cfg.Count = 1
	t.Setenv("AB_TEST_RUNS", os.DevNull)
	require.ErrorContains(t, run(t.Context(), cfg), "1 finished pair kept in ")
	require.Equal(t, old, r.read("out/base.txt"))
	require.Contains(t, r.read("out/unfinished/base.txt"), "# tokpace-end 1\n")
	require.Contains(t, r.read("out/unfinished/head.txt"), "# tokpace-end 1\n")
	require.NoError(t, os.RemoveAll(filepath.Join(r.root, "out", "head.txt")))
	r.write("out/head.txt", "old head")

	// It does not build.
	r.write("benchtests/bench_test.go", "package benchtests\n\nvar x int = nonsense\n")
	err = run(t.Context(), cfg)
	requireCode(t, err, gate.CodeInput)
	require.ErrorContains(t, err, "building head: exit status 1\n")
	require.ErrorContains(t, err, "undefined: nonsense")
	requireOld()
}

func TestRunKeepsNewResultsWhenBenchstatFails(t *testing.T) {
	r := newRepo(t)
	r.bench(1, "")
	r.commit()
	r.write("out/base.txt", "old base")
	cfg, stdout, _ := r.config("HEAD")
	t.Setenv(toolVariable, "fail")
	cfg.Count = 1
	err := run(t.Context(), cfg)
	requireCode(t, err, gate.CodeInput)
	require.ErrorContains(t, err, "exit status 3\nno statistics today\nthe results are complete: ")
	require.Empty(t, stdout.String())
	require.Contains(t, r.read("out/base.txt"), "# tokpace-pair 1 AB\n")
	require.Contains(t, r.read("out/head.txt"), "# tokpace-pair 1 AB\n")
	r.requireClean()
}

func TestRunCanceledBeforeItBegins(t *testing.T) {
	r := newRepo(t)
	r.bench(1, "")
	r.commit()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("interrupt signal received"))
	cfg, _, _ := r.config("HEAD")
	err := run(ctx, cfg)
	requireCode(t, err, gate.CodeInput)
	require.EqualError(t, err, "interrupt signal received")
	require.NoDirExists(t, filepath.Join(r.root, "out"))
	r.requireClean()
}
