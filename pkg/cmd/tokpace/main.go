// Command tokpace is the command-line side of the project: a fake inference
// server in a process of its own, one measured request, and the comparison of
// two commits. It holds flags and words for people; what it does is done by the
// packages below it (fakeserver, pkg/client, pkg/ab).
//
//	tokpace fake -listen 127.0.0.1:8000 &
//	tokpace probe -api openai-chat -base-url http://127.0.0.1:8000/v1
//	tokpace probe -api openai-chat -base-url http://127.0.0.1:8000/v1 -body request.json -json
//	tokpace ab -base origin/main
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
	root := newRoot()
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetArgs(doubleDashes(root, args))
	err := root.ExecuteContext(context.Background())
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
