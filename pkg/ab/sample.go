package ab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// side is one of the two things compared.
type side struct {
	name    string // base or head
	dir     string // the package's folder in its tree, where the binary runs
	binary  string
	modules modules
	target  string // URL that the benchmarks get; empty for what the environment says
	server  string // command that starts the server there; may be empty
}

// runner builds and runs sides, and logs what they write to stderr.
type runner struct {
	cfg   Config
	tmp   string // folder for temporary files
	env   []string
	res   *results
	undo  []func() error // what has to be done at the end in any case, in reverse order
	line  bool           // there is a line on the terminal
	trial time.Duration  // how long the trial run took
}

// build compiles s's test binary and fails if the pattern matches none of its
// benchmarks. -trimpath and -buildvcs=false keep folder and commit out of the
// binary, so equal code gives equal ones.
func (r *runner) build(ctx context.Context, s side) error {
	title := "building " + s.name
	args := append([]string{"test", "-c", "-trimpath", "-buildvcs=false"}, s.modules.flags...)
	said, err := r.run(ctx, s.dir, s.modules.env, title, "go", append(args, "-o", s.binary, ".")...)
	if err != nil {
		return r.failure(title, err, said)
	}
	title = "listing benchmarks of " + s.name
	said, err = r.run(ctx, s.dir, nil, title, s.binary, "-test.list", topLevel(r.cfg.Bench))
	if err != nil {
		return r.failure(title, err, said)
	}
	for line := range strings.Lines(said) {
		if strings.HasPrefix(line, "Benchmark") {
			return nil
		}
	}
	return inputError("pattern %q matches no benchmark in %s", r.cfg.Bench, s.name)
}

// sample runs the benchmarks of s that match a pattern once in a process of its
// own, with its server if there is one, and returns what it printed.
func (r *runner) sample(ctx context.Context, s side, pattern, title string) (string, error) {
	if s.server == "" {
		return r.bench(ctx, s, pattern, title)
	}
	srv, err := r.startServer(ctx, s, title)
	if err != nil {
		return "", err
	}
	out, err := r.bench(ctx, s, pattern, title)
	return out, srv.stop(ctx, err)
}

// bench is sample for a server that is there.
func (r *runner) bench(ctx context.Context, s side, pattern, title string) (string, error) {
	// Package testing's own timeout does not cover benchmarks.
	ctx, cancel := context.WithTimeoutCause(ctx, r.cfg.Timeout, fmt.Errorf("no end within the timeout of %v", r.cfg.Timeout))
	defer cancel()
	out, err := r.run(ctx, s.dir, s.targetEnv(), title, s.binary,
		"-test.run", "^$",
		"-test.bench", pattern,
		"-test.benchtime", strconv.Itoa(r.cfg.Iters)+"x",
		"-test.count=1",
		"-test.timeout", r.cfg.Timeout.String())
	if err == nil {
		err = checkOutput(out)
	}
	switch {
	case err == errNoResult:
		return "", r.failure(fmt.Sprintf("%s: pattern %q", title, pattern), err, out)
	case err != nil:
		return "", r.failure(title, err, out)
	}
	return out, nil
}

// targetEnv are the variables that name a target. Who named it to us has agreed
// to load it.
func (s side) targetEnv() []string {
	if s.target == "" {
		return nil
	}
	return []string{"TOKPACE_TARGET=", "TOKPACE_ALLOW_REMOTE=1", "TOKPACE_BASE_URL=" + s.target, "OPENAI_BASE_URL=" + s.target}
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
func (r *runner) run(ctx context.Context, dir string, env []string, title, name string, args ...string) (string, error) {
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
	cmd.Dir, cmd.Env = dir, append(r.env[:len(r.env):len(r.env)], env...)
	cmd.Stdout, cmd.Stderr = streams[0], streams[1]
	err := cmd.Run()
	if ctx.Err() != nil && err != nil {
		err = context.Cause(ctx)
	}
	stdout, readErr := r.read(streams[0].Name())
	stderr, readErr2 := r.read(streams[1].Name())
	if _, logErr := fmt.Fprintf(r.res.log, "== %s: %s %s\n%s", title, filepath.Base(name), strings.Join(args, " "), stderr); err == nil {
		err = errors.Join(readErr, readErr2, logErr)
	}
	if err != nil {
		return stdout + stderr, err
	}
	return stdout, nil
}

// tailLines is how much of a failed child's output its error shows.
const tailLines = 15

// read is the text of a child's output file without secrets.
func (r *runner) read(path string) (string, error) {
	text, err := os.ReadFile(path)
	return r.cfg.Redact(string(text)), err
}

// failure is the error for a child that failed after it said something.
func (r *runner) failure(title string, err error, said string) error {
	fmt.Fprintf(r.res.log, "== %s failed: %v\n%s\n", title, err, said)
	msg := fmt.Sprintf("%s: %v", title, err)
	if tail := lastLines([]byte(said), tailLines); tail != "" {
		msg += "\n" + tail
	}
	return inputError("%s\nlog: %s", msg, r.res.logPath())
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
	r.terminal("")
	if _, err := r.cfg.Stderr.Write(stderr.Bytes()); err != nil {
		return err
	}
	_, err := r.cfg.Stdout.Write(stdout.Bytes())
	return err
}
