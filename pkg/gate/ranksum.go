package gate

import (
	"math"
	"slices"
	"sync"
)

// rankSumExact is the size of the larger sample up to which the distribution is
// computed, as in benchmath.
const rankSumExact = 50

// RankSum estimates the shift between two samples that are not paired, of the
// logs where ratios matter. It panics if one of them is empty. All values have
// to be finite.
//
// The estimate is that of Hodges and Lehmann: the median of the M = n₁n₂
// differences head[j] - base[i]. The interval are all shifts that the test of
// Mann and Whitney does not reject: with the differences sorted as w[1] … w[M],
//
//	[w[k+1], w[M-k]],  k the largest integer with P(U ≤ k) ≤ (1-level)/2
//
// where U is the number of pairs (i, j) with head[j] > base[i], each order of
// the n₁+n₂ values being equally probable (Hollander, Wolfe, Chicken:
// Nonparametric Statistical Methods, 3rd ed., section 4.3). Ties only make the
// interval cover more than its level, as with [SignedRank].
//
// An interval needs [SamplesFor] samples a side: 4 for 95 %, 6 for 99.75 %.
// Above 50 the distribution of U is taken for normal.
func RankSum(base, head []float64, level float64) Interval {
	base, head = slices.Sorted(slices.Values(base)), slices.Sorted(slices.Values(head))
	n1, n2 := len(base), len(head)
	atMost := func(x float64) int {
		// The larger the value of base, the more values of head fit.
		count, j := 0, 0
		for _, b := range base {
			for j < n2 && head[j]-b <= x {
				j++
			}
			count += j
		}
		return count
	}
	return interval(n1*n2, head[0]-base[n1-1], head[n2-1]-base[0], atMost, rankSumTail(n1, n2, level))
}

// SamplesFor returns how many samples a side [RankSum] needs for an interval of
// the given level, both sides having as many: the smallest n with
// 2/C(2n, n) ≤ 1 - level.
func SamplesFor(level float64) int {
	n, p := 1, 0.5 // 1/C(2n, n)
	for !fits(p, level) {
		n++
		p *= float64(n) / float64(4*n-2)
	}
	return n
}

var rankSumTails sync.Map // tailKey to tail

func rankSumTail(n1, n2 int, level float64) tail {
	key := tailKey{min(n1, n2), max(n1, n2), level}
	if t, ok := rankSumTails.Load(key); ok {
		return t.(tail)
	}
	var t tail
	if key.n2 <= rankSumExact {
		t = tailOf(rankSumDist(key.n1, key.n2), level)
	} else {
		f1, f2 := float64(n1), float64(n2)
		t = normalTail(f1*f2/2, math.Sqrt(f1*f2*(f1+f2+1)/12), level)
		t.k = max(t.k, -1) // a tiny sample beside a large one
	}
	rankSumTails.Store(key, t)
	return t
}

// rankSumDist returns P(U = u) for u = 0 … n1·n2. The largest of i+j values is
// one of the i with probability i/(i+j), and then larger than all j others:
//
//	p_{i,j}(u) = (i·p_{i-1,j}(u-j) + j·p_{i,j-1}(u)) / (i+j)
func rankSumDist(n1, n2 int) []float64 {
	p := make([][]float64, n1+1) // p_{i,j} for the j of the loop
	for i := range p {
		p[i] = make([]float64, n1*n2+1)
		p[i][0] = 1
	}
	for j := 1; j <= n2; j++ {
		for i := 1; i <= n1; i++ {
			for u := i * j; u >= 0; u-- {
				v := float64(j) * p[i][u]
				if u >= j {
					v += float64(i) * p[i-1][u-j]
				}
				p[i][u] = v / float64(i+j)
			}
		}
	}
	return p[n1]
}
