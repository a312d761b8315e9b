package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"example.com/tokpace/pkg/ab"

	"github.com/spf13/cobra"
)

// newABCmd is `tokpace ab`: the flags for ab.Run and nothing else.
func newABCmd() *cobra.Command {
	var cfg ab.Config
	cmd := &cobra.Command{
		Use:   "ab -base REF [flags] [PACKAGE]",
		Short: "Compare the benchmarks of the working tree with those of a commit",
		Long: `ab builds the test binary of PACKAGE (default ` + ab.DefaultPackage + `) from the working tree as
it stands (head) and from the commit REF (base), runs the two in turn (AB BA AB …,
one process for each sample), writes base.txt and head.txt, and prints benchstat's
comparison of them. Benchmarks get the environment as it is: TOKPACE_TARGET and the
like choose the server for both sides.

Exit codes: 0 done, 1 a benchmark failed, 2 wrong use, a failing tool, an interrupt.`,
		Example: `  tokpace ab -base origin/main
  tokpace ab -base HEAD~1 -bench 'Chat/stream=true' -count 20`,
		Args: func(cmd *cobra.Command, args []string) error {
			return abUsageError(cobra.MaximumNArgs(1)(cmd, args))
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			// Zeros are defaults in the Config, but were typed here.
			switch {
			case cfg.Count < 1:
				return abUsageError(fmt.Errorf("-count is %d, want at least 1", cfg.Count))
			case cfg.Iters < 1:
				return abUsageError(fmt.Errorf("-iters is %d, want at least 1", cfg.Iters))
			case cfg.Timeout <= 0:
				return abUsageError(fmt.Errorf("-timeout is %v, want more than 0", cfg.Timeout))
			}
			if len(args) == 1 {
				cfg.Package = args[0]
			}
			cfg.Stdout, cfg.Stderr = cmd.OutOrStdout(), cmd.ErrOrStderr()
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
			defer stop()
			return ab.Run(ctx, cfg)
		},
	}
	f := cmd.Flags()
	f.StringVar(&cfg.Base, "base", "", "commit to compare with (required)")
	f.StringVar(&cfg.Bench, "bench", ab.DefaultBench, "benchmarks to run, a pattern as for go test")
	f.IntVar(&cfg.Count, "count", ab.DefaultCount, "number of pairs, that is of samples for each side")
	f.IntVar(&cfg.Iters, "iters", ab.DefaultIters, "iterations of each benchmark in a sample (-benchtime=Nx)")
	f.DurationVar(&cfg.Timeout, "timeout", ab.DefaultTimeout, "longest time for one sample")
	f.StringVar(&cfg.Out, "out", ab.DefaultOut, "folder for base.txt, head.txt and ab.log")
	return cmd
}

// abUsageError gives err, if any, the exit code of wrong use.
func abUsageError(err error) error {
	if err == nil {
		return nil
	}
	return &ab.Error{Code: ab.CodeInput, Err: err}
}
