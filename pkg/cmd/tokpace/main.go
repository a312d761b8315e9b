// Command tokpace is the command-line side of the project: a fake inference
// server in a process of its own, one measured request, the comparison of two
// commits or servers, and a verdict about two sets of results. It holds flags and words for
// people; what it does is done by the packages below it (fakeserver, pkg/client,
// pkg/ab, pkg/gate).
//
//	tokpace fake -listen 127.0.0.1:8000 &
//	tokpace probe -api openai-chat -base-url http://127.0.0.1:8000/v1
//	tokpace probe -api openai-chat -base-url http://127.0.0.1:8000/v1 -body request.json -json
//	tokpace ab -base origin/main
//	tokpace gate bench-out/base.txt bench-out/head.txt
//	tokpace help probe
//
// Flags may be written with one dash or two. Every error is one line on stderr.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// The exit codes. An error that has no code of its own has exitUsage.
const (
	exitOK     = 0
	exitFailed = 1 // what was asked for was done, and failed
	exitUsage  = 2 // it could not be done as asked
)

// run is the whole command: it returns the exit code of a command line.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	// A reader that goes away shall be an error, not the death of the process
	// before it has tidied up. Ignoring the signal instead would be inherited by
	// child processes.
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE)
	defer signal.Stop(broken)

	out := &output{w: stdout}
	root := newRoot()
	root.SetIn(stdin)
	root.SetOut(out)
	root.SetErr(stderr)
	root.SetArgs(doubleDashes(root, args))
	err := root.ExecuteContext(context.Background())
	if err == nil {
		err = out.err // help and completion scripts are written unseen
	}
	if err == nil {
		return exitOK
	}
	fmt.Fprintf(stderr, "tokpace: %s\n", oneLine(err.Error()))
	var coded interface{ ExitCode() int }
	if errors.As(err, &coded) {
		return coded.ExitCode()
	}
	return exitUsage
}

// output is standard output; it remembers its first error.
type output struct {
	w   io.Writer
	err error
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.w.Write(p)
	if err != nil {
		err = fmt.Errorf("cannot write to standard output: %w", err)
		if o.err == nil {
			o.err = err
		}
	}
	return n, err
}
