package benchtests

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// No real client is without an error: where none is allowed, a run says so below its
// line, and in a comment behind all lines, where tools leave it out.
func TestInvalidRun(t *testing.T) {
	args := []string{"-test.bench=Rerank/conc=1", "-test.benchtime=3x", "-test.count=2"}
	o := bench(t, []string{"TOKPACE_MAX_OWN_ERROR=0"}, args...)
	require.Zero(t, o.code, o.stdout+o.stderr)
	require.Empty(t, o.stderr)
	require.Equal(t, 2, strings.Count(o.stdout, ": invalid run: "), o.stdout)
	last := strings.LastIndex(o.stdout, "\nBenchmark")
	require.Positive(t, last)
	require.NotContains(t, o.stdout[:last], "\n# invalid: ")
	require.Regexp(t, `(?m)^# invalid: BenchmarkRerank/conc=1: \(2 runs, the last:\) .+ is .+, more than 0 % of the median E2E, .+ \(max-own-error\): .+$`, o.stdout[last:])

	// As much as a request takes is allowed, and more.
	o = bench(t, []string{"TOKPACE_MAX_OWN_ERROR=1000000", "TOKPACE_STRICT=1"}, args...)
	require.Zero(t, o.code, o.stdout+o.stderr)
	require.NotContains(t, o.stdout, "invalid")

	o = bench(t, []string{"TOKPACE_MAX_OWN_ERROR=0", "TOKPACE_STRICT=1"}, args[:2]...)
	require.Equal(t, 1, o.code, o.stdout+o.stderr)
	require.Empty(t, o.lines(t))
	require.Contains(t, o.stdout, "--- FAIL: BenchmarkRerank/conc=1")
	require.Contains(t, o.stdout, ": invalid run: ")
}
