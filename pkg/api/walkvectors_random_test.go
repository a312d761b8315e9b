package api

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Lists of all lengths, with and without an element that is no plain number, whole
// and cut short: what is counted is as long as encoding/json finds it, and nothing
// that is no number is ever counted.
func TestWalkedVectorsOfAllLengths(t *testing.T) {
	numbers := []string{"1", "-0.25", "123.456", "0"}
	others := []string{"null", "NaN", `"1"`, "{}", "", "1e5", " 1", "+1", "é", "true"}
	rng := rand.New(rand.NewPCG(1, 2))
	walked := 0
	for range 20_000 {
		elements := make([]string, rng.IntN(24))
		plain := len(elements) > 0
		for i := range elements {
			elements[i] = numbers[rng.IntN(len(numbers))]
			if rng.IntN(50) == 0 {
				elements[i], plain = others[rng.IntN(len(others))], false
			}
		}
		body := `{"data":[{"embedding":[` + strings.Join(elements, ",") + `],"index":0}],"usage":{"prompt_tokens":3}}`
		if rng.IntN(5) == 0 {
			body, plain = body[:rng.IntN(len(body))], false
		}
		a, ok := walkVectors([]byte(body), "")
		if !ok {
			require.False(t, plain, body)
			continue
		}
		walked++
		var want struct {
			Data []struct{ Embedding []*float64 }
		}
		require.NoError(t, json.Unmarshal([]byte(body), &want), body)
		require.Len(t, want.Data[0].Embedding, a.Dim.V, body)
		require.NotContains(t, want.Data[0].Embedding, (*float64)(nil), body)
	}
	require.Greater(t, walked, 5_000)
}
