package load

import (
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite the golden file of the schedules")

const goldenFile = "testdata/schedules.txt"

// first are the first n times of a schedule, or all when it ends before.
func first(t *testing.T, s Schedule, seed uint64, n int) []time.Duration {
	t.Helper()
	times, err := s.Times(seed)
	require.NoError(t, err)
	var got []time.Duration
	for at := range times {
		if len(got) == n {
			break
		}
		got = append(got, at)
	}
	return got
}

// gapsOf are the gaps of a schedule whose first send is a gap after the start.
func gapsOf(times []time.Duration) []float64 {
	var gaps []float64
	last := time.Duration(0)
	for _, at := range times {
		gaps = append(gaps, (at - last).Seconds())
		last = at
	}
	return gaps
}

func TestConstant(t *testing.T) {
	at := first(t, Constant{Rate: 10}, 1, 600)
	require.Len(t, at, 600)
	require.Zero(t, at[0])
	for i := 1; i < len(at); i++ {
		require.Equal(t, 100*time.Millisecond, at[i]-at[i-1])
	}
	require.Less(t, at[599], time.Minute)
	require.Equal(t, time.Minute, first(t, Constant{Rate: 10}, 1, 601)[600])

	// Rates that no whole number of nanoseconds fits do not drift.
	for _, rate := range []float64{3, 7, 400, 1e6 / 3} {
		at := first(t, Constant{Rate: rate}, 1, 100_000)
		worst := 0.0
		for k, d := range at {
			worst = max(worst, math.Abs(float64(k)/rate*1e9-float64(d)))
		}
		require.Less(t, worst, 1.0)
	}
	require.Equal(t, []time.Duration{0, 0, 0}, first(t, Constant{Rate: math.Inf(1)}, 1, 3))
	require.Equal(t, []time.Duration{0}, first(t, Constant{Rate: 1e-300}, 1, 3), "the second is not in this world")
}

func TestTrace(t *testing.T) {
	s := time.Second
	require.Equal(t, []time.Duration{0, s, s, 5 * s}, first(t, Trace{At: []time.Duration{10 * s, 11 * s, 11 * s, 15 * s}}, 1, 9))
	require.Equal(t, []time.Duration{0, s / 4, 2 * s}, first(t, Trace{At: []time.Duration{10 * s, 11 * s, 18 * s}, Speed: 4}, 1, 9))
	require.Equal(t, []time.Duration{0, 2 * s}, first(t, Trace{At: []time.Duration{0, s}, Speed: 0.5}, 1, 9))
	require.Equal(t, []time.Duration{0}, first(t, Trace{At: []time.Duration{0, s}, Speed: 1e-300}, 1, 9))
}

func TestRamp(t *testing.T) {
	even := math.Inf(1)
	// Rates 1, 2, 3 and then 3 on.
	require.Equal(t, []time.Duration{1e9, 1.5e9, 1.5e9 + 333333333, 1.5e9 + 666666666, 1.5e9 + 999999999},
		first(t, Ramp{From: 1, To: 3, Requests: 3, Burstiness: even}, 1, 5))
	// Rates 1, 2, 4, 8.
	at := first(t, Ramp{From: 1, To: 8, Requests: 4, Exponential: true, Burstiness: even}, 1, 5)
	for i, want := range []float64{1, 1.5, 1.75, 1.875, 2} {
		require.InDelta(t, want, at[i].Seconds(), 1e-8)
	}
	down := gapsOf(first(t, Ramp{From: 100, To: 10, Requests: 50, Burstiness: even}, 1, 60))
	require.True(t, slices.IsSorted(down))
	require.InDelta(t, 0.01, down[0], 1e-9)
	require.InDelta(t, 0.1, down[59], 1e-9)
	// With random gaps the mean follows the ramp.
	gaps := gapsOf(first(t, Ramp{From: 10, To: 100, Requests: 2}, 3, 20_000))
	require.InEpsilon(t, 0.01, mean(gaps), 0.03)
}

// What makes no sense is said, not run.
func TestScheduleErrors(t *testing.T) {
	for want, s := range map[string]Schedule{
		"load: the rate of a Constant schedule is 0, it must be above 0 requests per second":                        Constant{},
		"load: the rate of a Constant schedule is NaN, it must be above 0 requests per second":                      Constant{Rate: math.NaN()},
		"load: the rate of a Poisson schedule is -1, it must be above 0 requests per second":                        Poisson{Rate: -1},
		"load: the rate of a Poisson schedule is +Inf, it must be above 0 requests per second":                      Poisson{Rate: math.Inf(1)},
		"load: the rate of a Gamma schedule is 0, it must be above 0 requests per second":                           Gamma{Burstiness: 1},
		"load: the burstiness of a schedule is -1, it must be at least 0.001 (1 is Poisson, below it is burstier)":  Gamma{Rate: 1, Burstiness: -1},
		"load: the burstiness of a schedule is NaN, it must be at least 0.001 (1 is Poisson, below it is burstier)": Ramp{From: 1, To: 2, Requests: 2, Burstiness: math.NaN()},
		"load: the rate of a Ramp schedule is 0, it must be above 0 requests per second":                            Ramp{To: 2, Requests: 2},
		"load: a Ramp over 1 requests is none, it needs at least 2":                                                 Ramp{From: 1, To: 2, Requests: 1},
		"load: a Trace needs time stamps":                                         Trace{},
		"load: the Speed of a Trace is -2, it must be a number above 0":           Trace{At: []time.Duration{0}, Speed: -2},
		"load: the Speed of a Trace is +Inf, it must be a number above 0":         Trace{At: []time.Duration{0}, Speed: math.Inf(1)},
		"load: time stamp 2 of a Trace (1ns) is before the one ahead of it (3ns)": Trace{At: []time.Duration{0, 3, 1}},
	} {
		_, err := s.Times(1)
		require.EqualError(t, err, want)
	}
}

func mean(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

// kolmogorov is the Kolmogorov-Smirnov distance of samples from a distribution,
// times √n: beyond 1.95 by chance once in 1,000 (Kolmogorov's limit law).
func kolmogorov(samples []float64, cdf func(float64) float64) float64 {
	x := slices.Sorted(slices.Values(samples))
	n, d := float64(len(x)), 0.0
	for i, v := range x {
		p := cdf(v)
		d = max(d, p-float64(i)/n, float64(i+1)/n-p)
	}
	return d * math.Sqrt(n)
}

// gammaCDF is the regularized lower incomplete gamma function, by its power
// series.
func gammaCDF(shape, x float64) float64 {
	if x <= 0 {
		return 0
	}
	lg, _ := math.Lgamma(shape + 1)
	term := math.Exp(shape*math.Log(x) - x - lg)
	sum := term
	for n := 1.0; term > sum*1e-16; n++ {
		term *= x / (shape + n)
		sum += term
	}
	return min(1, sum)
}

func TestGammaCDF(t *testing.T) {
	for x := 0.1; x < 20; x *= 1.7 {
		require.InDelta(t, 1-math.Exp(-x), gammaCDF(1, x), 1e-12)
		require.InDelta(t, math.Erf(math.Sqrt(x)), gammaCDF(0.5, x), 1e-12)
		require.InDelta(t, 1-math.Exp(-x)*(1+x+x*x/2), gammaCDF(3, x), 1e-12)
	}
}

// The gaps have the distribution that they claim, for several seeds, and the
// test would see one that is a little off.
func TestDistributions(t *testing.T) {
	const rate, n = 50.0, 20_000
	for seed := range uint64(4) {
		gaps := gapsOf(first(t, Poisson{Rate: rate}, seed, n))
		exponential := func(x float64) float64 { return 1 - math.Exp(-rate*x) }
		require.Less(t, kolmogorov(gaps, exponential), 1.95, "seed %d", seed)
		require.Greater(t, kolmogorov(gaps, func(x float64) float64 { return exponential(1.1 * x) }), 1.95)
		for _, b := range []float64{0.1, 0.25, 0.5, 1.5, 2, 10, 100} {
			// As they are drawn: of the burstiest, many round to 0 ns.
			d := newDraws(seed)
			for i := range gaps {
				gaps[i] = d.gap(b)
			}
			require.Less(t, kolmogorov(gaps, func(x float64) float64 { return gammaCDF(b, x*b) }), 1.95, "seed %d burstiness %v", seed, b)
			wrong := func(x float64) float64 { return gammaCDF(1.1*b, x*b) }
			require.Greater(t, kolmogorov(gaps, wrong), 1.95, "seed %d burstiness %v", seed, b)
		}
	}
	drawn := newDraws(3)
	for _, gap := range gapsOf(first(t, Gamma{Rate: rate, Burstiness: 4}, 3, 1000)) {
		require.InDelta(t, drawn.gap(4)/rate, gap, 1e-9)
	}
	require.Equal(t, first(t, Poisson{Rate: 7}, 5, 100), first(t, Gamma{Rate: 7}, 5, 100))
	require.Equal(t, first(t, Poisson{Rate: 7}, 5, 100), first(t, Gamma{Rate: 7, Burstiness: 1}, 5, 100))
	require.NotEqual(t, first(t, Poisson{Rate: 7}, 5, 100), first(t, Poisson{Rate: 7}, 6, 100))
	require.Equal(t, []time.Duration{5e8, 1e9, 1.5e9}, first(t, Gamma{Rate: 2, Burstiness: math.Inf(1)}, 5, 3))
}

// The gaps are independent of each other: neighbours do not correlate.
func TestGapsAreIndependent(t *testing.T) {
	gaps := gapsOf(first(t, Poisson{Rate: 1}, 1, 20_000))
	m, cov, variance := mean(gaps), 0.0, 0.0
	for i, g := range gaps[1:] {
		cov += (g - m) * (gaps[i] - m)
		variance += (g - m) * (g - m)
	}
	require.Less(t, math.Abs(cov/variance)*math.Sqrt(20_000), 3.3)
}

// The own logarithm and exponential function are those of the mathematicians.
func TestLnAndExp(t *testing.T) {
	d := newDraws(1)
	ulps := func(a, b float64) float64 {
		return math.Abs(a-b) / (math.Nextafter(math.Abs(b), math.Inf(1)) - math.Abs(b))
	}
	for range 10_000 {
		u := d.uniform()
		require.True(t, u > 0 && u < 1)
		for _, x := range []float64{u, u * 1e-300, u * 1e300, 1 + u*1e-9, 1 - u*1e-9} {
			require.Less(t, ulps(ln(x), math.Log(x)), 8.0, "ln %v", x)
		}
		for _, x := range []float64{u, -u, -700 * u, 700 * u} {
			require.Less(t, ulps(exp(x), math.Exp(x)), 4.0, "exp %v", x)
		}
	}
	require.Zero(t, ln(1))
	require.Equal(t, 1.0, exp(0))
	require.Zero(t, exp(-1e9))
	require.True(t, math.IsInf(exp(710), 1))
}

// golden are the schedules whose first draws are kept.
var golden = []struct {
	name string
	s    Schedule
}{
	{"poisson rate=50", Poisson{Rate: 50}},
	{"gamma rate=50 burstiness=0.25", Gamma{Rate: 50, Burstiness: 0.25}},
	{"gamma rate=50 burstiness=4", Gamma{Rate: 50, Burstiness: 4}},
	{"ramp linear 1 to 20 over 8", Ramp{From: 1, To: 20, Requests: 8}},
	{"ramp exponential 1 to 20 over 8", Ramp{From: 1, To: 20, Requests: 8, Exponential: true}},
	{"ramp exponential 3 to 700 over 8, even", Ramp{From: 3, To: 700, Requests: 8, Exponential: true, Burstiness: math.Inf(1)}},
	{"constant rate=3", Constant{Rate: 3}},
	{"trace", Trace{At: []time.Duration{5, 1e9, 3e9}, Speed: 3}},
}

// The same seed is the same schedule in every process, on every machine: the
// first draws, and a sum over 10,000, in nanoseconds.
func TestGoldenSchedules(t *testing.T) {
	var out strings.Builder
	for _, g := range golden {
		for _, seed := range []uint64{0, 1} {
			times := first(t, g.s, seed, 10_000)
			sum := time.Duration(0)
			for i, at := range times {
				sum = sum*31 + at*time.Duration(i+1) // wraps alike everywhere
			}
			fmt.Fprintf(&out, "%s seed=%d checksum=%d\n", g.name, seed, int64(sum))
			for _, at := range times[:min(12, len(times))] {
				fmt.Fprintf(&out, "  %d\n", int64(at))
			}
		}
	}
	if *update {
		require.NoError(t, os.WriteFile(goldenFile, []byte(out.String()), 0o644))
	}
	want, err := os.ReadFile(goldenFile)
	require.NoError(t, err, "go test ./pkg/load -run GoldenSchedules -update writes it")
	require.Equal(t, strings.ReplaceAll(string(want), "\r\n", "\n"), out.String())
}

// No compiler fuses a multiplication and an addition of the draws: one rounding
// in place of two would be another schedule on another architecture.
func TestNothingIsFused(t *testing.T) {
	if os.Getenv("LONG") == "" {
		t.Skip("set LONG=1: it compiles for four architectures")
	}
	fused := regexp.MustCompile(`(random|ramp|schedule)\.go:\d+\)\s+(F\w*M(ADD|SUB)\w*|WFM[AS]DB)`)
	product := regexp.MustCompile(`random\.go:\d+\)\s+\w*F\w*MUL\w*|random\.go:\d+\)\s+WFMDB`)
	for _, arch := range []string{"arm64", "ppc64le", "riscv64", "s390x"} {
		cmd := exec.CommandContext(t.Context(), "go", "build", "-gcflags=-S", ".")
		cmd.Env = append(os.Environ(), "GOARCH="+arch, "GOOS=linux")
		text, err := cmd.CombinedOutput()
		require.NoError(t, err)
		require.Empty(t, fused.FindAllString(string(text), 3), arch)
		require.NotEmpty(t, product.FindString(string(text)), "%s: the listing is not understood", arch)
	}
}
