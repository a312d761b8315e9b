package harness

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/tokpace/pkg/load"
)

// An interrupt stops the sends. What ends in the grace time is an answer, the rest
// is cut off then.
func TestInterruptGrace(t *testing.T) {
	for name, tt := range map[string]struct {
		grace      time.Duration
		ok, cutOff int
		took       time.Duration
	}{
		"enough":     {200 * time.Millisecond, 4, 0, 200 * time.Millisecond},
		"not enough": {30 * time.Millisecond, 2, 2, 180 * time.Millisecond},
		"none":       {0, 2, 2, 150 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			clean(t)
			read := recordTo(t, false)
			process.settings.grace = tt.grace
			inBubble(t, "1h", func(start time.Time) {
				ctx, interrupt := context.WithCancel(context.Background())
				defer setContext(ctx)()
				time.AfterFunc(150*time.Millisecond, interrupt)
				r := testing.Benchmark(func(b *testing.B) {
					Run(b, Target{Header: plan("ttft=100ms")}, rerank, load.Closed{N: 2})
				})
				require.Zero(t, r.N)
				require.Equal(t, tt.took, time.Since(start))
			})
			out := comments()
			ok, cutOff := 0, 0
			for _, r := range read() {
				if r.OK {
					ok++
				} else {
					cutOff++
				}
			}
			require.Equal(t, tt.ok, ok)
			require.Equal(t, tt.cutOff, cutOff)
			for line := range strings.Lines(out) {
				require.True(t, strings.HasPrefix(line, "# "), "%q", line)
			}
			require.Contains(t, out, "# interrupted after "+tt.took.String()+": ")
			require.Contains(t, out, "# 4 sent, "+map[bool]string{true: "4 done, 0 failed, 0", false: "2 done, 0 failed, 2"}[tt.cutOff == 0]+" cut off\n")
			require.Contains(t, out, "# e2e-p50-ns 100000000\n")
		})
	}
}

// setContext has the process's interrupts come by ctx.
func setContext(ctx context.Context) (undo func()) {
	process.Lock()
	defer process.Unlock()
	process.ctx, process.summary = ctx, ""
	return func() {
		process.Lock()
		defer process.Unlock()
		process.ctx = nil
	}
}
