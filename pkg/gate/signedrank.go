package gate

import (
	"math"
	"slices"
	"sync"

	"github.com/aclements/go-moremath/stats"
)

// signedRankExact is the number of pairs up to which the distribution is
// computed; above, it is normal for all purposes.
const signedRankExact = 200

// SignedRank estimates the shift of paired values: d holds the difference head
// − base of each pair, of the logs where ratios matter. It panics if d is empty.
// All values have to be finite.
//
// The estimate is that of Hodges and Lehmann: the median of the M = n(n+1)/2
// Walsh averages (d[i]+d[j])/2, i ≤ j. The interval are all shifts that
// Wilcoxon's signed-rank test does not reject: with the Walsh averages sorted as
// w[1] … w[M],
//
//	[w[k+1], w[M-k]],  k the largest integer with P(T ≤ k) ≤ (1-level)/2
//
// where T is the sum of the ranks of a sample's positive values, exactly
// distributed as the sum of those of 1 … n that win a toss of a fair coin
// (Hollander, Wolfe, Chicken: Nonparametric Statistical Methods, 3rd ed., section
// 3.3). Ties and zeros do not break this: the bounds belong to the interval, and
// breaking the ties in any way can only make an interval shorter, so it covers
// with at least its level (Pratt, Gibbons: Concepts of Nonparametric Theory,
// section 3.6).
//
// An interval needs [PairsFor] pairs: 6 for 95 %, 10 for 99.75 %. Above 200
// pairs the distribution of T is taken for normal.
func SignedRank(d []float64, level float64) Interval {
	d = slices.Sorted(slices.Values(d))
	n := len(d)
	atMost := func(x float64) int {
		// With i going up, fewer and fewer j fit. Rounding keeps the order.
		count, j := 0, n-1
		for i := 0; i < n; i++ {
			for j >= i && d[i]/2+d[j]/2 > x {
				j--
			}
			if j < i {
				break
			}
			count += j - i + 1
		}
		return count
	}
	return interval(n*(n+1)/2, d[0], d[n-1], atMost, signedRankTail(n, level))
}

// PairsFor returns how many pairs [SignedRank] needs for an interval of the
// given level: the smallest n with 2·2⁻ⁿ ≤ 1 - level.
func PairsFor(level float64) int {
	n := 1
	for !fits(math.Ldexp(1, -n), level) {
		n++
	}
	return n
}

type tailKey struct {
	n1, n2 int
	level  float64
}

var signedRankTails sync.Map // tailKey to tail: the rows of a file share a few sizes

func signedRankTail(n int, level float64) tail {
	key := tailKey{n1: n, level: level}
	if t, ok := signedRankTails.Load(key); ok {
		return t.(tail)
	}
	var t tail
	if n <= signedRankExact {
		t = tailOf(signedRankDist(n), level)
	} else {
		fn := float64(n)
		t = normalTail(fn*(fn+1)/4, math.Sqrt(fn*(fn+1)*(2*fn+1)/24), level)
	}
	signedRankTails.Store(key, t)
	return t
}

// signedRankDist returns P(T = t) for t = 0 … n(n+1)/2. Each rank r is in the
// sum or not: p_n(t) = (p_{n-1}(t) + p_{n-1}(t-n)) / 2.
func signedRankDist(n int) []float64 {
	p := make([]float64, n*(n+1)/2+1)
	p[0] = 1
	for r := 1; r <= n; r++ {
		for t := r * (r + 1) / 2; t >= 0; t-- {
			p[t] /= 2
			if t >= r {
				p[t] += p[t-r] / 2 // not yet halved
			}
		}
	}
	return p
}

// tailOf finds the tail of a distribution over 0, 1, ….
func tailOf(dist []float64, level float64) tail {
	t := tail{k: -1}
	for k, p := range dist {
		if !fits(t.p+p, level) {
			break
		}
		t = tail{k: k, p: t.p + p}
	}
	return t
}

// normalTail is tailOf for a normal distribution of integers.
func normalTail(mean, sd, level float64) tail {
	z := stats.InvCDF(stats.StdNormal)((1 - level) / 2)
	k := math.Floor(mean + z*sd - 0.5)
	return tail{k: int(k), p: stats.StdNormal.CDF((k + 0.5 - mean) / sd)}
}
