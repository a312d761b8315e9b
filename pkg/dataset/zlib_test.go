package dataset

import (
	"bytes"
	"compress/zlib"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// Runs of every length that has a symbol of its own, and more, come back.
func TestRunCoder(t *testing.T) {
	inflate := func(stream []byte) []byte {
		z, err := zlib.NewReader(bytes.NewReader(stream))
		require.NoError(t, err)
		data, err := io.ReadAll(z)
		require.NoError(t, err)
		return data
	}
	for _, b := range []byte{0, 2, 143, 144, 255} {
		for n := range 600 {
			data := append(bytes.Repeat([]byte{b}, n), 1)
			z := newRunCoder(nil)
			z.write(data)
			require.Equal(t, data, inflate(z.close()), "%d times %d", n, b)
		}
	}
	rng := rand.New(rand.NewPCG(5, 6))
	z := newRunCoder([]byte{})
	var all []byte
	for range 2000 {
		data := bytes.Repeat([]byte{byte(rng.Uint32())}, rng.IntN(9)*rng.IntN(100))
		all = append(all, data...)
		z.write(data)
	}
	require.Equal(t, all, inflate(z.close()))
	require.Empty(t, inflate(newRunCoder(nil).close()))
}
