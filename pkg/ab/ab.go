// Package ab compares the benchmarks of two commits: it builds the base commit
// and the working tree, runs the two test binaries in turn, and hands both
// outputs to benchstat. `tokpace ab` is a thin shell around it; it knows
// nothing of servers or metrics, only of test binaries that print the standard
// benchmark format.
//
//	err := ab.Run(ctx, ab.Config{
//		Base:   "origin/main",
//		Bench:  "Chat|Embeddings",
//		Count:  10,
//		Iters:  16,
//		Stdout: os.Stdout, // benchstat's table
//		Stderr: os.Stderr, // what happens and how long it will take
//	})
//	os.Exit(ab.ExitCode(err))
//
// Head is the working tree as it stands, with all changes that are not
// committed; base is a worktree in a temporary folder. Samples alternate as
// AB BA AB … (A is base, B is head), one process each, because a machine's
// speed drifts: blocks of samples would show the drift as a difference.
//
// The results are two files, base.txt and head.txt. Before each process's
// output stands a comment line that tools for the format skip:
//
//	# tokpace-pair 7 BA
//
// It gives the number of the pair, from 1, and the order within it, so that
// samples can be compared pair by pair.
//
// Either both files are complete and new, or neither is touched. Everything
// else (worktree, binaries, temporary files, child processes) is gone when Run
// returns, also when its context ends in the middle.
package ab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Defaults for the zero values of [Config].
const (
	DefaultPackage = "./benchtests"
	DefaultBench   = "."
	DefaultOut     = "bench-out"
	DefaultCount   = 10
	DefaultIters   = 16
	DefaultTimeout = 10 * time.Minute
)

// Config says what to compare. Only Base has no default.
type Config struct {
	// Base is the commit to compare with, in any form git understands.
	Base string

	// Dir is a folder inside the working tree; Package and Out are relative to
	// it. Empty means the current folder.
	Dir string

	// Package is the one package with the benchmarks, as the go command takes it.
	Package string

	// Bench selects benchmarks as go test's -bench does.
	Bench string

	// Count is the number of pairs, that is of samples for each side.
	Count int

	// Iters is the fixed number of iterations of each benchmark in a sample
	// (-benchtime=Nx), the same on both sides.
	Iters int

	// Timeout is the longest time for one sample's process.
	Timeout time.Duration

	// Out is the folder for base.txt and head.txt, and for ab.log: what the
	// children wrote to stderr, also of a run that failed.
	Out string

	// Benchstat is the command that gets base=FILE and head=FILE as further
	// arguments and runs in the package's folder of the working tree. Nil means
	// `go tool benchstat -ignore pkg`.
	Benchstat []string

	// Stdout gets benchstat's output, Stderr the progress. Nil discards.
	Stdout, Stderr io.Writer
}

func (c Config) withDefaults() Config {
	c.Package = cmp.Or(c.Package, DefaultPackage)
	c.Bench = cmp.Or(c.Bench, DefaultBench)
	c.Out = cmp.Or(c.Out, DefaultOut)
	c.Count = cmp.Or(c.Count, DefaultCount)
	c.Iters = cmp.Or(c.Iters, DefaultIters)
	c.Timeout = cmp.Or(c.Timeout, DefaultTimeout)
	if c.Benchstat == nil {
		c.Benchstat = defaultBenchstat
	}
	if c.Stdout == nil {
		c.Stdout = io.Discard
	}
	if c.Stderr == nil {
		c.Stderr = io.Discard
	}
	return c
}

// A renamed module is still the same benchmarks, hence -ignore.
var defaultBenchstat = []string{"go", "tool", "benchstat", "-ignore", "pkg"}

// check finds what is wrong without looking at any tree.
func (c Config) check() error {
	switch {
	case c.Base == "":
		return inputError("no base commit given: say which, as in -base main")
	case c.Count < 1:
		return inputError("count is %d, want at least 1", c.Count)
	case c.Iters < 1:
		return inputError("iterations are %d, want at least 1", c.Iters)
	case c.Timeout < 0:
		return inputError("timeout is %v, want more than 0", c.Timeout)
	}
	if err := checkPattern(c.Bench); err != nil {
		return inputError("bad benchmark pattern: %v", err)
	}
	return nil
}

// Run does the whole comparison. Its error, if any, is an *[Error].
func Run(ctx context.Context, cfg Config) error {
	cfg = cfg.withDefaults()
	var undo []func() error
	err := cfg.check()
	if err == nil {
		err = compare(ctx, cfg, &undo)
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx) // whatever failed, failed because of this
	}
	for _, f := range slices.Backward(undo) {
		err = errors.Join(err, f())
	}
	if err == nil {
		return nil
	}
	return &Error{Code: ExitCode(err), Err: err}
}

// compare is Run for a checked cfg. What it makes and has to be removed at the
// end, in any case and in reverse order, it adds to undo.
func compare(ctx context.Context, cfg Config, undo *[]func() error) error {
	src, err := locate(ctx, cfg)
	if err != nil {
		return err
	}
	if slices.Equal(cfg.Benchstat, defaultBenchstat) {
		if _, err := output(ctx, src.pkgDir, "go", "tool", "-n", "benchstat"); err != nil && ctx.Err() == nil {
			return inputError("this module has no benchstat: go get -tool golang.org/x/perf/cmd/benchstat adds it")
		}
	}
	tmp, err := os.MkdirTemp("", "tokpace-ab-")
	if err != nil {
		return err
	}
	*undo = append(*undo, func() error { return removeAll(tmp) })
	res, err := createResults(src.out)
	if err != nil {
		return err
	}
	*undo = append(*undo, res.discard)

	r := &runner{cfg: cfg, tmp: tmp, env: childEnv(tmp), log: res.log, logPath: res.logPath()}
	if err := measure(ctx, r, src, res, undo); err != nil {
		if ctx.Err() == nil {
			err = errors.Join(err, res.keepLog())
		}
		return err
	}
	if err := res.commit(); err != nil {
		return err
	}
	return r.benchstat(ctx, src.pkgDir, res.basePath(), res.headPath())
}

// measure builds both sides and takes all samples.
func measure(ctx context.Context, r *runner, src *source, res *results, undo *[]func() error) error {
	fmt.Fprintf(r.cfg.Stderr, "building head and base %.12s\n", src.base)
	head := side{name: "head", dir: src.pkgDir, binary: filepath.Join(r.tmp, binaryName("head"))}
	if err := r.build(ctx, head); err != nil {
		return err
	}

	tree := filepath.Join(r.tmp, "base")
	if err := src.addWorktree(tree); err != nil {
		return err
	}
	*undo = append(*undo, func() error { return src.removeWorktree(tree) })
	base := side{
		name:   "base",
		dir:    filepath.Join(tree, filepath.FromSlash(src.rel)),
		binary: filepath.Join(r.tmp, binaryName("base")),
	}
	if err := r.build(ctx, base); err != nil {
		return err
	}

	if same, err := sameContent(base.binary, head.binary); err != nil {
		return err
	} else if same {
		fmt.Fprintln(r.cfg.Stderr, "both sides are the same code: what differs is noise")
	}

	if err := r.estimate(ctx, head); err != nil {
		return err
	}
	return r.pairs(ctx, base, head, res)
}
