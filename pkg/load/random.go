package load

import (
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"time"
)

// How random schedules are drawn. Everything that follows is part of the
// definition: a change of it changes the load of every run with the same seed,
// and the golden file of the first draws.
//
//   - The source is math/rand/v2's PCG with the two words (seed, scheduleStream).
//     Datasets use (seed, number of the request), so neither draws from the
//     other's numbers, and the same seed gives the same schedule for every
//     dataset.
//   - A uniform number is (n + 0.5) / 2^52, n being the upper 52 bits of a draw:
//     above 0 and below 1, without rounding.
//   - An exponential number is −ln u.
//   - A normal number is made by Marsaglia's polar method; the second of each
//     pair is thrown away.
//   - A gamma number is made by Marsaglia and Tsang, "A simple method for
//     generating gamma variables" (2000), with their boost by u^(1/a) for a
//     shape a below 1.
//
// To be the same on every machine, only operations are used whose result IEEE 754
// fixes: + − × ÷, square root, and moving the binary point (math.Frexp and
// math.Ldexp). math.Log and math.Exp are not: they are assembly with other last
// bits on some architectures. Compilers may also fuse x*y + z into one operation
// with one rounding (Go's do so on arm64, ppc64, s390x and riscv64); an explicit
// conversion float64(x*y) forbids that, which is why each product has one.

// scheduleStream is the second word of the generator's seed. No request has this
// number.
const scheduleStream = 0xf27269766174696c

// draws is the generator of one schedule.
type draws struct{ pcg *rand.PCG }

func newDraws(seed uint64) draws { return draws{rand.NewPCG(seed, scheduleStream)} }

// uniform is between 0 and 1, and neither.
func (d draws) uniform() float64 {
	const unit = 1.0 / (1 << 52)
	return float64((float64(d.pcg.Uint64()>>12) + 0.5) * unit)
}

// exponential has mean 1.
func (d draws) exponential() float64 { return -ln(d.uniform()) }

// normal has mean 0 and variance 1.
func (d draws) normal() float64 {
	for {
		x := float64(2*d.uniform()) - 1
		y := float64(2*d.uniform()) - 1
		if r := float64(x*x) + float64(y*y); r < 1 && r > 0 {
			return float64(x * math.Sqrt(float64(-2*ln(r))/r))
		}
	}
}

// gamma has the shape a and the scale 1, so its mean is a.
func (d draws) gamma(a float64) float64 {
	if a < 1 {
		g := d.gamma(a + 1)
		return float64(g * exp(ln(d.uniform())/a))
	}
	b := a - 1.0/3
	c := 1 / math.Sqrt(float64(9*b))
	for {
		x := d.normal()
		v := 1 + float64(c*x)
		if v <= 0 {
			continue
		}
		v = float64(float64(v*v) * v)
		if ln(d.uniform()) < float64(float64(0.5*x)*x)+b-float64(b*v)+float64(b*ln(v)) {
			return float64(b * v)
		}
	}
}

// gap has mean 1: a gamma number of the shape burstiness, divided by it.
func (d draws) gap(burstiness float64) float64 {
	switch {
	case math.IsInf(burstiness, 1):
		return 1
	case burstiness == 0 || burstiness == 1:
		return d.exponential()
	}
	return d.gamma(burstiness) / burstiness
}

// ln is the natural logarithm of x, which is finite and above 0, to a few units
// in the last place: with x = m·2^k and s = (m−1)/(m+1) it is
// k·ln 2 + 2·(s + s³/3 + s⁵/5 + …).
func ln(x float64) float64 {
	m, k := math.Frexp(x)
	if m < math.Sqrt2/2 {
		m, k = float64(m*2), k-1
	}
	s := (m - 1) / (m + 1) // at most 0.172, so the last term is below 2^-60
	s2 := float64(s * s)
	sum := 1.0 / 23
	for n := 21; n >= 1; n -= 2 {
		sum = float64(sum*s2) + 1/float64(n)
	}
	return float64(float64(k)*math.Ln2) + float64(float64(2*s)*sum)
}

// exp is e to the power of x to a few units in the last place, by the Taylor
// series of what is left of x when multiples of ln 2 are taken away.
func exp(x float64) float64 {
	switch {
	case x > 709:
		return math.Inf(1)
	case x < -745:
		return 0
	}
	// The upper half of ln 2 has so few bits that its multiples are exact.
	const (
		upper = 0x1.62e42feep-1
		lower = math.Ln2 - upper
	)
	k := math.Floor(float64(x/math.Ln2) + 0.5)
	r := x - float64(k*upper) - float64(k*lower) // at most 0.347 either way
	sum := 1.0
	for n := 16.0; n >= 1; n-- {
		sum = 1 + float64(float64(sum*r)/n)
	}
	return math.Ldexp(sum, int(k))
}

// Poisson sends at random with a fixed mean rate: gaps are exponential, and
// independent of each other.
type Poisson struct {
	Rate float64 // requests per second
}

// Times draws the gaps. The first send is one gap after the start.
func (s Poisson) Times(seed uint64) (iter.Seq[time.Duration], error) {
	if !positive(s.Rate) {
		return nil, badRate("Poisson", s.Rate)
	}
	return Gamma{Rate: s.Rate}.times(seed), nil
}

// Gamma sends at random with gamma-distributed gaps, as `vllm bench serve` with
// --burstiness: their shape is Burstiness and their scale 1/(Rate·Burstiness),
// so that their mean is 1/Rate and their coefficient of variation
// 1/√Burstiness. Below 1 requests come in bursts, 1 is Poisson, above 1 they are
// more even, +Inf is a constant gap.
//
// The gaps are not rescaled afterwards so that the last request leaves at a round
// time, as that command does: the first sends would then depend on how many
// follow.
type Gamma struct {
	Rate       float64 // requests per second
	Burstiness float64 // 0 means 1
}

// Times draws the gaps. The first send is one gap after the start.
func (s Gamma) Times(seed uint64) (iter.Seq[time.Duration], error) {
	if !positive(s.Rate) {
		return nil, badRate("Gamma", s.Rate)
	}
	if err := checkBurstiness(s.Burstiness); err != nil {
		return nil, err
	}
	return s.times(seed), nil
}

func (s Gamma) times(seed uint64) iter.Seq[time.Duration] {
	return func(yield func(time.Duration) bool) {
		d := newDraws(seed)
		gaps(func(int) float64 { return d.gap(s.Burstiness) / s.Rate })(yield)
	}
}

// positive reports whether x is a finite number above 0.
func positive(x float64) bool { return x > 0 && !math.IsInf(x, 1) }

// checkBurstiness fails for what is no shape. Below 0.001 all but one in a
// thousand gaps would be 0.
func checkBurstiness(b float64) error {
	if b != 0 && !(b >= 0.001) {
		return fmt.Errorf("load: the burstiness of a schedule is %v, it must be at least 0.001 (1 is Poisson, below it is burstier)", b)
	}
	return nil
}
