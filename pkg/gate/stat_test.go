package gate

import (
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/perf/benchmath"
)

var levels = []float64{0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.9975}

// slowInterval makes an interval from all differences and a distribution that
// was counted.
func slowInterval(diffs []float64, counts []int, level float64) Interval {
	slices.Sort(diffs)
	m, total := len(diffs), 0
	for _, c := range counts {
		total += c
	}
	iv := Interval{Center: diffs[m/2]/2 + diffs[(m-1)/2]/2, Lo: math.Inf(-1), Hi: math.Inf(1), Level: 1}
	sum := 0
	for k := 0; k < len(counts); k++ {
		sum += counts[k]
		p := float64(sum) / float64(total)
		if p > (1-level)/2+1e-12 {
			break
		}
		iv.Lo, iv.Hi, iv.Level = diffs[k], diffs[m-1-k], 1-2*p
	}
	return iv
}

// signedRankCounts counts, over all 2ⁿ signs, the sums of positive ranks.
func signedRankCounts(n int) []int {
	counts := make([]int, n*(n+1)/2+1)
	for signs := range 1 << n {
		t := 0
		for r := range n {
			if signs>>r&1 != 0 {
				t += r + 1
			}
		}
		counts[t]++
	}
	return counts
}

// rankSumCounts counts, over all choices of n2 places among n1+n2, the pairs in
// which a chosen place is above one that is not.
func rankSumCounts(n1, n2 int) []int {
	counts := make([]int, n1*n2+1)
	for set := range 1 << (n1 + n2) {
		if bits.OnesCount(uint(set)) != n2 {
			continue
		}
		u, below := 0, 0
		for i := range n1 + n2 {
			if set>>i&1 != 0 {
				u += below
			} else {
				below++
			}
		}
		counts[u]++
	}
	return counts
}

// sample draws values, from few possible ones every other time so that ties and
// zeros are common.
func sample(r *rand.Rand, n int) []float64 {
	x := make([]float64, n)
	ties := r.IntN(2) == 0
	for i := range x {
		if x[i] = r.NormFloat64(); ties {
			x[i] = float64(r.IntN(5)-2) / 4
		}
	}
	return x
}

func requireInterval(t *testing.T, want, got Interval, msg ...any) {
	t.Helper()
	require.InDelta(t, want.Level, got.Level, 1e-12, msg...)
	want.Level, got.Level = 0, 0
	require.Equal(t, want, got, msg...) // order statistics: not nearly, but the same numbers
}

func TestSignedRankIsWhatEnumerationSays(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for n := 1; n <= 12; n++ {
		counts := signedRankCounts(n)
		for range 40 {
			d := sample(r, n)
			var walsh []float64
			for i := range d {
				for j := i; j < n; j++ {
					walsh = append(walsh, d[i]/2+d[j]/2)
				}
			}
			for _, level := range levels {
				requireInterval(t, slowInterval(walsh, counts, level), SignedRank(d, level), d, level)
			}
		}
	}
}

func TestRankSumIsWhatEnumerationSays(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for n1 := 1; n1 <= 7; n1++ {
		for n2 := 1; n2 <= 7; n2++ {
			counts := rankSumCounts(n1, n2)
			for range 10 {
				base, head := sample(r, n1), sample(r, n2)
				var diffs []float64
				for _, b := range base {
					for _, h := range head {
						diffs = append(diffs, h-b)
					}
				}
				for _, level := range levels {
					requireInterval(t, slowInterval(diffs, counts, level), RankSum(base, head, level), base, head, level)
				}
			}
		}
	}
}

// TestSignedRankWithTiesKeepsItsLevel draws nothing: it goes through all signs of
// given sizes, ties and zeros among them. The interval misses 0 for no more of
// them than its level allows.
func TestSignedRankWithTiesKeepsItsLevel(t *testing.T) {
	for _, sizes := range [][]float64{
		{1, 1, 1, 1, 1, 1, 1, 1, 1, 1},
		{0, 0, 1, 1, 2, 2, 3, 3, 4, 4},
		{0, 0, 0, 0, 0, 0, 0, 1, 1, 5},
		{1, 1, 1, 2, 2, 2, 3, 7, 7, 9, 9, 9},
		{1, 2, 3, 4, 5, 6, 7, 8},
	} {
		n := len(sizes)
		for _, level := range levels {
			above, below := 0, 0
			d := make([]float64, n)
			for signs := range 1 << n {
				for i := range d {
					if d[i] = sizes[i]; signs>>i&1 != 0 {
						d[i] = -d[i]
					}
				}
				iv := SignedRank(d, level)
				if iv.Lo > 0 {
					above++
				}
				if iv.Hi < 0 {
					below++
				}
			}
			total := float64(int(1) << n)
			require.Equal(t, above, below)
			require.LessOrEqual(t, float64(above)/total, (1-level)/2+1e-12, "%v at %v", sizes, level)
		}
	}
}

// TestRankSumWithTiesKeepsItsLevel goes through all ways to deal given values to
// two sides.
func TestRankSumWithTiesKeepsItsLevel(t *testing.T) {
	for _, values := range [][]float64{
		{0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1},
		{0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2},
		{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9},
		{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11},
	} {
		n := len(values)
		for _, level := range levels {
			above, below, total := 0, 0, 0
			for set := range 1 << n {
				if bits.OnesCount(uint(set)) != n/2 {
					continue
				}
				var base, head []float64
				for i, v := range values {
					if set>>i&1 != 0 {
						head = append(head, v)
					} else {
						base = append(base, v)
					}
				}
				iv := RankSum(base, head, level)
				if iv.Lo > 0 {
					above++
				}
				if iv.Hi < 0 {
					below++
				}
				total++
			}
			require.LessOrEqual(t, float64(above)/float64(total), (1-level)/2+1e-12, "%v at %v", values, level)
			require.LessOrEqual(t, float64(below)/float64(total), (1-level)/2+1e-12, "%v at %v", values, level)
		}
	}
}

func TestSamplesNeeded(t *testing.T) {
	for _, c := range []struct {
		level          float64
		pairs, samples int
	}{{0.5, 2, 2}, {0.9, 5, 3}, {0.95, 6, 4}, {0.9875, 8, 5}, {0.995, 9, 6}, {0.9975, 10, 6}} {
		require.Equal(t, c.pairs, PairsFor(c.level), c.level)
		require.Equal(t, c.samples, SamplesFor(c.level), c.level)
		for n := 1; n <= 12; n++ {
			x := make([]float64, n)
			require.Equal(t, n < c.pairs, math.IsInf(SignedRank(x, c.level).Lo, -1), "%d pairs at %v", n, c.level)
			require.Equal(t, n < c.samples, math.IsInf(RankSum(x, x, c.level).Hi, 1), "%d samples at %v", n, c.level)
		}
	}
}

func TestShiftsMoveIntervals(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 100 {
		n := 6 + r.IntN(20)
		x, y := make([]float64, n), make([]float64, n)
		shifted, mirrored := make([]float64, n), make([]float64, n)
		for i := range x {
			x[i], y[i] = float64(r.IntN(40)), float64(r.IntN(40))
			shifted[i], mirrored[i] = x[i]+16, -x[i]
		}
		a, b, c := SignedRank(x, 0.95), SignedRank(shifted, 0.95), SignedRank(mirrored, 0.95)
		require.Equal(t, Interval{a.Center + 16, a.Lo + 16, a.Hi + 16, a.Level}, b)
		require.Equal(t, Interval{-a.Center + 0, -a.Hi + 0, -a.Lo + 0, a.Level}, c)
		a, b, c = RankSum(y, x, 0.95), RankSum(y, shifted, 0.95), RankSum(x, y, 0.95)
		require.Equal(t, Interval{a.Center + 16, a.Lo + 16, a.Hi + 16, a.Level}, b)
		require.Equal(t, Interval{-a.Center + 0, -a.Hi + 0, -a.Lo + 0, a.Level}, c)
	}
}

// TestRankSumAgreesWithBenchmath: without ties the interval leaves out 0 just
// where benchstat's p is small enough.
func TestRankSumAgreesWithBenchmath(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	var seen [2]int
	for range 400 {
		n1, n2 := 4+r.IntN(20), 4+r.IntN(20)
		base, head := make([]float64, n1), make([]float64, n2)
		for i := range base {
			base[i] = r.NormFloat64()
		}
		for i := range head {
			head[i] = r.NormFloat64() + 0.8
		}
		iv := RankSum(base, head, 0.95)
		thr := benchmath.DefaultThresholds
		cmp := benchmath.AssumeNothing.Compare(
			benchmath.NewSample(slices.Clone(base), &thr), benchmath.NewSample(slices.Clone(head), &thr))
		differs := iv.Lo > 0 || iv.Hi < 0
		require.Equal(t, cmp.P <= 0.05, differs, "p=%v %v", cmp.P, iv)
		seen[map[bool]int{false: 0, true: 1}[differs]]++
	}
	require.Greater(t, min(seen[0], seen[1]), 20)
}

// TestLargeSamples: where the normal distribution takes over there is no jump,
// and a million values are no problem.
func TestLargeSamples(t *testing.T) {
	for _, level := range levels {
		n := signedRankExact
		mean, sd := float64(n*(n+1))/4, math.Sqrt(float64(n*(n+1)*(2*n+1))/24)
		require.InDelta(t, signedRankTail(n, level).k, normalTail(mean, sd, level).k, 12)
		m := rankSumExact
		mean, sd = float64(m*m)/2, math.Sqrt(float64(m*m*(2*m+1))/12)
		require.InDelta(t, rankSumTail(m, m, level).k, normalTail(mean, sd, level).k, 6)
	}
	x, y := make([]float64, 100_000), make([]float64, 100_000)
	for i := range x {
		x[i], y[i] = float64(i), float64(i+500)
	}
	require.Equal(t, 500.0, RankSum(x, y, 0.95).Center)
	require.Equal(t, 49999.5, SignedRank(x, 0.95).Center)
}

func TestExtremeValues(t *testing.T) {
	x := []float64{-math.MaxFloat64, math.MaxFloat64, 0, math.Copysign(0, -1), math.SmallestNonzeroFloat64, 1}
	iv := SignedRank(x, 0.95)
	require.Equal(t, -math.MaxFloat64, iv.Lo)
	require.Equal(t, math.MaxFloat64, iv.Hi)
	require.False(t, math.Signbit(SignedRank([]float64{math.Copysign(0, -1)}, 0.5).Center))
}

func ExampleSignedRank() {
	base := []float64{100, 102, 101, 99, 100, 103, 101, 100, 102, 100}
	head := []float64{108, 109, 111, 107, 109, 111, 108, 110, 110, 108}
	d := make([]float64, len(base))
	for i := range d {
		d[i] = math.Log(head[i]) - math.Log(base[i])
	}
	iv := SignedRank(d, 0.9975)
	fmt.Printf("%+.1f %% [%+.1f, %+.1f] at %.4f\n", 100*math.Expm1(iv.Center), 100*math.Expm1(iv.Lo), 100*math.Expm1(iv.Hi), iv.Level)
	// Output: +8.0 % [+6.9, +10.0] at 0.9980
}
