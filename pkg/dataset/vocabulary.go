package dataset

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"example.com/tokpace/pkg/tokens"
)

// A Vocabulary is the words that prompts are made of. The zero Vocabulary is
// the fake server's: each of its words is one token there.
type Vocabulary struct {
	words   []string
	perWord float64 // tokens of a word where that is not exactly 1
	extra   int     // tokens that a text has beside its words'
}

var builtIn = tokens.Words()

// Exact reports whether a prompt of n tokens has exactly n. One shorter than
// the text's own tokens and a word has as many as these.
func (v Vocabulary) Exact() bool { return v.perWord == 0 }

// count is the number of tokens that Prompt's text of n tokens has by what is
// known of the vocabulary: n, unless no text is as short as that.
func (v Vocabulary) count(n int) int { return max(n, v.extra+1) }

// Prompt draws a text of n tokens: words, each after a space. It has at least
// one word.
func (v Vocabulary) Prompt(rng *rand.Rand, n int) string {
	words := v.words
	if words == nil {
		words = builtIn
	}
	n = max(1, n-v.extra)
	if v.perWord > 0 {
		n = max(1, int(math.Round(float64(n)/v.perWord)))
	}
	var s strings.Builder
	s.Grow(n * 5)
	for range n {
		s.WriteByte(' ')
		s.WriteString(words[rng.IntN(len(words))])
	}
	return s.String()
}

// A Counter counts the tokens of a text as a server does, plus a constant: what
// the server adds to every text.
type Counter func(ctx context.Context, text string) (int, error)

const (
	groupSize = 16 // words tested together
	minWords  = 64 // fewer words would repeat too often
)

// Calibrate finds the words that are one token each for a server, by counting
// them in groups: four calls of count where all words are, else about one for
// each 16 words. No text but the one of all words is long, and that one may
// fail or be cut by a server with a small context. Where a server's tokens do
// not follow words, the vocabulary is not Exact, and prompts get as many words
// as its mean asks for. ofText says that the counter's constant is part of the
// text (a tokenizer's dummy prefix), so that prompts have to be shorter by it;
// otherwise it is the request's (a chat template).
func Calibrate(ctx context.Context, count Counter, ofText bool) (Vocabulary, error) {
	all := builtIn
	groups := slices.Collect(slices.Chunk(all, groupSize))
	counted := make([]int, 0, len(groups))
	ask := func(words []string) (int, error) {
		n, err := count(ctx, join(words))
		if err != nil {
			return 0, fmt.Errorf("counting prompt tokens: %w", err)
		}
		return n, nil
	}
	for _, g := range groups[:2] {
		n, err := ask(g)
		if err != nil {
			return Vocabulary{}, err
		}
		counted = append(counted, n)
	}
	both, err := ask(all[:2*groupSize])
	if err != nil {
		return Vocabulary{}, err
	}
	// What is counted twice in the parts and once in the whole is the
	// server's constant.
	constant := counted[0] + counted[1] - both
	if constant < 0 || both <= constant {
		return Vocabulary{}, fmt.Errorf("counting prompt tokens: texts of %d words gave %d and %d tokens, both together %d",
			groupSize, counted[0], counted[1], both)
	}
	v := Vocabulary{words: all}
	if ofText {
		v.extra = constant
	}
	if n, err := ask(all); err == nil && n == constant+len(all) {
		return v, nil
	}
	for _, g := range groups[2:] {
		n, err := ask(g)
		if err != nil {
			return Vocabulary{}, err
		}
		counted = append(counted, n)
	}
	var good []string
	total := 0
	for i, g := range groups {
		n := counted[i] - constant
		if n < 1 {
			return Vocabulary{}, fmt.Errorf("counting prompt tokens: a text of %d words gave %d tokens, of which %d are in every text",
				len(g), counted[i], constant)
		}
		if n == len(g) {
			good = append(good, g...)
		}
		total += n
	}
	if len(good) >= minWords {
		v.words = good
		return v, nil
	}
	v.perWord = float64(total) / float64(len(all))
	return v, nil
}

// Unverified is the vocabulary for a server that cannot be asked: one token a
// word is then a guess, and nothing is counted by it.
func Unverified() Vocabulary { return Vocabulary{perWord: 1} }

func join(words []string) string { return " " + strings.Join(words, " ") }
