package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"example.com/tokpace/pkg/gate"

	"github.com/spf13/cobra"
)

// newGateCmd is `tokpace gate`.
func newGateCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "gate BASE HEAD",
		Short: "Judge whether one set of benchmark results is worse than another",
		Long: `gate reads two files of Go benchmark results, any that benchstat can read, compares
them row by row and fails if head is worse than base: by more than a limit, and by more
than the noise explains. Give base=FILE and head=FILE for several files a side; - is
standard input. Files of tokpace ab are compared pair by pair (at least 10 pairs),
others as separate samples (at least 6 a side).

Limits: 5 % for ttft-p50, tpot-p50, e2e-p50 (body-complete-p50 without a stream), and in
an open loop for req/s and output-tok/s; 1 % and at least 1 for B/op and allocs/op; units
with assume=exact may not change at all. In files that are not of tokpace's benchmarks:
5 % for every unit whose direction is known, from a Unit line or from its name.

Verdicts:
  regression    worse beyond the limit
  changed       an exact value is another
  incomparable  other machine, definitions or Unit lines, too few samples, NaN
  missing       only in base
  suspect       worse beyond the limit, but that may be chance
  noisy         may be worse beyond the limit: too much noise to tell
  improvement, new, ok

Exit codes: 0 pass; 1 a regression or a change; 2 wrong use, or input that cannot be
read; 3 no verdict: something is incomparable, missing or suspect, or nothing is gated.
1 comes before 3.`,
		Example: `  tokpace gate bench-out/base.txt bench-out/head.txt
  tokpace gate base=monday.txt base=tuesday.txt head=new.txt`,
		RunE: func(cmd *cobra.Command, args []string) error {
			baseFiles, headFiles, err := gateFiles(args)
			if err != nil {
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
			report := gate.Compare(base, head)
			if err := report.WriteText(cmd.OutOrStdout()); err != nil {
				return err
			}
			if code := report.Code(); code != gate.CodePass {
				return gateError{code, report.Summary()}
			}
			return nil
		},
	}
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
