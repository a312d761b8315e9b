package gate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"

	"github.com/stretchr/testify/require"
)

// noise is a model of a machine that others use too. All figures are standard
// deviations or sizes of logs, but for the probabilities.
//
// What all rows of a process share: a drift, first-order autoregressive from
// process to process; in some sessions one lasting step; now and then a spike
// that hits one process; an effect of the process itself, say of where its
// memory lies. What each row has for itself is the noise within a run.
type noise struct {
	within, process, drift, rho float64
	stepShare, step             float64
	spikeShare, spike           float64
}

var (
	sharedNoise = noise{within: 0.02, process: 0.015, drift: 0.03, rho: 0.9, stepShare: 0.15, step: 0.06, spikeShare: 0.04, spike: 0.20}
	roughNoise  = noise{within: 0.04, process: 0.03, drift: 0.06, rho: 0.9, stepShare: 0.15, step: 0.12, spikeShare: 0.04, spike: 0.40}
)

// session is the processes of one comparison in the order in which they run. It
// gives what the rows of each process share.
type session struct {
	noise
	rng    *rand.Rand
	level  float64 // of the drift
	at     int
	stepAt int // the process that the step comes before; -1 for none
	size   float64
}

func (n noise) session(rng *rand.Rand, processes int) *session {
	s := &session{noise: n, rng: rng, level: n.drift * rng.NormFloat64(), stepAt: -1}
	if rng.Float64() < n.stepShare {
		s.stepAt, s.size = rng.IntN(processes), n.step
		if rng.IntN(2) == 0 {
			s.size = -n.step
		}
	}
	return s
}

func (s *session) process() float64 {
	s.level = s.rho*s.level + math.Sqrt(1-s.rho*s.rho)*s.drift*s.rng.NormFloat64()
	x := s.level + s.noise.process*s.rng.NormFloat64()
	if s.stepAt >= 0 && s.at >= s.stepAt {
		x += s.size
	}
	if s.rng.Float64() < s.spikeShare {
		x += s.spike
	}
	s.at++
	return x
}

// row is one value of a row in a process.
func (s *session) row(shared, effect float64) float64 {
	return 0.02 * math.Exp(shared+effect+s.within*s.rng.NormFloat64())
}

// simulated judges rows by the rule as it is, gated at 5 %.
func simulated(base, head []float64, paired bool) Verdict {
	c := columns{base: base, head: head, pairedValues: paired, settled: settled{gated: true, limit: 0.05, better: -1}}
	if paired {
		c.basePairs = make([]pair, len(base))
		for i := range c.basePairs {
			c.basePairs[i] = pair{file: 1, number: i + 1}
		}
		c.headPairs = c.basePairs
	}
	var row Row
	c.judge(&row)
	return row.Verdict
}

// interleaved is a session of the pairs that the last look wants, AB BA AB …. A
// row that is decided before does not look at the rest.
func (n noise) interleaved(rng *rand.Rand, rows int, effect float64) []Verdict {
	last := looks[len(looks)-1]
	s := n.session(rng, 2*last)
	base, head := make([][]float64, rows), make([][]float64, rows)
	for pair := range last {
		shared := [2]float64{}
		for k := range 2 {
			shared[(k+pair)%2] = s.process()
		}
		for i := range rows {
			base[i] = append(base[i], s.row(shared[0], 0))
			head[i] = append(head[i], s.row(shared[1], effect))
		}
	}
	out := make([]Verdict, rows)
	for i := range rows {
		out[i] = simulated(base[i], head[i], true)
	}
	return out
}

// blocked is a session of n processes of base, then n of head.
func (n noise) blocked(rng *rand.Rand, samples int, effect float64) Verdict {
	s := n.session(rng, 2*samples)
	var base, head []float64
	for range samples {
		base = append(base, s.row(s.process(), 0))
	}
	for range samples {
		head = append(head, s.row(s.process(), effect))
	}
	return simulated(base, head, false)
}

// tally counts what came out of trials.
type tally struct {
	trials int
	rows   [OK + 1]int
	codes  [4]int // of sessions
}

func (t *tally) add(verdicts []Verdict) {
	t.trials++
	r := Report{}
	for _, v := range verdicts {
		t.rows[v]++
		r.Rows = append(r.Rows, Row{Verdict: v})
	}
	t.codes[r.Code()]++
}

func (t *tally) row(v Verdict) float64 {
	all := 0
	for _, n := range t.rows {
		all += n
	}
	return float64(t.rows[v]) / float64(all)
}

func (t *tally) code(c int) float64 { return float64(t.codes[c]) / float64(t.trials) }

// trials runs n trials on two goroutines. Each has a seed of its own, so the
// outcome does not depend on who runs which.
func trials(n int, one func(rng *rand.Rand) []Verdict) *tally {
	var (
		mu  sync.Mutex
		all tally
		wg  sync.WaitGroup
	)
	const workers = 2
	for w := range workers {
		wg.Go(func() {
			for i := w; i < n; i += workers {
				v := one(rand.New(rand.NewPCG(uint64(i), 2026)))
				mu.Lock()
				all.add(v)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return &all
}

// TestSimulation finds out what the rule does on a machine whose noise is known.
// GATE_SIM is the number of trials of each cell; without it there are a few, for
// limits that only a broken rule exceeds.
func TestSimulation(t *testing.T) {
	n, long := 60, false
	if v := os.Getenv("GATE_SIM"); v != "" {
		var err error
		n, err = strconv.Atoi(v)
		require.NoError(t, err, "GATE_SIM is the number of trials")
		long = true
	} else if testing.Short() {
		t.Skip("without -short, or with GATE_SIM")
	}
	var out strings.Builder
	tw := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	line := func(name string, t *tally) {
		pct := func(x float64) string { return fmt.Sprintf("%.2f%%", 100*x) }
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", name, pct(t.row(Regression)), pct(t.row(Improvement)), pct(t.row(OK)),
			pct(t.row(Noisy)), pct(t.row(Suspect)), pct(t.code(CodeWorse)), pct(t.code(CodeNoVerdict)))
	}
	fmt.Fprintf(tw, "\tregression\timprovement\tok\tnoisy\tsuspect\texit 1\texit 3\n")
	cells := map[string]*tally{}
	for _, c := range []struct {
		name    string
		noise   noise
		rows    int
		percent float64
	}{
		{"shared, A/A, 100 rows", sharedNoise, 100, 0},
		{"shared, +3 %, 1 row", sharedNoise, 1, 3},
		{"shared, +5 %, 1 row", sharedNoise, 1, 5},
		{"shared, +10 %, 1 row", sharedNoise, 1, 10},
		{"rough, A/A, 100 rows", roughNoise, 100, 0},
		{"rough, +5 %, 1 row", roughNoise, 1, 5},
		{"rough, +10 %, 1 row", roughNoise, 1, 10},
	} {
		cells[c.name] = trials(n, func(rng *rand.Rand) []Verdict {
			return c.noise.interleaved(rng, c.rows, math.Log1p(c.percent/100))
		})
		line(c.name, cells[c.name])
	}
	for _, c := range []struct {
		name    string
		noise   noise
		samples int
		percent float64
	}{
		{"shared, two files of 6, A/A", sharedNoise, 6, 0},
		{"shared, two files of 10, A/A", sharedNoise, 10, 0},
		{"shared, two files of 20, A/A", sharedNoise, 20, 0},
		{"shared, two files of 10, +10 %", sharedNoise, 10, 10},
		{"shared, two files of 10, +20 %", sharedNoise, 10, 20},
	} {
		cells[c.name] = trials(n, func(rng *rand.Rand) []Verdict {
			return []Verdict{c.noise.blocked(rng, c.samples, math.Log1p(c.percent/100))}
		})
		line(c.name, cells[c.name])
	}
	require.NoError(t, tw.Flush())
	if long {
		fmt.Print(out.String())
		require.LessOrEqual(t, cells["shared, A/A, 100 rows"].code(CodeWorse), 0.01)
		require.LessOrEqual(t, cells["shared, A/A, 100 rows"].code(CodeNoVerdict), 0.001)
		require.GreaterOrEqual(t, cells["shared, +10 %, 1 row"].row(Regression), 0.99)
		require.GreaterOrEqual(t, cells["shared, +5 %, 1 row"].row(Regression), 0.60)
		for _, files := range []string{"6", "10", "20"} {
			require.LessOrEqual(t, cells["shared, two files of "+files+", A/A"].row(Regression), 0.03)
		}
		return
	}
	require.LessOrEqual(t, cells["shared, A/A, 100 rows"].row(Regression), 0.001)
	require.GreaterOrEqual(t, cells["shared, +10 %, 1 row"].row(Regression), 0.9)
	require.LessOrEqual(t, cells["shared, two files of 10, A/A"].row(Regression), 0.1)
}
