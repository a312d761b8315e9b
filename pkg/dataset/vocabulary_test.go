package dataset_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/tokpace/pkg/api"
	"example.com/tokpace/pkg/dataset"
	"example.com/tokpace/pkg/tokens"
)

// A tokenizer counts the tokens of a text whose words each begin with a space.
type tokenizer func(text string) int

// words counts each word by cost, and adds a constant for the text.
func words(constant int, cost func(i int, word string) int) tokenizer {
	index := map[string]int{}
	for i, w := range tokens.Words() {
		index[w] = i
	}
	return func(text string) int {
		n := constant
		for _, w := range strings.Fields(text) {
			n += cost(index[w], w)
		}
		return n
	}
}

func one(int, string) int { return 1 }

// every makes each k-th word two tokens long.
func every(k int) func(int, string) int {
	return func(i int, _ string) int {
		if i%k == 0 {
			return 2
		}
		return 1
	}
}

// server makes a Counter of a tokenizer: template is what the request adds, and
// a text over context is refused, or cut where cut is set.
type server struct {
	tok      tokenizer
	template int
	context  int
	cut      bool
	calls    int
}

func (s *server) count(_ context.Context, text string) (int, error) {
	s.calls++
	n := s.tok(text) + s.template
	switch {
	case s.context == 0 || n <= s.context:
		return n, nil
	case s.cut:
		return s.context, nil
	}
	return 0, fmt.Errorf("this model's maximum context length is %d tokens", s.context)
}

func TestCalibrate(t *testing.T) {
	for _, tt := range []struct {
		name   string
		server server
		ofText bool
		exact  bool
		calls  int
		near   float64 // how far a prompt may be from what was asked where it is not exact
	}{
		{"the fake's own", server{tok: tokens.Count}, true, true, 4, 0},
		{"all words single", server{tok: words(0, one)}, true, true, 4, 0},
		{"a dummy prefix", server{tok: words(1, one)}, true, true, 4, 0},
		{"begin and end of a text", server{tok: words(2, one)}, true, true, 4, 0},
		{"a chat template", server{tok: words(0, one), template: 21}, false, true, 4, 0},
		{"some words of two tokens", server{tok: words(0, every(40))}, true, true, 34, 0},
		{"with a prefix", server{tok: words(1, every(40))}, true, true, 34, 0},
		{"with a template", server{tok: words(0, every(40)), template: 9}, false, true, 34, 0},
		{"the first words are long", server{tok: words(0, func(i int, _ string) int { return 1 + max(0, 20-i) })}, true, true, 34, 0},
		{"many words of two tokens", server{tok: words(0, every(3))}, true, false, 34, 0.10},
		{"all words of two tokens", server{tok: words(0, every(1))}, true, false, 34, 0},
		{"bytes", server{tok: func(text string) int { return len(text) }}, true, false, 34, 0},
		{"bytes with a template", server{tok: func(text string) int { return len(text) }, template: 30}, false, false, 34, 0},
		{"tokens of several words", server{tok: func(text string) int { return len(strings.Fields(text)) / 2 }}, true, false, 34, 0},
		{"a context too small for all words", server{tok: words(2, one), context: 128}, true, true, 34, 0},
		{"a context that cuts the text of all words", server{tok: words(2, one), context: 512, cut: true}, true, true, 34, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v, err := dataset.Calibrate(t.Context(), tt.server.count, tt.ofText)
			require.NoError(t, err)
			require.Equal(t, tt.exact, v.Exact())
			require.Equal(t, tt.calls, tt.server.calls)
			for _, n := range []int{10, 100, 1000} {
				for i := range 20 {
					req := request(t, dataset.Completion{Input: n, Output: 1}, dataset.Env{Words: v, Seed: 1}, i)
					got, _ := texts(t, req)
					count := tt.server.tok(got[0])
					if tt.exact {
						require.Equal(t, n, count)
						require.Equal(t, api.Some(int64(n)), req.InputTokens)
						continue
					}
					require.False(t, req.InputTokens.Known, "a mean is no count")
					if n == 1000 {
						require.InDelta(t, n, count, tt.near*float64(n))
					}
				}
			}
		})
	}
}

// A prompt shorter than what every text has is as short as can be, and counted
// as what it is.
func TestShortPrompts(t *testing.T) {
	s := server{tok: words(2, one)}
	v, err := dataset.Calibrate(t.Context(), s.count, true)
	require.NoError(t, err)
	for n, want := range map[int]int{1: 3, 2: 3, 3: 3, 4: 4} {
		e := dataset.Env{Words: v}
		req := request(t, dataset.Embeddings{Input: n, Batch: 2}, e, 0)
		got, _ := texts(t, req)
		require.Equal(t, want, s.tok(got[0]))
		require.Equal(t, api.Some(int64(2*want)), req.InputTokens)
		req = request(t, dataset.Rerank{Query: n, Documents: 3, Document: 9}, e, 0)
		require.Equal(t, api.Some(int64(3*(want+9))), req.InputTokens)
	}
}

func TestCalibrateFailures(t *testing.T) {
	broken := errors.New("404 page not found")
	random := rand.New(rand.NewPCG(1, 1))
	for name, count := range map[string]func(text string) (int, error){
		"fails":           func(string) (int, error) { return 0, broken },
		"zero":            func(string) (int, error) { return 0, nil },
		"constant":        func(string) (int, error) { return 7, nil },
		"negative":        func(text string) (int, error) { return -len(text), nil },
		"shrinks":         func(text string) (int, error) { return 100000 / len(text), nil },
		"exponential":     func(text string) (int, error) { return len(text) * len(text), nil },
		"cuts everything": func(text string) (int, error) { return min(16, len(text)), nil },
	} {
		v, err := dataset.Calibrate(t.Context(), func(_ context.Context, text string) (int, error) { return count(text) }, true)
		require.ErrorContains(t, err, "counting prompt tokens", name)
		require.Equal(t, dataset.Vocabulary{}, v)
		if name == "fails" {
			require.ErrorIs(t, err, broken)
		}
	}
	// One that fails later, and one that says anything: an error, or a
	// vocabulary that can be used.
	calls := 0
	_, err := dataset.Calibrate(t.Context(), func(_ context.Context, text string) (int, error) {
		if calls++; calls > 10 {
			return 0, broken
		}
		return words(0, every(3))(text), nil
	}, true)
	require.ErrorIs(t, err, broken)
	for range 200 {
		v, err := dataset.Calibrate(t.Context(), func(context.Context, string) (int, error) { return random.IntN(200) - 20, nil }, true)
		if err == nil {
			text := v.Prompt(rand.New(rand.NewPCG(1, 2)), 50)
			require.NotEmpty(t, text)
		}
	}
}

func TestCalibrateStopsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	_, err := dataset.Calibrate(ctx, func(ctx context.Context, text string) (int, error) {
		if calls++; calls == 3 {
			cancel()
		}
		return words(0, one)(text), ctx.Err()
	}, true)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 3, calls)
}

func TestUnverified(t *testing.T) {
	v := dataset.Unverified()
	require.False(t, v.Exact())
	req := request(t, dataset.Completion{Input: 40, Output: 1}, dataset.Env{Words: v}, 0)
	require.False(t, req.InputTokens.Known)
	got, _ := texts(t, req)
	require.Len(t, strings.Fields(got[0]), 40)
}
