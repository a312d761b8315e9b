package ab

import (
	"errors"
	"fmt"
)

// Exit codes of a comparison that failed.
const (
	// CodeBenchmark: a benchmark process failed, or printed no usable result.
	CodeBenchmark = 1

	// CodeInput: wrong use, a tool that failed, a build that failed, or an
	// interrupt.
	CodeInput = 2
)

// Error is why a comparison failed.
type Error struct {
	Code int // exit code for the process
	Err  error
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// ExitCode returns Code.
func (e *Error) ExitCode() int { return e.Code }

// ExitCode returns the exit code for what [Run] returned: 0 for nil, the code
// of an *Error, and CodeInput for any other error.
func ExitCode(err error) int {
	if err == nil {
		return 0
	}
	if e := (*Error)(nil); errors.As(err, &e) {
		return e.Code
	}
	return CodeInput
}

func inputError(format string, args ...any) error {
	return &Error{Code: CodeInput, Err: fmt.Errorf(format, args...)}
}
