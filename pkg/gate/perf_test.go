package gate

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// million writes the result lines of one side: 500 benchmarks in 1000 samples,
// with units of this project's harness.
func million(t *testing.T, name string, seed uint64) string {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), name))
	require.NoError(t, err)
	r := rand.New(rand.NewPCG(seed, 1))
	w := bufio.NewWriter(f)
	fmt.Fprint(w, "harness-metrics: v1\nUnit output-tok/op assume=exact\n")
	for range 1000 {
		for i := range 500 {
			ns := 1e6 * (1 + 0.02*r.NormFloat64())
			fmt.Fprintf(w, "BenchmarkChat/stream=true/case=%d-2 \t 16 \t %.0f ns/op\t %.0f ttft-p50-ns\t 17.00 output-tok/op\t %d B/op\t 464 allocs/op\n",
				i, ns, 5*ns, 64000+r.IntN(600))
		}
	}
	require.NoError(t, w.Flush())
	require.NoError(t, f.Close())
	return f.Name()
}

func readFile(t *testing.T, name string) *Set {
	t.Helper()
	f, err := os.Open(name)
	require.NoError(t, err)
	defer f.Close()
	s := &Set{}
	require.NoError(t, s.Read(f, name))
	return s
}

// TestMillionLines reads and judges a million result lines. Its limits are those
// of an idle machine, so it wants PERF=1.
func TestMillionLines(t *testing.T) {
	if os.Getenv("PERF") == "" {
		t.Skip("with PERF=1, on an idle machine")
	}
	base, head := million(t, "base.txt", 1), million(t, "head.txt", 2)
	start := time.Now()
	r := Compare(readFile(t, base), readFile(t, head), nil)
	require.NoError(t, r.WriteText(io.Discard))
	took := time.Since(start)
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	fmt.Printf("gate: 1 million lines in %.2f s and %d MiB\n", took.Seconds(), m.Sys>>20)
	require.Len(t, r.Rows, 2500)
	require.Less(t, took, 10*time.Second)
	require.Less(t, m.Sys, uint64(500<<20))
}
