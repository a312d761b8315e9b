package memnet

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// The ring against the plainest first-in first-out buffer there is, through
// many wraps and all growth steps.
func TestRingAgainstModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var (
		r     ring
		model []byte
		next  byte
	)
	wraps, full := 0, 0
	for range 20_000 {
		if rng.IntN(2) == 0 {
			p := make([]byte, rng.IntN(1<<rng.IntN(18)))
			for i := range p {
				p[i] = next
				next++
			}
			n := r.write(p)
			require.Equal(t, min(len(p), BufferSize-len(model)), n)
			model = append(model, p[:n]...)
			next -= byte(len(p) - n)
		} else {
			p := make([]byte, rng.IntN(1<<rng.IntN(18)))
			n := r.read(p)
			require.Equal(t, min(len(p), len(model)), n)
			require.True(t, bytes.Equal(model[:n], p[:n]))
			model = model[n:]
		}
		require.Equal(t, len(model), r.n)
		if r.start+r.n > len(r.buf) {
			wraps++
		}
		if r.n == BufferSize {
			full++
		}
	}
	require.Positive(t, wraps, "the test never wrapped")
	require.Positive(t, full, "the test never filled the ring")
}

func TestRingGrowsAsNeeded(t *testing.T) {
	for _, tc := range []struct{ write, room int }{
		{0, 0}, {1, minRing}, {minRing, minRing}, {minRing + 1, 2 * minRing},
		{BufferSize/2 + 1, BufferSize}, {BufferSize + 1, BufferSize},
	} {
		var r ring
		r.write(make([]byte, tc.write))
		require.Equal(t, tc.room, len(r.buf), "after %d bytes", tc.write)
	}

	// A stream that never holds much never costs much, however long it is.
	var r ring
	for range 10_000 {
		r.write(make([]byte, 200))
		r.read(make([]byte, 200))
	}
	require.Equal(t, minRing, len(r.buf))
}
