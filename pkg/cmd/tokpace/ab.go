package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"

	"example.com/tokpace/pkg/ab"
	"example.com/tokpace/pkg/api"
	"example.com/tokpace/pkg/gate"
	"example.com/tokpace/pkg/report"

	"github.com/spf13/cobra"
)

// abFlags are what ab.Config does not hold as it was typed.
type abFlags struct {
	cfg       ab.Config
	judgement judgement
	outputs   outputs
	benchFrom string
	benchstat bool
	bisect    bool
}

// newABCmd is `tokpace ab`: the flags for ab.Run, and the verdict.
func newABCmd() *cobra.Command {
	var o abFlags
	cmd := &cobra.Command{
		Use:   "ab -base REF [flags] [PACKAGE]",
		Short: "Compare and judge two commits, two servers or two server commands",
		Long: `ab measures two sides in turn, AB BA AB …, one process for each sample, and judges as
tokpace gate does while it runs: at 10, 14, 20 and 26 pairs. After each of these looks
only benchmarks with undecided rows run on; without any, it ends.

The sides are one of
  -base REF                     the commit REF, and the working tree as it stands (head)
  -base-target, -head-target    two URLs, given to the benchmarks as TOKPACE_BASE_URL
  -base-server, -head-server    two commands for the shell, each of which serves at
                                -server-url: one is started for each sample, awaited
                                (/health, else /v1/models) and stopped
PACKAGE (default ` + ab.DefaultPackage + `) has the benchmarks. With -base, that of each commit is
built, with -bench-from head both with head's _test.go files and testdata folder; two
servers are measured by the working tree's. Benchmarks get the environment as it is:
TOKPACE_TARGET and the like choose the server of both commits.

Two commits that give the same test binary, the same files beside it and the same
testdata folders are "identical" and not measured, unless with -force. What the trailers
"Gate-Accept: UNIT:NAME reason" of the commit HEAD name is accepted.

Every finished pair is kept in the folder "unfinished" of -out until there is a verdict:
after an interrupt or an error, -resume goes on with the same comparison.

Exit codes: 0 pass, or identical; 1 a regression or a change; 2 wrong use, an interrupt,
or a tool, a build or a benchmark that failed; 3 no verdict: something is incomparable,
missing or suspect, or the budget was over before the first look. With -benchstat: 0
when it was done.

With -bisect, for git bisect run, 2 and 3 become 125, which skips the commit, and an
interrupt 130, which ends the bisection. Build tokpace outside of the tree first.`,
		Example: `  tokpace ab -base origin/main
  tokpace ab -base HEAD~1 -bench 'Chat/stream=true' -count 20 -explain
  tokpace ab -base-target http://127.0.0.1:8000/v1 -head-target http://127.0.0.1:8001/v1
  tokpace ab -base-server 'old/serve -port 8000' -head-server 'new/serve -port 8000'
  git bisect run tokpace ab -bisect -base v1.0 -bench Images`,
		Args: func(cmd *cobra.Command, args []string) error {
			return o.exit(cobra.MaximumNArgs(1)(cmd, args))
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				o.cfg.Package = args[0]
			}
			return o.exit(o.run(cmd, args))
		},
	}
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return o.exit(flagError(cmd, err))
	})
	f := cmd.Flags()
	f.StringVar(&o.cfg.Base, "base", "", "`commit` to compare with")
	f.StringVar(&o.benchFrom, "bench-from", "", "`head` measures both commits with head's benchmarks")
	f.StringVar(&o.cfg.BaseTarget, "base-target", "", "`URL` of a server")
	f.StringVar(&o.cfg.HeadTarget, "head-target", "", "`URL` of the server to compare with it")
	f.StringVar(&o.cfg.BaseServer, "base-server", "", "`command` that starts a server")
	f.StringVar(&o.cfg.HeadServer, "head-server", "", "`command` that starts the server to compare with it")
	f.StringVar(&o.cfg.ServerURL, "server-url", ab.DefaultServerURL, "`URL` at which those commands serve")
	f.DurationVar(&o.cfg.ServerWait, "server-wait", ab.DefaultServerWait, "longest time until a started server answers")
	f.StringVar(&o.cfg.Bench, "bench", ab.DefaultBench, "benchmarks to run, a `pattern` as for go test")
	f.IntVar(&o.cfg.Count, "count", 0, "take exactly this number of pairs, all of all benchmarks, and judge then")
	f.DurationVar(&o.cfg.Budget, "budget", ab.DefaultBudget, "time after which no pair begins and the last look decides")
	f.IntVar(&o.cfg.Iters, "iters", ab.DefaultIters, "iterations of each benchmark in a sample (-benchtime=Nx)")
	f.DurationVar(&o.cfg.Timeout, "timeout", ab.DefaultTimeout, "longest time for one sample")
	f.BoolVar(&o.cfg.Force, "force", false, "measure two sides that are the same code")
	f.BoolVar(&o.cfg.Resume, "resume", false, "go on with the pairs that are in -out")
	f.StringVar(&o.cfg.Out, "out", ab.DefaultOut, "`folder` for base.txt, head.txt and ab.log")
	f.BoolVar(&o.benchstat, "benchstat", false, "print benchstat's comparison instead of a verdict (10 pairs, or -count)")
	f.BoolVar(&o.bisect, "bisect", false, "exit codes for git bisect run")
	o.judgement.register(f)
	o.outputs.register(f)
	f.StringVar(&o.judgement.acceptFrom, "accept-from", "", "`commit` whose Gate-Accept: trailers are accepted too")
	return cmd
}

// benchstatCount is the number of pairs for benchstat where none is given.
const benchstatCount = 10

func (o *abFlags) run(cmd *cobra.Command, args []string) error {
	if err := emptyFlags(cmd.Flags()); err != nil {
		return err
	}
	given := cmd.Flags().Changed
	// Zeros are defaults in the Config, but were typed here.
	switch {
	case given("count") && o.cfg.Count < 1:
		return fmt.Errorf("-count is %d, want at least 1", o.cfg.Count)
	case o.cfg.Iters < 1:
		return fmt.Errorf("-iters is %d, want at least 1", o.cfg.Iters)
	case o.cfg.Timeout <= 0:
		return fmt.Errorf("-timeout is %v, want more than 0", o.cfg.Timeout)
	case o.cfg.Budget <= 0:
		return fmt.Errorf("-budget is %v, want more than 0", o.cfg.Budget)
	case o.cfg.ServerWait <= 0:
		return fmt.Errorf("-server-wait is %v, want more than 0", o.cfg.ServerWait)
	case given("budget") && (given("count") || o.benchstat):
		return errors.New("-budget is for looks: leave it out where the number of pairs is fixed by -count or -benchstat")
	case (given("server-url") || given("server-wait")) && o.cfg.BaseServer+o.cfg.HeadServer == "":
		return errors.New("-server-url and -server-wait go with -base-server and -head-server")
	case given("bench-from") && o.benchFrom != "head":
		return errors.New("-bench-from: want head")
	case o.benchstat && (len(o.outputs.files()) > 0 || o.outputs.summary || o.outputs.annotations != ""):
		return errors.New("-benchstat gives no verdict that could be written: leave out -markdown, -comment, -summary, -annotations, -junit and -json")
	}
	if err := o.outputs.check(); err != nil {
		return err
	}
	o.cfg.BenchFromHead = o.benchFrom == "head"
	if o.benchstat {
		o.cfg.Benchstat = ab.DefaultBenchstat()
		if o.cfg.Count == 0 {
			o.cfg.Count = benchstatCount
		}
	}
	if err := o.secrets(); err != nil {
		return err
	}
	// What nohup or a shell's & has us ignore stays ignored.
	signals := slices.DeleteFunc([]os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP}, signal.Ignored)
	ctx, stop := signal.NotifyContext(cmd.Context(), signals...)
	defer stop()
	var err error
	if o.cfg.Policy, err = o.judgement.load(ctx); err != nil {
		return err
	}
	o.cfg.Stdout, o.cfg.Stderr = cmd.OutOrStdout(), cmd.ErrOrStderr()
	if tty, err := os.OpenFile("/dev/tty", os.O_WRONLY, 0); err == nil {
		defer tty.Close()
		o.cfg.Terminal = tty
	}
	verdict, err := ab.Run(ctx, o.cfg)
	switch {
	case err != nil && ctx.Err() != nil:
		return interrupted{err}
	case err != nil || verdict == nil:
		return err
	}
	if err := o.outputs.write(cmd.OutOrStdout(), o.comparison(ctx, cmd, args, verdict), o.judgement.table(verdict)); err != nil {
		return err
	}
	return verdictError(verdict)
}

// comparison says around a report what was compared.
func (o *abFlags) comparison(ctx context.Context, cmd *cobra.Command, args []string, r *gate.Report) *report.Comparison {
	c := &report.Comparison{Report: r, Base: o.cfg.Base, Head: "the working tree"}
	if !o.cfg.Resume {
		c.Command = o.cfg.Redact(again(cmd.CommandPath(), cmd.Flags(), args))
	}
	switch {
	case o.cfg.BaseTarget != "":
		c.Base, c.Head = o.cfg.Redact(o.cfg.BaseTarget), o.cfg.Redact(o.cfg.HeadTarget)
	case o.cfg.BaseServer != "":
		// There may be a key in the commands.
		c.Base, c.Head, c.Command = "the server of -base-server", "the server of -head-server", ""
	}
	if o.outputs.markdown+o.outputs.comment == "" && !o.outputs.summary || r.Identical {
		return c
	}
	argv := append(ab.DefaultBenchstat(), "base="+filepath.Join(o.cfg.Out, "base.txt"), "head="+filepath.Join(o.cfg.Out, "head.txt"))
	if text, err := exec.CommandContext(ctx, argv[0], argv[1:]...).Output(); err == nil {
		c.Benchstat = string(text) // a module need not have it
	}
	return c
}

// secrets checks the addresses, and has what is secret in them taken out of all
// that is shown and kept.
func (o *abFlags) secrets() error {
	var words []string
	for _, a := range []struct{ flag, url string }{
		{"base-target", o.cfg.BaseTarget}, {"head-target", o.cfg.HeadTarget}, {"server-url", o.cfg.ServerURL},
	} {
		if a.url == "" {
			continue
		}
		u, err := api.CheckBaseURL(a.url)
		if err != nil {
			return fmt.Errorf("-%s: %w", a.flag, err)
		}
		words = append(words, api.URLSecrets(u, api.IsSecretName)...)
	}
	for _, name := range []string{"TOKPACE_API_KEY", "OPENAI_API_KEY"} {
		words = append(words, os.Getenv(name))
	}
	o.cfg.Redact = api.NewSecrets(words...).Redact
	return nil
}

// interrupted is the error of a comparison that a signal ended.
type interrupted struct{ error }

// Exit codes of -bisect: 125 skips a commit, and above 127 the bisection ends.
const (
	bisectSkip = 125
	bisectEnd  = 130
)

// exit gives an error its exit code.
func (o *abFlags) exit(err error) error {
	if err == nil {
		return nil
	}
	code := gate.CodeInput
	var coded interface{ ExitCode() int }
	if errors.As(err, &coded) {
		code = coded.ExitCode()
	}
	if o.bisect && code != gate.CodeWorse {
		code = bisectSkip
		if errors.As(err, new(interrupted)) {
			code = bisectEnd
		}
	}
	return &ab.Error{Code: code, Err: err}
}
