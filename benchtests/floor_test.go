package benchtests

import (
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/tokpace/pkg/harness"
)

// BenchmarkFloor is what the harness itself takes: no server is measured.
func BenchmarkFloor(b *testing.B) { harness.Floor(b) }

// Its lines have nothing that is compared but what it allocates, whatever is measured
// beside it.
func TestFloorOutput(t *testing.T) {
	for _, env := range [][]string{nil, {"OPENAI_BASE_URL=" + countingServer(t, nil)}, {"TOKPACE_TRANSPORT=net/http"}} {
		o := bench(t, env, "-test.bench=Floor", "-test.benchtime=16x")
		require.Zero(t, o.code, o.stdout+o.stderr)
		require.Empty(t, o.stderr)
		require.NotContains(t, o.stdout, "Unit floor-")
		require.NotContains(t, o.stdout, "invalid")
		lines := o.lines(t)
		require.Len(t, lines, 2)
		for name, streamed := range map[string]bool{"BenchmarkFloor/answer=stream/conc=1": true, "BenchmarkFloor/answer=plain/conc=1": false} {
			line := lines[name]
			require.Equal(t, "16", line["N"])
			delete(line, "client-cpu-ns/op") // a coarse clock does not tell
			units := []string{"N", "floor-e2e-p50-ns", "floor-e2e-p99-ns", "B/op", "allocs/op"}
			if streamed {
				units = append(units, "floor-ttft-p50-ns", "floor-ttft-p99-ns")
			}
			for _, unit := range units {
				require.Contains(t, line, unit, name)
				require.Positive(t, number(t, line[unit]), unit)
			}
			require.Len(t, line, len(units), "%v", line)
		}
	}
}
