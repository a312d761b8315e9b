package gate

import "math"

// Interval is an estimate of how far head is from base, in the unit of the
// values it was made from (log ratios, as a rule), with a confidence interval.
type Interval struct {
	// Center is the Hodges–Lehmann estimate.
	Center float64

	// Lo and Hi bound the interval; both belong to it. They are -Inf and +Inf
	// when there are too few values for the level.
	Lo, Hi float64

	// Level is the probability, at least, that the interval covers the true
	// shift: the level asked for or a little more, as there are only finitely
	// many intervals to choose from. It is 1 for an infinite interval.
	Level float64
}

// tail is the largest value of a rank statistic whose lower tail still fits
// into one half of an interval's error, and the probability of that tail. k is
// -1 when even the smallest value is too probable.
type tail struct {
	k int
	p float64
}

// fits reports whether a tail of probability p may be cut off an interval of
// the given level. The slack is for levels like 0.9, whose half error is not
// exactly 1/20 in binary.
func fits(p, level float64) bool { return p <= (1-level)/2*(1+1e-9) }

// interval takes the estimate and both bounds from the order statistics of n
// differences, which are given by how many of them are at most x. min and max
// are the smallest and the largest of them.
func interval(n int, min, max float64, atMost func(x float64) int, t tail) Interval {
	kth := func(k int) float64 { return orderStatistic(k, min, max, atMost) }
	iv := Interval{Center: kth(n / 2), Lo: math.Inf(-1), Hi: math.Inf(1), Level: 1}
	if n%2 == 0 {
		iv.Center = iv.Center/2 + kth(n/2-1)/2
	}
	if t.k >= 0 {
		iv.Lo, iv.Hi, iv.Level = kth(t.k), kth(n-1-t.k), 1-2*t.p
	}
	return iv
}

// orderStatistic returns the k-th smallest, from 0, of the numbers between min
// and max of which atMost(x) are at most x. It halves the range of floating
// point numbers rather than sort, because n samples have n² differences: the
// result is exact and takes at most 64 calls.
func orderStatistic(k int, min, max float64, atMost func(x float64) int) float64 {
	lo, hi := ordinal(min), ordinal(max)
	for lo < hi {
		if mid := lo + (hi-lo)/2; atMost(fromOrdinal(mid)) > k {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return fromOrdinal(lo) + 0 // -0 becomes 0
}

// ordinal numbers the floating point numbers from the smallest to the largest.
func ordinal(x float64) uint64 {
	bits := math.Float64bits(x)
	if bits>>63 != 0 {
		return ^bits
	}
	return bits | 1<<63
}

func fromOrdinal(n uint64) float64 {
	if n>>63 == 0 {
		return math.Float64frombits(^n)
	}
	return math.Float64frombits(n &^ (1 << 63))
}
