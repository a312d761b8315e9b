package ab

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// side is one of the two things compared.
type side struct {
	name   string // base or head
	dir    string // the package's folder in its tree, where the binary runs
	binary string
}

// runner builds and runs sides, and logs what they write to stderr.
type runner struct {
	cfg     Config
	tmp     string // folder for temporary files
	env     []string
	log     io.Writer
	logPath string // where the log will be found after a failure
}

// build compiles s's test binary and fails if the pattern matches none of its
// benchmarks. -trimpath and -buildvcs=false keep folder and commit out of the
// binary, so equal code gives equal ones.
func (r *runner) build(ctx context.Context, s side) error {
	title := "building " + s.name
	said, err := r.run(ctx, s.dir, title, "go",
		"test", "-c", "-trimpath", "-buildvcs=false", "-o", s.binary, ".")
	if err != nil {
		return r.failure(CodeInput, title, err, said)
	}
	title = "listing benchmarks of " + s.name
	said, err = r.run(ctx, s.dir, title, s.binary, "-test.list", topLevel(r.cfg.Bench))
	if err != nil {
		return r.failure(CodeInput, title, err, said)
	}
	for line := range strings.Lines(said) {
		if strings.HasPrefix(line, "Benchmark") {
			return nil
		}
	}
	return inputError("pattern %q matches no benchmark in %s", r.cfg.Bench, s.name)
}

// estimate runs s once, unrecorded, and says how long all pairs will take. The
// run also warms up what only the first process pays for.
func (r *runner) estimate(ctx context.Context, s side) error {
	start := time.Now()
	if _, err := r.sample(ctx, s, "trial run of "+s.name); err != nil {
		return err
	}
	total := 2 * time.Duration(r.cfg.Count) * time.Since(start)
	noun := "pairs"
	if r.cfg.Count == 1 {
		noun = "pair"
	}
	fmt.Fprintf(r.cfg.Stderr, "expected: %d %s, about %v\n", r.cfg.Count, noun, roughly(total))
	return nil
}

// roughly rounds a duration to what an estimate is good for.
func roughly(d time.Duration) time.Duration {
	if d < 10*time.Second {
		return max(d.Round(100*time.Millisecond), 100*time.Millisecond)
	}
	return d.Round(time.Second)
}

// sameContent reports whether two files hold the same bytes.
func sameContent(a, b string) (bool, error) {
	var sums [2][sha256.Size]byte
	for i, name := range []string{a, b} {
		data, err := os.ReadFile(name)
		if err != nil {
			return false, err
		}
		sums[i] = sha256.Sum256(data)
	}
	return sums[0] == sums[1], nil
}

// pairs takes all samples, in the order AB BA AB …, and writes them to res.
func (r *runner) pairs(ctx context.Context, base, head side, res *results) error {
	start := time.Now()
	for pair := 1; pair <= r.cfg.Count; pair++ {
		if pair > 1 {
			fmt.Fprintf(r.cfg.Stderr, "pair %d of %d, %v so far\n", pair, r.cfg.Count, roughly(time.Since(start)))
		}
		order, sides := "AB", []side{base, head}
		if pair%2 == 0 {
			order, sides = "BA", []side{head, base}
		}
		for _, s := range sides {
			out, err := r.sample(ctx, s, fmt.Sprintf("pair %d %s, %s", pair, order, s.name))
			if err != nil {
				return err
			}
			w := res.base
			if s.name == head.name {
				w = res.head
			}
			if !strings.HasSuffix(out, "\n") {
				out += "\n"
			}
			if _, err := fmt.Fprintf(w, "# tokpace-pair %d %s\n%s", pair, order, out); err != nil {
				return err
			}
		}
	}
	return nil
}

// sample runs s's benchmarks once in a process of its own and returns what it
// printed.
func (r *runner) sample(ctx context.Context, s side, title string) (string, error) {
	// Package testing's own timeout does not cover benchmarks.
	ctx, cancel := context.WithTimeoutCause(ctx, r.cfg.Timeout, fmt.Errorf("no end within the timeout of %v", r.cfg.Timeout))
	defer cancel()
	out, err := r.run(ctx, s.dir, title, s.binary,
		"-test.run", "^$",
		"-test.bench", r.cfg.Bench,
		"-test.benchtime", strconv.Itoa(r.cfg.Iters)+"x",
		"-test.count=1",
		"-test.timeout", r.cfg.Timeout.String())
	if err == nil {
		err = checkOutput(out)
	}
	switch {
	case err == errNoResult:
		return "", r.failure(CodeInput, fmt.Sprintf("%s: pattern %q", title, r.cfg.Bench), err, out)
	case err != nil:
		return "", r.failure(CodeBenchmark, title, err, out)
	}
	return out, nil
}

// errNoResult is for a process that succeeded: levels of the pattern below the
// first matched nothing, or all was skipped.
var errNoResult = errors.New("no benchmark result was printed")

// checkOutput fails for output that would drop out of a comparison, or hang it:
// without any result, or with a value that is no finite number.
func checkOutput(out string) error {
	results := 0
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		if len(f) < 4 || !strings.HasPrefix(line, "Benchmark") {
			continue
		}
		if _, err := strconv.Atoi(f[1]); err != nil {
			continue
		}
		results++
		for i := 2; i+1 < len(f); i += 2 {
			v, err := strconv.ParseFloat(f[i], 64)
			if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
				return fmt.Errorf("%s has the value %s for %s", f[0], f[i], f[i+1])
			}
		}
	}
	if results == 0 {
		return errNoResult
	}
	return nil
}

// run starts a child, waits for its end and returns its stdout. Both its
// outputs go through files, so that a descendant that lives on holds nothing
// up; stderr is then added to the log.
func (r *runner) run(ctx context.Context, dir, title, name string, args ...string) (string, error) {
	var streams [2]*os.File
	for i := range streams {
		f, err := os.CreateTemp(r.tmp, "output-")
		if err != nil {
			return "", err
		}
		defer os.Remove(f.Name())
		defer f.Close()
		streams[i] = f
	}
	cmd := command(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, r.env
	cmd.Stdout, cmd.Stderr = streams[0], streams[1]
	err := cmd.Run()
	if ctx.Err() != nil && err != nil {
		err = context.Cause(ctx)
	}
	stdout, readErr := os.ReadFile(streams[0].Name())
	stderr, readErr2 := os.ReadFile(streams[1].Name())
	if _, logErr := fmt.Fprintf(r.log, "== %s: %s %s\n%s", title, filepath.Base(name), strings.Join(args, " "), stderr); err == nil {
		err = errors.Join(readErr, readErr2, logErr)
	}
	if err != nil {
		return string(stdout) + string(stderr), err
	}
	return string(stdout), nil
}

// tailLines is how much of a failed child's output its error shows.
const tailLines = 15

// failure is the error for a child that failed after it said something.
func (r *runner) failure(code int, title string, err error, said string) error {
	fmt.Fprintf(r.log, "== %s failed: %v\n%s\n", title, err, said)
	msg := fmt.Sprintf("%s: %v", title, err)
	if tail := lastLines([]byte(said), tailLines); tail != "" {
		msg += "\n" + tail
	}
	return &Error{Code: code, Err: fmt.Errorf("%s\nlog: %s", msg, r.logPath)}
}

// benchstat prints the comparison of the two files.
func (r *runner) benchstat(ctx context.Context, dir, base, head string) error {
	var stdout, stderr bytes.Buffer
	argv := append(r.cfg.Benchstat[:len(r.cfg.Benchstat):len(r.cfg.Benchstat)], "base="+base, "head="+head)
	cmd := command(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = dir, r.env
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return inputError("%s: %v\n%s\nthe results are complete: %s, %s",
			strings.Join(r.cfg.Benchstat, " "), err, lastLines(stderr.Bytes(), tailLines), base, head)
	}
	if _, err := r.cfg.Stderr.Write(stderr.Bytes()); err != nil {
		return err
	}
	_, err := r.cfg.Stdout.Write(stdout.Bytes())
	return err
}
