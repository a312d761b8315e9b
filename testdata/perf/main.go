// Command perf measures what this module promises about its speed and exactness, beside the tools that others use, and
// says whether the promises hold on this machine. `make perf` runs it, in this folder, which is a module of its own so
// that its peers (the openai-go SDK, jsonparser) are in nobody's go.mod; `make perf-tools` installs the peers that are
// programs (wrk, hey, vegeta).
//
// Each row of its table is a figure with a limit that must hold and perhaps one that is aimed at. What can be a ratio of
// two measurements in the same round is one, since ratios depend least on the machine: in each round all contestants of
// a group run one after the other, in an order that rotates. A row's figure is the median over the rounds, with the
// range behind it.
//
// Server and client are processes of their own, each held on one processor, with GOMAXPROCS=1. Where the server's
// lateness matters its own send stamps, in the text of its tokens, are what times are compared with.
//
// The results are printed and, when all was measured on an idle machine, kept in DATE.txt: every single measurement in
// the benchmark format, the table as comments. -readme then copies the table into README.
//
// Exit codes: 0 all limits hold; 1 one does not; 2 something could not be measured, for example because a peer is not
// installed; 3 the machine was not idle enough, so that nothing is decided. Several at once: 2, then 3, then 1.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"
)

var groups = []group{
	streams, parsing, lag512, itl64, openLoop, bodies, memory, recording,
	fakeCost, fakeTime, fakeMemory, transports, virtualTime, gateSpeed, secure,
}

// minRounds is how many rounds a verdict takes.
const minRounds = 5

func main() {
	if len(os.Args) > 1 && os.Args[1] == "child" {
		os.Exit(child(os.Args[2:]))
	}
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

func run(args []string, stdout, stderr io.Writer) int {
	fs := flag.NewFlagSet("perf", flag.ContinueOnError)
	fs.SetOutput(stderr)
	rounds := fs.Int("rounds", minRounds, "rounds; with fewer than 5 there is a table but no file")
	only := fs.String("only", "", "regular expression: the groups to measure; then there is no file")
	busy := fs.Bool("busy", false, "measure although the machine is not idle (the exit code is 3 nevertheless)")
	list := fs.Bool("list", false, "list the groups and their rows")
	profiles := fs.String("profile", "", "folder for the processor profiles of all servers and clients (which costs a few percent)")
	readme := fs.Bool("readme", false, "put the last run that is kept into README's table")
	tools := fs.Bool("tools", false, "install the peers that are programs")
	if err := fs.Parse(args); err != nil {
		return 2
	}
	fail := func(err error) int {
		fmt.Fprintf(stderr, "perf: %v\n", err)
		return 2
	}
	pattern, err := regexp.Compile(*only)
	switch {
	case err != nil:
		return fail(err)
	case fs.NArg() > 0:
		return fail(fmt.Errorf("what is %q? There are flags only: see -help", fs.Arg(0)))
	case *profiles != "":
		dir, err := filepath.Abs(*profiles)
		if err == nil {
			err = os.MkdirAll(dir, 0o777)
		}
		if err != nil {
			return fail(err)
		}
		os.Setenv(profileDir, dir)
	}
	switch {
	case *rounds < 1:
		return fail(errors.New("-rounds must be at least 1"))
	case *tools:
		if err := installTools(stdout); err != nil {
			return fail(err)
		}
		return 0
	case *readme:
		if err := writeReadme(); err != nil {
			return fail(err)
		}
		return 0
	}
	var chosen []group
	for _, g := range groups {
		if pattern.MatchString(g.name) {
			chosen = append(chosen, g)
		}
	}
	if len(chosen) == 0 {
		return fail(fmt.Errorf("-only %q matches no group: see -list", *only))
	}
	if *list {
		for _, g := range chosen {
			fmt.Fprintf(stdout, "%s\n", g.name)
			for _, r := range g.rows {
				fmt.Fprintf(stdout, "    %s\n", r.what)
			}
		}
		return 0
	}
	m, err := newMachine()
	if err != nil {
		return fail(err)
	}
	p := &perf{m: m, groups: chosen, rounds: *rounds, busy: *busy, whole: *only == "" && *rounds >= minRounds, stdout: stdout, stderr: stderr}
	return p.run()
}

func newMachine() (*machine, error) {
	list, err := cpus()
	if err != nil {
		return nil, err
	}
	if len(list) < 2 {
		return nil, fmt.Errorf("two processors are needed, one for the server and one for the client: there is %d", len(list))
	}
	exe, err := os.Executable()
	return &machine{serverCPU: list[0], clientCPU: list[1], exe: exe}, err
}

// perf is one run.
type perf struct {
	m              *machine
	groups         []group
	rounds         int
	busy, whole    bool
	stdout, stderr io.Writer
	idle           idleness
}

func (p *perf) run() int {
	begun := time.Now()
	before := loadAverage()
	p.idle.begin(before)
	for range 10 {
		if err := p.idle.look(p.m); err != nil {
			fmt.Fprintf(p.stderr, "perf: %v\n", err)
			return 2
		}
	}
	if !p.idle.enough() && !p.busy {
		fmt.Fprintf(p.stderr, "perf: the machine is not idle enough: %v (load average %s). Try again a minute after all else has ended, or see with -busy what there is to see\n", &p.idle, before)
		return 3
	}
	s := newSheet()
	broken := false
	for _, g := range p.groups {
		fmt.Fprintf(p.stderr, "perf: %s\n", g.name)
		if err := p.measure(g, s); err != nil {
			broken = true
			fmt.Fprintf(p.stderr, "perf: %s: %v\n", g.name, err)
			for _, r := range g.rows {
				s.lack(r.id, "an error ended the measurement")
			}
		}
	}
	head := fmt.Sprintf("%s %s/%s, %d processors, %s; %d rounds in %s; load %s before, %s after; %v",
		runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), cpuModel(), p.rounds, time.Since(begun).Round(time.Second), before, loadAverage(), &p.idle)
	idle := p.idle.enough()
	if !idle {
		head += "\nNOT IDLE ENOUGH: these figures decide nothing"
	}
	table := s.table(p.groups)
	fmt.Fprintf(p.stdout, "%s\n\n%s", head, table)
	miss, lack := s.failed(p.groups)
	if p.whole && idle && !broken && !lack {
		name := begun.Format(time.DateOnly) + ".txt"
		if err := os.WriteFile(name, []byte(file(head, table, s.lines)), 0o666); err != nil {
			fmt.Fprintf(p.stderr, "perf: %v\n", err)
			return 2
		}
		fmt.Fprintf(p.stdout, "\nkept in testdata/perf/%s\n", name)
	} else {
		fmt.Fprintf(p.stdout, "\n%s\n", strings.Join(s.lines, "\n"))
	}
	switch {
	case broken || lack:
		return 2
	case !idle:
		return 3
	case miss:
		return 1
	}
	return 0
}

func (p *perf) measure(g group, s *sheet) error {
	ses, err := g.open(p.m)
	if err != nil {
		return err
	}
	defer ses.close()
	for n := range p.rounds {
		if err := ses.round(s, n); err != nil {
			return fmt.Errorf("round %d: %w", n+1, err)
		}
		if err := p.idle.look(p.m); err != nil {
			return err
		}
	}
	return nil
}

// file is what is kept: comments, and results in the benchmark format.
func file(head, table string, lines []string) string {
	var b strings.Builder
	for line := range strings.Lines(head + "\n\n" + table) {
		b.WriteString(strings.TrimRight("# "+line, " \n") + "\n")
	}
	fmt.Fprintf(&b, "\ngoos: %s\ngoarch: %s\ncpu: %s\n\n", runtime.GOOS, runtime.GOARCH, cpuModel())
	for _, line := range lines {
		b.WriteString(line + "\n")
	}
	return b.String()
}
