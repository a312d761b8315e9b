package ab

import (
	"errors"
	"fmt"

	"example.com/tokpace/pkg/gate"
)

// Error is why a comparison ended without a report. Its code is that of the
// gate: [gate.CodeInput] for wrong use, a tool, a build or a benchmark that
// failed, and an interrupt; [gate.CodeNoVerdict] where the time was over before
// the first look.
type Error struct {
	Code int // exit code for the process
	Err  error
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// ExitCode returns Code.
func (e *Error) ExitCode() int { return e.Code }

// ExitCode returns the exit code for the error of [Run]: 0 for nil, the code of
// an *Error, and that of wrong input for any other error.
func ExitCode(err error) int {
	if err == nil {
		return gate.CodePass
	}
	if e := (*Error)(nil); errors.As(err, &e) {
		return e.Code
	}
	return gate.CodeInput
}

func inputError(format string, args ...any) error {
	return &Error{Code: gate.CodeInput, Err: fmt.Errorf(format, args...)}
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
