// Package ab measures two sides in turn and has package gate judge them while it
// does: the benchmarks of two commits, the same benchmarks against two servers,
// or against the servers that two commands start. `tokpace ab` is a thin shell
// around it; it knows nothing of metrics, only of test binaries that print the
// standard benchmark format.
//
//	report, err := ab.Run(ctx, ab.Config{
//		Base:   "origin/main",
//		Bench:  "Chat|Embeddings",
//		Iters:  16,
//		Stderr: os.Stderr, // what happens and how long it will take
//	})
//	if err != nil {
//		log.Print(err)
//		os.Exit(ab.ExitCode(err))
//	}
//	report.WriteText(os.Stdout)
//	os.Exit(report.Code())
//
// Of two commits, head is the working tree as it stands, with all changes that
// are not committed; base is a worktree in a temporary folder. Samples alternate
// as AB BA AB … (A is base, B is head), one process each, because a machine's
// speed drifts: blocks of samples would show the drift as a difference. The
// numbers of pairs of [gate.Looks] are looks: the results so far are judged, and
// only benchmarks with undecided rows run on, until none is left or the time is
// over.
//
// The results are two files, base.txt and head.txt. Before each process's output
// stands a comment line that tools for the format skip:
//
//	# tokpace-pair 7 BA
//
// It gives the number of the pair, from 1, and the order within it; `tokpace
// gate` and package gate compare pair by pair because of it.
//
// # What stays on disk
//
// Each finished pair is on disk before the next begins, in base.txt and head.txt
// of the folder "unfinished" below the output folder. With a verdict the two
// move up in place of older results: outside of that folder, both files are
// complete and new, or neither is touched. An interrupt and an error leave the
// finished pairs there, and Config.Resume goes on with them: if both sides still
// are the same code and are measured in the same way, else it refuses. A pair
// that was torn by the end of the machine is cut off. Without Resume they are
// replaced by those of the new comparison.
//
// A failed run is an error with its log, never a sample less. Everything else
// (worktree, binaries, temporary files, child processes) is gone
// when Run returns, also when its context ends in the middle.
//
// # Servers
//
// Two targets and two server commands need no repository. A command is started
// for each sample and awaited, and stopped with all the processes of its group: so
// one GPU suffices, but each sample pays for a cold start, and a budget has to
// allow for that.
//
// # Bisecting
//
// The working tree of each step is head, and base a commit that was good:
//
//	go build -o /tmp/tokpace ./pkg/cmd/tokpace
//	git bisect start HEAD v1.0
//	git bisect run /tmp/tokpace ab -bisect -base v1.0 -bench Images
//
// # Same code
//
// Where the two commits give the same, nothing is measured and the report says
// that they are identical: the same test
// binary, the same files other than Go code in the package's folder and below,
// and the same in every folder called testdata of the repository. Files that
// git ignores count too. What a benchmark reads elsewhere is not looked at;
// Config.Force measures all the same.
package ab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"example.com/tokpace/pkg/gate"
)

// Defaults for the zero values of [Config].
const (
	DefaultPackage    = "./benchtests"
	DefaultBench      = "."
	DefaultOut        = "bench-out"
	DefaultIters      = 16
	DefaultTimeout    = 10 * time.Minute
	DefaultBudget     = 10 * time.Minute
	DefaultServerURL  = "http://127.0.0.1:8000"
	DefaultServerWait = 10 * time.Minute
)

// DefaultBenchstat is for [Config].Benchstat. A renamed module is still the same
// benchmarks, hence -ignore.
func DefaultBenchstat() []string { return []string{"go", "tool", "benchstat", "-ignore", "pkg"} }

// Config says what to compare: Base, or both targets, or both servers. Nothing
// else has to be set.
type Config struct {
	// Base is the commit to compare with, in any form git understands.
	Base string

	// BenchFromHead measures both commits with head's benchmarks: the _test.go
	// files and the testdata folder of its package replace those of base.
	BenchFromHead bool

	// BaseTarget and HeadTarget are URLs of two servers, which the benchmarks of
	// the working tree get as TOKPACE_BASE_URL and OPENAI_BASE_URL. To name a
	// server here is consent to load it, also on another machine.
	BaseTarget, HeadTarget string

	// BaseServer and HeadServer are commands for the shell that start a server
	// at ServerURL. For each sample one is started in Dir, awaited for at most
	// ServerWait, measured by the benchmarks of the working tree, and stopped.
	BaseServer, HeadServer string
	ServerURL              string
	ServerWait             time.Duration

	// Dir is a folder inside the working tree; Package and Out are relative to
	// it. Empty means the current folder.
	Dir string

	// Package is the one package with the benchmarks, as the go command takes it.
	Package string

	// Bench selects benchmarks as go test's -bench does.
	Bench string

	// Count is an exact number of pairs, all of all benchmarks, judged when all
	// are there. 0 takes as many as the verdicts need, see [gate.Looks].
	Count int

	// Budget is the time after which no new pair begins where Count is 0: the
	// last look then decides.
	Budget time.Duration

	// Iters is the fixed number of iterations of each benchmark in a sample
	// (-benchtime=Nx), the same on both sides.
	Iters int

	// Timeout is the longest time for one sample's process.
	Timeout time.Duration

	// Force measures two sides that are the same code.
	Force bool

	// Resume goes on with the pairs that an earlier Run left in Out.
	Resume bool

	// Out is the folder for base.txt and head.txt, and for ab.log: what the
	// children wrote to stderr, also of a run that failed.
	Out string

	// Policy is how rows are judged; nil means the defaults. Of two commits,
	// what the trailers of the commit HEAD accept is added, unless that is base.
	Policy *gate.Policy

	// Benchstat, if not nil, is a command that compares instead of package gate.
	// It gets base=FILE and head=FILE as further arguments and runs in the
	// package's folder of the working tree; Count has to be given.
	Benchstat []string

	// Redact, if not nil, takes secrets out of what children print before it is
	// shown or kept.
	Redact func(string) string

	// Stdout gets benchstat's output; Stderr what happens; Terminal a line that is
	// rewritten as pairs go by, and is meant for a terminal. Nil discards.
	Stdout, Stderr, Terminal io.Writer
}

func (c Config) withDefaults() Config {
	c.Package = cmp.Or(c.Package, DefaultPackage)
	c.Bench = cmp.Or(c.Bench, DefaultBench)
	c.Out = cmp.Or(c.Out, DefaultOut)
	c.Iters = cmp.Or(c.Iters, DefaultIters)
	c.Timeout = cmp.Or(c.Timeout, DefaultTimeout)
	c.Budget = cmp.Or(c.Budget, DefaultBudget)
	c.ServerURL = cmp.Or(c.ServerURL, DefaultServerURL)
	c.ServerWait = cmp.Or(c.ServerWait, DefaultServerWait)
	if c.Policy == nil {
		c.Policy = &gate.Policy{}
	}
	if c.Redact == nil {
		c.Redact = func(s string) string { return s }
	}
	for _, w := range []*io.Writer{&c.Stdout, &c.Stderr, &c.Terminal} {
		if *w == nil {
			*w = io.Discard
		}
	}
	return c
}

// mode is what the two sides are.
type mode string

const (
	commits mode = "commits"
	targets mode = "targets"
	servers mode = "servers"
)

func (c Config) mode() mode {
	switch {
	case c.BaseTarget+c.HeadTarget != "":
		return targets
	case c.BaseServer+c.HeadServer != "":
		return servers
	}
	return commits
}

// check finds what is wrong without looking at any tree.
func (c Config) check() error {
	m := c.mode()
	kinds := 0
	for _, given := range []string{c.Base, c.BaseTarget + c.HeadTarget, c.BaseServer + c.HeadServer} {
		if given != "" {
			kinds++
		}
	}
	switch {
	case kinds == 0:
		return inputError("no base commit given: say which, as in -base main")
	case kinds > 1:
		return inputError("give a base commit, or two targets, or two servers: not several of them")
	case m == targets && (c.BaseTarget == "" || c.HeadTarget == ""):
		return inputError("give both -base-target and -head-target")
	case m == servers && (strings.TrimSpace(c.BaseServer) == "" || strings.TrimSpace(c.HeadServer) == ""):
		return inputError("give both -base-server and -head-server")
	case m != commits && c.BenchFromHead:
		return inputError("-bench-from is for the comparison of commits: servers are measured by the working tree's benchmarks alone")
	case c.Count < 0:
		return inputError("count is %d, want at least 1", c.Count)
	case c.Benchstat != nil && c.Count == 0:
		return inputError("benchstat compares a fixed number of pairs: say how many, as in -count 10")
	case c.Iters < 1:
		return inputError("iterations are %d, want at least 1", c.Iters)
	case c.Timeout < 0:
		return inputError("timeout is %v, want more than 0", c.Timeout)
	case c.Budget < 0:
		return inputError("budget is %v, want more than 0", c.Budget)
	case c.ServerWait < 0:
		return inputError("the time to wait for a server is %v, want more than 0", c.ServerWait)
	}
	if err := checkPattern(c.Bench); err != nil {
		return inputError("bad benchmark pattern: %v", err)
	}
	addresses := map[string]string{"base-target": c.BaseTarget, "head-target": c.HeadTarget}
	if m == servers {
		addresses = map[string]string{"server-url": c.ServerURL}
	}
	for name, address := range addresses {
		u, err := url.Parse(address)
		if m != commits && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
			return inputError("-%s is no address: give it as in http://127.0.0.1:8000/v1", name) // it may hold a password
		}
		if m == servers && u.Host == "unix:" {
			return inputError("-server-url is a Unix socket: servers that are started here are awaited over TCP only")
		}
	}
	return nil
}

// Run does the whole comparison. The report is nil if there is an error, and
// without one if benchstat compared the sides. The error, if any, is an *[Error].
func Run(ctx context.Context, cfg Config) (*gate.Report, error) {
	r := &runner{cfg: cfg.withDefaults()}
	err := r.cfg.check()
	var report *gate.Report
	if err == nil {
		report, err = r.compare(ctx)
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx) // whatever failed, failed because of this
	}
	r.terminal("")
	if err != nil && r.res != nil && r.res.len() > 0 && !r.res.committed {
		err = fmt.Errorf("%w\n%s kept in %s: -resume goes on", err, count(r.res.len(), "finished pair"), r.res.dir)
	}
	for _, f := range slices.Backward(r.undo) {
		err = errors.Join(err, f())
	}
	if err != nil {
		return nil, &Error{Code: ExitCode(err), Err: err}
	}
	return report, nil
}

// compare is Run for a checked configuration.
func (r *runner) compare(ctx context.Context) (*gate.Report, error) {
	src, err := locate(ctx, r.cfg)
	if err != nil {
		return nil, err
	}
	if slices.Equal(r.cfg.Benchstat, DefaultBenchstat()) {
		if _, err := output(ctx, src.pkgDir, "go", "tool", "-n", "benchstat"); err != nil && ctx.Err() == nil {
			return nil, inputError("this module has no benchstat: go get -tool golang.org/x/perf/cmd/benchstat adds it")
		}
	}
	if r.cfg.mode() == commits && r.cfg.Benchstat == nil {
		if r.cfg.Policy, err = withTrailers(ctx, src, r.cfg.Policy); err != nil {
			return nil, err
		}
	}
	if r.cfg.Resume && !resumable(src.out) {
		return nil, inputError("nothing to resume in %s", src.out)
	}
	if r.tmp, err = os.MkdirTemp("", "tokpace-ab-"); err != nil {
		return nil, err
	}
	r.undo = append(r.undo, func() error { return removeAll(r.tmp) })
	r.env = childEnv(r.tmp)
	if r.res, err = openResults(src.out, r.cfg.Resume); err != nil {
		return nil, err
	}
	r.undo = append(r.undo, r.res.discard)

	report, same, err := r.measure(ctx, src)
	switch {
	case err != nil:
		if ctx.Err() == nil || r.res.len() > 0 {
			err = errors.Join(err, r.res.keepLog())
		}
		return nil, err
	case same:
		return &gate.Report{Identical: true, Notes: []string{
			"both sides are the same test binary and the same data: there was nothing to measure (-force measures them)"}}, nil
	}
	if err := r.res.commit(); err != nil {
		return nil, err
	}
	if r.cfg.Benchstat != nil {
		return nil, r.benchstat(ctx, src.pkgDir, r.res.basePath(), r.res.headPath())
	}
	return report, nil
}

// measure builds what is needed and takes and judges all samples; or it finds
// that both sides are the same.
func (r *runner) measure(ctx context.Context, src *source) (report *gate.Report, same bool, err error) {
	id := r.subject(src)
	if r.cfg.Resume {
		if err := r.res.resume(id); err != nil {
			return nil, false, err
		}
	}
	if r.cfg.Count > 0 && r.res.len() > r.cfg.Count {
		return nil, false, inputError("there are %d pairs already, more than -count %d", r.res.len(), r.cfg.Count)
	}
	var base, head side
	if r.cfg.mode() == commits {
		base, head, err = r.buildCommits(ctx, src, &id)
	} else {
		base, head, err = r.buildWorkingTree(ctx, src, &id)
	}
	if err != nil {
		return nil, false, err
	}
	if r.cfg.mode() == commits && id.Base == id.Head {
		if !r.cfg.Force {
			return nil, true, nil
		}
		r.say("both sides are the same code: what differs is noise")
	}
	if r.cfg.Resume {
		if err := r.res.resume(id); err != nil {
			return nil, false, err
		}
		r.say("resuming after %s", count(r.res.len(), "pair"))
	} else if what := r.res.replaced(id); what != "" {
		r.say("replacing %s", what)
	}
	r.res.id = id
	report, err = r.take(ctx, base, head)
	return report, false, err
}

// buildCommits builds a binary for each side, base's in a worktree.
func (r *runner) buildCommits(ctx context.Context, src *source, id *subject) (base, head side, err error) {
	r.say("building head and base %.12s", src.base)
	head = side{name: "head", dir: src.pkgDir, binary: filepath.Join(r.tmp, binaryName("head"))}
	if head.modules, err = r.outside(ctx, src, src.top, "head"); err != nil {
		return base, head, err
	}
	if err := r.build(ctx, head); err != nil {
		return base, head, err
	}

	tree := filepath.Join(r.tmp, "base")
	if err := src.addWorktree(tree); err != nil {
		return base, head, err
	}
	r.undo = append(r.undo, func() error { return src.removeWorktree(tree) })
	base = side{
		name:   "base",
		dir:    filepath.Join(tree, filepath.FromSlash(src.rel)),
		binary: filepath.Join(r.tmp, binaryName("base")),
	}
	if r.cfg.BenchFromHead {
		if err := overlay(base.dir, head.dir); err != nil {
			return base, head, err
		}
	}
	if base.modules, err = r.outside(ctx, src, tree, "base"); err != nil {
		return base, head, err
	}
	if err := r.build(ctx, base); err != nil {
		return base, head, err
	}
	if id.Head, err = content(head.binary, src.top, src.rel, src.out); err != nil {
		return base, head, err
	}
	id.Base, err = content(base.binary, tree, src.rel, src.out)
	return base, head, err
}

// buildWorkingTree builds the one binary that measures two servers.
func (r *runner) buildWorkingTree(ctx context.Context, src *source, id *subject) (base, head side, err error) {
	r.say("building the benchmarks of the working tree")
	both := side{name: "the working tree", dir: src.pkgDir, binary: filepath.Join(r.tmp, binaryName("both"))}
	if err := r.build(ctx, both); err != nil {
		return base, head, err
	}
	if id.Head, err = content(both.binary, src.pkgDir, "", src.out); err != nil {
		return base, head, err
	}
	base, head = both, both
	base.name, head.name = "base", "head"
	base.target, head.target = r.cfg.BaseTarget, r.cfg.HeadTarget
	if r.cfg.mode() == servers {
		base.target, head.target = r.cfg.ServerURL, r.cfg.ServerURL
		base.server, head.server = r.cfg.BaseServer, r.cfg.HeadServer
	}
	return base, head, nil
}
