package gate

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLooks: a row is decided at the first look that decides it.
func TestLooks(t *testing.T) {
	require.Equal(t, leastPairs, looks[0], "the first look is the first that can decide")
	quiet := around(100, 0.01, 26)
	worse := around(112, 0.01, 26)
	// swing gives a ratio that goes up and down, so that nothing can be seen.
	swing := func(n int) []float64 {
		out := make([]float64, n)
		for i := range out {
			out[i] = quiet[i] * []float64{0.8, 1.25}[i%2]
		}
		return out
	}
	for _, c := range []struct {
		name string
		head []float64
		want Verdict
		n    int // pairs that the verdict is made of
	}{
		{"at the first look", worse[:10], Regression, 10},
		{"later pairs change nothing", slices.Concat(worse[:10], quiet[10:]), Regression, 10},
		{"nor for a row that was ok", slices.Concat(quiet[:10], worse[10:]), OK, 10},
		{"at the second", slices.Concat([]float64{99 * 0.98}, worse[1:14]), Regression, 14},
		{"a last look wherever the pairs end", swing(12), Noisy, 12},
		{"not before all looks", swing(26), Noisy, 26},
	} {
		base := header + paired(lines("BenchmarkA-2 1 %s ns/op", quiet[:len(c.head)]...))
		r := judged(t, base, header+paired(lines("BenchmarkA-2 1 %s ns/op", c.head...)))
		row := r.row(t, "sec/op")
		require.Equal(t, c.want, row.Verdict, "%s: %v", c.name, row.Shift)
		require.Equal(t, []int{c.n, c.n}, []int{row.Base.N, row.Head.N}, c.name)
		var undecided []string
		if c.want == Noisy {
			undecided = []string{"A"}
			require.Len(t, r.Notes, 1)
			require.Contains(t, r.Notes[0], "any number of pairs")
		}
		require.Equal(t, undecided, r.Undecided(), c.name)
	}
}

// TestHintCountsPairs: the number of pairs that a hint names does decide.
func TestHintCountsPairs(t *testing.T) {
	quiet := around(100, 0, 60)
	noise := around(103, 0.05, 60)
	text := func(n int) *Report {
		return judged(t, header+paired(lines("BenchmarkA-2 1 %s ns/op", quiet[:n]...)),
			header+paired(lines("BenchmarkA-2 1 %s ns/op", noise[:n]...)))
	}
	r := text(12)
	require.Equal(t, Noisy, r.Rows[0].Verdict)
	require.Len(t, r.Notes, 1)
	require.Regexp(t, `^1 row undecided: about \d\d pairs would tell \(tokpace ab -count\)$`, r.Notes[0])
	require.Equal(t, OK, text(60).Rows[0].Verdict)
}
