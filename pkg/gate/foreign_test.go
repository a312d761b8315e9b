package gate

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/perf/benchfmt"
	"golang.org/x/perf/benchmath"
	"golang.org/x/perf/benchproc"
)

func testdata(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	return string(data)
}

// verdicts are the rows of a report as "name unit: verdict", sorted.
func verdicts(r *Report) []string {
	var out []string
	for _, row := range r.Rows {
		out = append(out, fmt.Sprintf("%s %s: %v", row.Name, row.Unit, row.Verdict))
	}
	slices.Sort(out)
	return out
}

// TestForeignText: results that were not made for this gate.
func TestForeignText(t *testing.T) {
	// A real run of benchmarks of the standard library, dealt out to two sides.
	r := judged(t, testdata(t, "std-base.txt"), testdata(t, "std-head.txt"))
	require.Equal(t, 8, strings.Count(strings.Join(verdicts(r), "\n"), " sec/op: "))
	for _, row := range r.Rows {
		require.True(t, row.Gated, "%s %s", row.Name, row.Unit)
		require.NotContains(t, []Verdict{Regression, Incomparable, Missing}, row.Verdict, "%s %s", row.Name, row.Unit)
	}
	require.Contains(t, verdicts(r), "Fields/ASCII/256-2 B/s: noisy")

	// The format of ollama's bench command: a slash in the model's name, a rate
	// whose unit nobody declared.
	const model = "Model/name=library/qwen3:0.6b/step="
	r = judged(t, testdata(t, "ollama-base.txt"), testdata(t, "ollama-head.txt"))
	require.Equal(t, []string{
		model + "generate sec/token: regression",
		model + "generate token/sec: regression",
		model + "load sec/op: noisy",
		model + "prefill sec/token: ok",
		model + "prefill token/sec: ok",
		model + "total sec/op: regression",
		model + "ttft sec/op: ok",
	}, verdicts(r))
	require.Equal(t, CodeWorse, r.Code())

	// Units of somebody's own without Unit lines: what the name tells is gated.
	r = judged(t, testdata(t, "custom-base.txt"), testdata(t, "custom-head.txt"))
	require.Equal(t, []string{
		"Pod/nodes=500 p99-bind-ms: regression",
		"Pod/nodes=500 pods/s: regression",
		"Pod/nodes=500 queue-depth: not gated",
		"Pod/nodes=500 sec/op: ok",
	}, verdicts(r))
	require.Contains(t, r.Notes, "not gated, as nothing says whether more of it is better: queue-depth (a line `Unit queue-depth better=lower` would)")
}

// benchstatP computes p-values as benchstat does: its own packages read, group
// and compare. The keys are those of the cells.
func benchstatP(t *testing.T, base, head string) map[string]float64 {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"base": base, "head": head} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	var parser benchproc.ProjectionParser
	filter, err := benchproc.NewFilter("*")
	require.NoError(t, err)
	tables, unitField, err := parser.ParseWithUnit(".config", filter)
	require.NoError(t, err)
	files := benchfmt.Files{Paths: []string{filepath.Join(dir, "base"), filepath.Join(dir, "head")}}
	pkg := func(rec *benchfmt.Result) string {
		if p := rec.GetConfig("pkg"); strings.Contains(p, "example.test") { // the only one of its text
			return ""
		} else {
			return p
		}
	}
	cells := map[string]map[string][]float64{}
	for files.Scan() {
		rec, ok := files.Result().(*benchfmt.Result)
		if !ok {
			continue
		}
		for i, table := range tables.ProjectValues(rec) {
			key := pkg(rec) + " " + rec.Name.String() + " " + table.Get(unitField)
			if cells[key] == nil {
				cells[key] = map[string][]float64{}
			}
			side := filepath.Base(rec.GetConfig(".file"))
			cells[key][side] = append(cells[key][side], rec.Values[i].Value)
		}
	}
	require.NoError(t, files.Err())
	out := map[string]float64{}
	for key, sides := range cells {
		if len(sides) == 2 {
			th := benchmath.DefaultThresholds
			c := benchmath.AssumeNothing.Compare(benchmath.NewSample(sides["base"], &th), benchmath.NewSample(sides["head"], &th))
			out[key] = min(max(c.P, 0), 1)
		}
	}
	return out
}

// randomText is benchmark text with ties, outliers, several packages and units.
func randomText(r *rand.Rand, n int) string {
	var b strings.Builder
	for i := range 2 + n {
		fmt.Fprintf(&b, "pkg: p%d\n", []int{i, r.IntN(2)}[min(i/2, 1)])
		fmt.Fprintf(&b, "BenchmarkA/x=%d-4 %d %d ns/op %.2f MB/s %d allocs/op %.4f score\n", r.IntN(2), 1+r.IntN(9),
			1+r.IntN(40), 1+r.NormFloat64()*0.1, r.IntN(3), r.ExpFloat64())
	}
	return b.String()
}

// TestPValuesAreBenchstats on texts that both can read.
func TestPValuesAreBenchstats(t *testing.T) {
	type sides struct{ base, head string }
	texts := []sides{
		{testdata(t, "std-base.txt"), testdata(t, "std-head.txt")},
		{testdata(t, "ollama-base.txt"), testdata(t, "ollama-head.txt")},
		{testdata(t, "custom-base.txt"), testdata(t, "custom-head.txt")},
	}
	rng := rand.New(rand.NewPCG(11, 12))
	for range 40 {
		texts = append(texts, sides{randomText(rng, 1+rng.IntN(160)), randomText(rng, 1+rng.IntN(160))})
	}
	// Rows that are decided before their last pair.
	texts = append(texts, sides{
		paired(lines("BenchmarkB-4 1 %s ns/op", around(100, 0.01, 30)...)),
		paired(lines("BenchmarkB-4 1 %s ns/op", around(100.1, 0.01, 30)...)),
	})
	checked := 0
	for _, text := range texts {
		want := benchstatP(t, text.base, text.head)
		r := judged(t, text.base, text.head)
		for _, row := range r.Rows {
			key := strings.TrimPrefix(row.Config, "pkg: ") + " " + row.Name + " " + row.Unit
			p, ok := want[key]
			if !ok {
				require.Contains(t, []Verdict{Missing, New}, row.Verdict, key)
				continue
			}
			require.InDelta(t, p, row.P(), 1e-9, key)
			checked++
		}
	}
	require.Greater(t, checked, 500)
}
