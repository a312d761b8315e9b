package harness

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"example.com/tokpace/pkg/client"
	"example.com/tokpace/pkg/metric"
)

// Exit codes of Main beside those of testing.
const (
	exitUsage     = 2
	exitInterrupt = 1
)

const usageLine = "usage: go test -bench PATTERN [-benchtime 1s|Nx]; settings are TOKPACE_… variables (-help lists them)"

// Main is the body of a TestMain. It reads the settings, and when benchmarks
// are asked for, checks before the first one that the pattern matches one and
// that the target answers, prints what benchstat must know of the units, and
// stops cleanly on an interrupt. It exits with 2 after one line on stderr when
// something is wrong, else with the code of m.Run.
func Main(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if code, done := parseFlags(); done {
		return code
	}
	set, err := environSettings()
	if err != nil {
		return complain(err)
	}
	process.Lock()
	process.settings = set
	process.Unlock()
	pattern := flagValue("test.bench")
	if pattern == "" || flagValue("test.list") != "" {
		return m.Run()
	}
	defer closeServers()
	if err := checkPattern(m, pattern); err != nil {
		return complain(err)
	}
	if n := requestLimit(); n > maxRequests {
		return complain(fmt.Errorf("-benchtime=%dx: a run has at most %d requests", n, maxRequests))
	}
	if name := set.shaping(); name != "" {
		if err := checkPattern(m, pattern, serveName); err != nil {
			return complain(fmt.Errorf("%s is a setting of %s alone, which -bench %q does not run", name, serveName, pattern))
		}
		if err := set.shape.checkCount(requestLimit()); err != nil {
			return complain(err)
		}
	}
	if _, err := set.openRecords(); err != nil {
		return complain(err)
	}
	ctx, stop := watchInterrupts()
	defer stop()
	process.Lock()
	process.ctx = ctx
	if !set.noProgress {
		process.terminal = openTerminal()
	}
	process.Unlock()
	s, _, err := find(ctx, Target{})
	if err != nil {
		return complain(err)
	}
	if err := s.checkShape(&set.shape); err != nil {
		return complain(err)
	}
	printHeader(os.Stdout, s)
	process.Lock()
	process.exact = s.fake()
	process.Unlock()
	code := m.Run()
	process.Lock()
	ran := process.ran
	process.Unlock()
	fmt.Print(invalidComments())
	switch {
	case ctx.Err() != nil:
		fmt.Print(comments())
		return max(code, exitInterrupt)
	case code == 0 && !ran && strings.Contains(pattern, "/"):
		// Without a second level a benchmark that is not ours may have run.
		return complain(fmt.Errorf("-bench %q matches no benchmark: there is one of that name, but none below it", pattern))
	}
	return code
}

// maxRequests is far beyond what a run keeps in memory. A run that ends by its
// own limits still has to count up to N.
const maxRequests = 100_000_000

func complain(err error) int {
	fmt.Fprintf(os.Stderr, "tokpace: %v\n", err)
	return exitUsage
}

// parseFlags parses the command line so that a mistake ends in one line.
func parseFlags() (code int, done bool) {
	if flag.Parsed() {
		return 0, false
	}
	cl := flag.CommandLine
	cl.Usage = func() { fmt.Fprintln(cl.Output(), usageLine) }
	cl.Init(os.Args[0], flag.ContinueOnError)
	cl.SetOutput(io.Discard)
	err := cl.Parse(os.Args[1:])
	cl.SetOutput(nil)
	switch {
	case errors.Is(err, flag.ErrHelp):
		printHelp(os.Stdout)
		cl.SetOutput(os.Stdout)
		cl.PrintDefaults()
		return 0, true
	case err != nil:
		return complain(fmt.Errorf("%w%s; %s", err, flagHint(err), usageLine)), true
	}
	return 0, false
}

// flagHint suggests the flag of a setting whose name was given bare.
func flagHint(err error) string {
	hint := ""
	_, name, ok := strings.Cut(err.Error(), "not defined: -")
	flag.VisitAll(func(f *flag.Flag) {
		if ok && strings.HasSuffix(f.Name, "."+name) && !strings.HasPrefix(f.Name, "test.") {
			hint = " (did you mean -" + f.Name + "?)"
		}
	})
	if !ok || hint != "" {
		return hint
	}
	bare := name[strings.LastIndexByte(name, '.')+1:]
	if why := whyNot(func(other string) bool { return other == bare }); why != "" {
		return ": " + why
	}
	return ""
}

// printHelp lists the settings, which every package with this Main has.
func printHelp(w io.Writer) {
	fmt.Fprintf(w, "%s\n\nSettings:\n", usageLine)
	for _, d := range definitions {
		_, usage := flag.UnquoteUsage(&flag.Flag{Usage: d.usage})
		fmt.Fprintf(w, "  %-31s %s\n", d.env(), usage)
	}
	fmt.Fprint(w, "\nFlags of vllm bench serve that are no settings:\n")
	for _, e := range elsewhere {
		fmt.Fprintf(w, "  %s: %s\n", strings.ReplaceAll(e.names, " ", ", "), e.why)
	}
	fmt.Fprint(w, "\nFlags:\n")
}

func flagValue(name string) string {
	f := flag.Lookup(name)
	if f == nil {
		return ""
	}
	return f.Value.String()
}

// checkPattern fails when no benchmark's name, or none of those wanted, matches
// the first level of -bench: testing itself would pass without having measured
// anything.
func checkPattern(m *testing.M, pattern string, wanted ...string) error {
	names, err := benchmarks(m)
	if err != nil {
		return err
	}
	if len(wanted) > 0 {
		names = slices.DeleteFunc(names, func(name string) bool { return !slices.Contains(wanted, name) })
	}
	for _, alternative := range splitPattern(pattern, '|') {
		re, err := regexp.Compile(splitPattern(alternative, '/')[0])
		if err != nil {
			return fmt.Errorf("-bench %q: %w", pattern, err)
		}
		for _, name := range names {
			if re.MatchString(name) {
				return nil
			}
		}
	}
	return fmt.Errorf("-bench %q matches no benchmark: choose among %s", pattern, strings.Join(names, ", "))
}

// benchmarks lists the benchmarks' names, by having m list them.
func benchmarks(m *testing.M) ([]string, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	stdout := os.Stdout
	os.Stdout = w
	listed := make(chan string)
	go func() {
		text, _ := io.ReadAll(r)
		listed <- string(text)
	}()
	_ = flag.Set("test.list", "^Benchmark")
	m.Run()
	_ = flag.Set("test.list", "")
	os.Stdout = stdout
	w.Close()
	defer r.Close()
	var names []string
	for _, name := range strings.Fields(<-listed) {
		if strings.HasPrefix(name, "Benchmark") {
			names = append(names, name)
		}
	}
	return names, nil
}

// splitPattern splits a pattern of -bench as package testing does: not inside
// brackets or parentheses.
func splitPattern(s string, sep byte) []string {
	var parts []string
	class, group, start := 0, 0, 0
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\':
			i++
		case c == '[':
			class++
		case c == ']' && class > 0:
			class--
		case c == '(' && class == 0:
			group++
		case c == ')' && class == 0:
			group--
		case c == sep && class == 0 && group == 0:
			parts = append(parts, s[start:i])
			start = i + 1
		}
	}
	return append(parts, s[start:])
}

// printHeader prints what tools must know of the units. What varies from run to
// run goes into comment lines: as a "key: value" line it would make benchstat
// put each run into a table of its own.
func printHeader(w io.Writer, s *server) {
	fmt.Fprintf(w, "harness-metrics: %s\n", metric.Version)
	for _, u := range metric.Units() {
		line := "Unit " + u.Name
		if u.Better != "" {
			line += " better=" + u.Better
		}
		if u.Exact && s.fake() {
			line += " assume=exact"
		}
		if strings.Contains(line, "=") {
			fmt.Fprintln(w, line)
		}
		if u.Mean != "" && s.fake() && requestLimit() > 0 {
			fmt.Fprintf(w, "Unit %s assume=exact\n", u.Mean)
		}
	}
	shape := &s.settings.shape
	for _, u := range append(metric.PercentileUnits(shape.percentilesOf(), shape.percentiles), metric.ServerUnits()...) {
		if u.Better != "" {
			fmt.Fprintf(w, "Unit %s better=%s\n", u.Name, u.Better)
		}
	}
	target := s.name()
	switch {
	case s.builtIn && s.settings.target == "fake":
		target += " server (chosen by TOKPACE_TARGET)"
	case s.builtIn:
		target += " server (neither TOKPACE_BASE_URL nor OPENAI_BASE_URL is set)"
	default:
		if s.version != "" {
			target += ", version " + s.version
		}
	}
	fmt.Fprintf(w, "# default target: %s\n# model: %s\n# seed: %d\n", target, s.shown(s.model), s.settings.seed)
	fmt.Fprintf(w, "# transport: %s\n", cmp.Or(s.settings.transport, client.H1))
	if s.settings.records != "" {
		fmt.Fprintf(w, "# records: %s\n", s.shown(s.settings.records))
	}
	if name := unusedProxy(s.settings); name != "" {
		fmt.Fprintf(w, "# proxy: %s is set and not used (TOKPACE_PROXY=env would)\n", name)
	}
	for _, kv := range s.settings.metadata {
		fmt.Fprintf(w, "# metadata: %s\n", s.shown(kv))
	}
	host, _ := os.Hostname()
	fmt.Fprintf(w, "# host: %s, %s, GOMAXPROCS %d\n", host, runtime.Version(), runtime.GOMAXPROCS(0))
	if commit := commit(); commit != "" {
		fmt.Fprintf(w, "# commit: %s\n", commit)
	}
	fmt.Fprintf(w, "# date: %s\n", time.Now().UTC().Format(time.RFC3339))
}

// unusedProxy names the variable of a proxy that other programs would go through.
func unusedProxy(s *settings) string {
	if s.proxy != nil {
		return ""
	}
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"} {
		for _, name := range []string{name, strings.ToLower(name)} {
			if os.Getenv(name) != "" {
				return name
			}
		}
	}
	return ""
}

// commit names the checked-out commit, "" outside a repository.
var commit = sync.OnceValue(func() string {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty", "--abbrev=12").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
})
