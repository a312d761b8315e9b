package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"example.com/tokpace/pkg/ab"
	"example.com/tokpace/pkg/gate"
	"example.com/tokpace/pkg/report"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// judgement is what the flags of gate and ab say about verdicts.
type judgement struct {
	policy     string
	accept     []string
	acceptFrom string
	strict     bool
	explain    bool
}

func (j *judgement) register(f *pflag.FlagSet) {
	f.StringVar(&j.policy, "policy", "", "`file` with rules for rows (YAML); the defaults hold for rows without one")
	f.StringArrayVar(&j.accept, "accept", nil, "`finding` that is known and wanted: 'UNIT:NAME reason', * for any text; repeatable")
	f.BoolVar(&j.strict, "strict", false, "noisy rows end in exit code 3 too")
	f.BoolVar(&j.explain, "explain", false, "show all rows, and which rule decided each")
}

// load makes the policy of the flags.
func (j *judgement) load(ctx context.Context) (*gate.Policy, error) {
	p := &gate.Policy{}
	if j.policy != "" {
		var err error
		if p, err = gate.LoadPolicy(j.policy); err != nil {
			return nil, err
		}
	}
	p.Strict = p.Strict || j.strict
	for _, s := range j.accept {
		a, err := gate.ParseAcceptance(s, "-accept")
		if err != nil {
			return nil, err
		}
		p.Accept = append(p.Accept, a)
	}
	if j.acceptFrom != "" {
		accepted, err := ab.Accepted(ctx, ".", j.acceptFrom)
		if err != nil {
			return nil, err
		}
		p.Accept = append(p.Accept, accepted...)
	}
	return p, nil
}

// table writes a report for people.
func (j *judgement) table(r *gate.Report) func(io.Writer) error {
	if j.explain {
		return r.Explain
	}
	return r.WriteText
}

// newGateCmd is `tokpace gate`.
func newGateCmd() *cobra.Command {
	var (
		j         judgement
		out       outputs
		history   string
		benchstat string
	)
	cmd := &cobra.Command{
		Use:   "gate [flags] BASE HEAD",
		Short: "Judge whether one set of benchmark results is worse than another",
		Long: `gate reads two files of Go benchmark results, any that benchstat can read, compares
them row by row and fails if head is worse than base: by more than a limit, and by more
than the noise explains. Give base=FILE and head=FILE for several files a side; - is
standard input. Files of tokpace ab are compared pair by pair (at least 10 pairs),
others as separate samples (at least 6 a side).

Limits: 5 % for ttft-p50, tpot-p50, e2e-p50 (body-complete-p50 without a stream), and in
an open loop for req/s and output-tok/s; 1 % and at least 1 for B/op and allocs/op; units
with assume=exact may not change at all. In files that are not of tokpace's benchmarks:
5 % for every unit whose direction is known, from a Unit line or from its name. Lines
"Unit NAME gate=10%", gate=off, gate=on and least=2 say otherwise, and so does -policy,
which comes first; -explain shows what holds for each row.

Verdicts:
  regression    worse beyond the limit
  changed       an exact value is another
  incomparable  other machine, definitions or Unit lines, too few samples, NaN
  missing       only in base
  suspect       worse beyond the limit, but that may be chance
  noisy         may be worse beyond the limit: too much noise to tell
  accepted      a regression, change, missing row, suspect or new version of the
                definitions (unit harness-metrics) that -accept or the policy names
  improvement, new, ok

With -history, gate compares the exact rows of one file with those of the last file in
a folder, last by name, whatever the machine: keep results there as plain files.

Besides the table there are Markdown, annotations of GitHub, JUnit and JSON, all with
the same verdict. One that cannot be written ends in exit code 2.

Exit codes: 0 pass; 1 a regression or a change; 2 wrong use, or input that cannot be
read; 3 no verdict: something is incomparable, missing or suspect, or nothing is gated.
1 comes before 3.`,
		Example: `  tokpace gate bench-out/base.txt bench-out/head.txt
  tokpace gate base=monday.txt base=tuesday.txt head=new.txt
  tokpace gate -accept 'allocs/op:Chat/* one more header' -explain base.txt head.txt
  tokpace gate -history results head.txt`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := emptyFlags(cmd.Flags()); err != nil {
				return err
			}
			command := again(cmd.CommandPath(), cmd.Flags(), args)
			policy, err := j.load(cmd.Context())
			if err != nil {
				return err
			}
			compare := gate.Compare
			inputs := []string{j.policy}
			if cmd.Flags().Changed("history") {
				if args, err = withLast(history, args); err != nil {
					return err
				}
				compare = gate.CompareExact
			}
			baseFiles, headFiles, err := gateFiles(args)
			if err != nil {
				return err
			}
			if err := out.check(slices.Concat(inputs, baseFiles, headFiles)...); err != nil {
				return err
			}
			base, err := readResults(baseFiles, cmd.InOrStdin())
			if err != nil {
				return err
			}
			head, err := readResults(headFiles, cmd.InOrStdin())
			if err != nil {
				return err
			}
			c := &report.Comparison{Report: compare(base, head, policy), Command: command,
				Base: strings.Join(baseFiles, ", "), Head: strings.Join(headFiles, ", ")}
			if benchstat != "" {
				text, err := os.ReadFile(benchstat)
				if err != nil {
					return fmt.Errorf("cannot read -benchstat: %w", err)
				}
				c.Benchstat = string(text)
			}
			if err := out.write(cmd.OutOrStdout(), c, j.table(c.Report)); err != nil {
				return err
			}
			return verdictError(c.Report)
		},
	}
	j.register(cmd.Flags())
	out.register(cmd.Flags())
	cmd.Flags().StringVar(&benchstat, "benchstat", "", "`file` with benchstat's table of the same results, for the Markdown")
	cmd.Flags().StringVar(&j.acceptFrom, "accept-from", "", "`commit` whose Gate-Accept: trailers are accepted, as in HEAD")
	cmd.Flags().StringVar(&history, "history", "", "`folder` of kept results: compare exact rows with its last file")
	return cmd
}

// withLast puts the last file of a folder before the one file of the arguments.
func withLast(dir string, args []string) ([]string, error) {
	if len(args) != 1 {
		return nil, errors.New("with -history, give one file: see tokpace gate -h")
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("cannot read results: %w", err)
	}
	last := ""
	for _, e := range entries { // sorted by name
		if strings.HasSuffix(e.Name(), ".txt") && e.Type().IsRegular() {
			last = e.Name()
		}
	}
	if last == "" {
		return nil, fmt.Errorf("no results (*.txt) in %s: keep the first there, as in cp %s %s", dir, args[0], filepath.Join(dir, "2026-01-31.txt"))
	}
	return []string{"base=" + filepath.Join(dir, last), "head=" + args[0]}, nil
}

// gateError is a comparison that does not pass.
type gateError struct {
	code    int
	summary string
}

func (e gateError) Error() string { return "does not pass: " + e.summary }
func (e gateError) ExitCode() int { return e.code }

// gateFiles sorts the arguments into the two sides.
func gateFiles(args []string) (base, head []string, err error) {
	var bare, stdin int
	for _, arg := range args {
		side, file, labelled := strings.Cut(arg, "=")
		switch {
		case labelled && side == "base":
			base = append(base, file)
		case labelled && side == "head":
			head = append(head, file)
		default:
			file = arg
			bare++
		}
		if file == "" {
			return nil, nil, errors.New("a file's name is empty: give base=FILE and head=FILE")
		}
		if file == "-" {
			stdin++
		}
	}
	switch {
	case stdin > 1:
		return nil, nil, errors.New("standard input can be read only once")
	case bare == 2 && len(args) == 2:
		return args[:1], args[1:], nil
	case bare > 0 || len(base) == 0 || len(head) == 0:
		return nil, nil, errors.New("give two files, BASE and HEAD, or any number as base=FILE and head=FILE: see tokpace gate -h")
	}
	return base, head, nil
}

func readResults(files []string, stdin io.Reader) (*gate.Set, error) {
	set := &gate.Set{}
	for _, name := range files {
		if err := readInto(set, name, stdin); err != nil {
			return nil, err
		}
	}
	return set, nil
}

func readInto(set *gate.Set, name string, stdin io.Reader) error {
	if name == "-" {
		return set.Read(stdin, "standard input")
	}
	f, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("cannot read results: %w", err)
	}
	defer f.Close()
	return set.Read(f, name)
}
