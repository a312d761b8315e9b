package main

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"

	"example.com/tokpace/pkg/metric"

	"github.com/spf13/cobra"
)

// newRoot is the tree of all commands.
func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "tokpace",
		Short: "Benchmark LLM inference servers",
		Long: `tokpace goes with the benchmarks of LLM inference servers: a fake server to try
them on, one measured request to look at a server, a comparison of two commits or
servers, a verdict about two sets of results.

Exit codes: 0 success; 1 it was done, and what was measured failed; 2 it could
not be done as asked; 3, of ab and gate, no verdict. Every error is one line on
stderr.`,
		Args:          cobra.ArbitraryArgs, // so that an unknown command is ours to explain
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("no command given: see tokpace -h")
			}
			hint := ""
			if s := cmd.SuggestionsFor(args[0]); args[0] != "" && len(s) > 0 && s[0] != args[0] {
				hint = fmt.Sprintf(" (did you mean %s?)", s[0])
			}
			return fmt.Errorf("%q is no command%s: see tokpace -h", args[0], hint)
		},
	}
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) { writeHelp(cmd.OutOrStdout(), cmd) })
	root.SetFlagErrorFunc(flagError)
	root.SetHelpCommand(newHelpCmd())
	root.AddCommand(newFakeCmd(), newProbeCmd(), newABCmd(), newGateCmd(), newVersionCmd())
	return root
}

func newHelpCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Explain a command",
		RunE: func(cmd *cobra.Command, args []string) error {
			topic, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return fmt.Errorf("%q is no command: see tokpace -h", strings.Join(args, " "))
			}
			topic.InitDefaultHelpFlag()
			writeHelp(cmd.OutOrStdout(), topic)
			return nil
		},
	}
}

func newVersionCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of the command and of its metric definitions",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "tokpace %s, metrics %s, %s %s/%s\n",
				version(), metric.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}

// version is the module's version, or the commit of a build from a checkout.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "(unknown)"
	}
	v := info.Main.Version
	if v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return "(devel " + s.Value[:min(len(s.Value), 12)] + ")"
		}
	}
	return "(devel)"
}

// noArguments refuses words that are no flags. They are not repeated: a key or
// an address with a password could be among them.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return fmt.Errorf("%s takes nothing but flags, and a word was given that belongs to none: see %s -h", cmd.Name(), cmd.CommandPath())
}

// writeHelp writes a command's help, flags with a single dash.
func writeHelp(w io.Writer, cmd *cobra.Command) {
	var b strings.Builder
	text := cmd.Long
	if text == "" {
		text = cmd.Short + "."
	}
	fmt.Fprintf(&b, "%s\n\nUsage:\n", text)
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "  %s COMMAND [flags]\n\nCommands:\n", cmd.CommandPath())
		for _, c := range cmd.Commands() {
			if c.IsAvailableCommand() || c.Name() == "help" {
				fmt.Fprintf(&b, "  %-*s  %s\n", cmd.NamePadding(), c.Name(), c.Short)
			}
		}
	} else {
		fmt.Fprintf(&b, "  %s\n", cmd.UseLine())
	}
	if cmd.Example != "" {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", cmd.Example)
	}
	if flags := flagHelp(cmd.LocalFlags()); flags != "" {
		fmt.Fprintf(&b, "\nFlags:\n%s", flags)
	}
	_, _ = io.WriteString(w, b.String()) // run sees the error
}
