package main

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"strings"

	"example.com/tokpace/pkg/gate"
	"example.com/tokpace/pkg/report"

	"github.com/spf13/pflag"
)

// outputs is what the flags of gate and ab say about where verdicts go beside the
// table on standard output.
type outputs struct {
	markdown, comment, junit, json string // files; - is standard output, in place of the table
	summary                        bool
	annotations                    string
}

func (o *outputs) register(f *pflag.FlagSet) {
	f.StringVar(&o.markdown, "markdown", "", "write a report in Markdown to `file`; - is standard output, in place of the table")
	f.StringVar(&o.comment, "comment", "", "the same, short enough for a comment on a pull request")
	f.BoolVar(&o.summary, "summary", false, "append the report to the file that $GITHUB_STEP_SUMMARY names")
	f.StringVar(&o.annotations, "annotations", "", "write annotations to standard output, of the one `kind` github")
	f.StringVar(&o.junit, "junit", "", "write a JUnit file (XML) to `file`")
	f.StringVar(&o.json, "json", "", "write all rows as JSON to `file`")
}

// emptyFlags refuses flags that were given with nothing, as by a variable that
// is not set: to go on as if they were not there would drop a policy unseen.
func emptyFlags(flags *pflag.FlagSet) (err error) {
	flags.Visit(func(f *pflag.Flag) {
		if f.Value.Type() == "string" && f.Value.String() == "" && err == nil {
			err = fmt.Errorf("-%s has no value: give one, or leave it out", f.Name)
		}
	})
	return err
}

const summaryVariable = "GITHUB_STEP_SUMMARY"

// outputFile is one file, and what goes into it.
type outputFile struct {
	flag, name string
	make       func(*report.Comparison) ([]byte, error)
}

func (o *outputs) files() []outputFile {
	markdown := func(limit int) func(c *report.Comparison) ([]byte, error) {
		return func(c *report.Comparison) ([]byte, error) { return c.Markdown(limit), nil }
	}
	all := []outputFile{
		{"markdown", o.markdown, markdown(report.MaxSummary)},
		{"comment", o.comment, markdown(report.MaxComment)},
		{"junit", o.junit, (*report.Comparison).JUnit},
		{"json", o.json, (*report.Comparison).JSON},
	}
	var asked []outputFile
	for _, f := range all {
		if f.name != "" {
			asked = append(asked, f)
		}
	}
	return asked
}

// check finds what is wrong with the flags before there is anything to write.
// inputs are files that are read and must not be written.
func (o *outputs) check(inputs ...string) error {
	for _, f := range o.files() {
		written, err := os.Stat(f.name)
		if err != nil {
			continue
		}
		for _, name := range inputs {
			if read, err := os.Stat(name); err == nil && os.SameFile(read, written) {
				return fmt.Errorf("-%s would overwrite %s, which is read: give another file", f.flag, name)
			}
		}
	}
	stdout := 0
	seen := map[string]string{}
	for _, f := range o.files() {
		if f.name == "-" {
			stdout++
			continue
		}
		if other := seen[f.name]; other != "" {
			return fmt.Errorf("-%s and -%s are the same file", other, f.flag)
		}
		seen[f.name] = f.flag
		if err := replaceable(f.name); err != nil {
			return fmt.Errorf("cannot write -%s: %w", f.flag, err)
		}
	}
	switch {
	case o.annotations != "" && o.annotations != "github":
		return fmt.Errorf("-annotations is %q, want github", o.annotations)
	case stdout > 1 || stdout == 1 && o.annotations != "":
		return fmt.Errorf("standard output has room for one: of -markdown, -comment, -junit and -json only one may be -, and then without -annotations")
	case o.summary && os.Getenv(summaryVariable) == "":
		return fmt.Errorf("-summary needs $%s, which GitHub sets to a file", summaryVariable)
	}
	return nil
}

// write writes all that was asked for, files first: table writes what goes to
// standard output unless something else does.
func (o *outputs) write(stdout io.Writer, c *report.Comparison, table func(io.Writer) error) error {
	var screen bytes.Buffer
	taken := false
	for _, f := range o.files() {
		text, err := f.make(c)
		switch {
		case err != nil:
		case f.name == "-":
			taken = true
			screen.Write(text)
		default:
			err = writeFile(f.name, text)
		}
		if err != nil {
			return fmt.Errorf("cannot write -%s: %w", f.flag, err)
		}
	}
	if o.summary {
		if err := appendSummary(os.Getenv(summaryVariable), c); err != nil {
			return fmt.Errorf("cannot write -summary: %w", err)
		}
	}
	if !taken {
		if err := table(&screen); err != nil {
			return err
		}
	}
	if o.annotations != "" {
		guarded := guard(screen.String())
		screen.Reset()
		screen.WriteString(guarded)
		screen.Write(c.Annotations(report.NewPlaces(".")))
	}
	_, err := stdout.Write(screen.Bytes())
	return err
}

// appendSummary keeps within what GitHub takes of one step.
func appendSummary(name string, c *report.Comparison) error {
	used := 0
	if info, err := os.Stat(name); err == nil {
		used = int(min(info.Size(), report.MaxSummary))
	}
	text := c.Markdown(report.MaxSummary - used)
	if used+len(text) > report.MaxSummary {
		return fmt.Errorf("%s has %d bytes already, of at most %d", name, used, report.MaxSummary)
	}
	return appendFile(name, text)
}

// guard keeps GitHub's runner from taking names of benchmarks for commands: it
// would obey a line of the table that begins with :: or has ##[ in it.
func guard(text string) string {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "::") || strings.Contains(line, "##[") {
			token := rand.Text()
			return "::stop-commands::" + token + "\n" + text + "::" + token + "::\n"
		}
	}
	return text
}

// shellQuoted are the words of a command as one line that a POSIX shell takes apart
// in the same way.
func shellQuoted(words []string) string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = w
		if w == "" || strings.Trim(w, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%") != "" {
			out[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(out, " ")
}

// again is the command line of those flags that are about the verdict, not about
// where it goes.
func again(command string, flags *pflag.FlagSet, args []string) string {
	var own pflag.FlagSet
	new(outputs).register(&own)
	words := strings.Fields(command)
	flags.Visit(func(f *pflag.Flag) {
		if own.Lookup(f.Name) != nil {
			return
		}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			for _, v := range list.GetSlice() {
				words = append(words, "-"+f.Name, v)
			}
		} else if f.Value.Type() == "bool" {
			words = append(words, "-"+f.Name+"="+f.Value.String())
		} else {
			words = append(words, "-"+f.Name, f.Value.String())
		}
	})
	return shellQuoted(append(words, args...))
}

// verdictError is the error that makes the exit code of a report, if any.
func verdictError(r *gate.Report) error {
	if code := r.Code(); code != gate.CodePass {
		return gateError{code, r.Summary()}
	}
	return nil
}
