package dataset

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
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

// Exact reports whether a prompt of n tokens has exactly n.
func (v Vocabulary) Exact() bool { return v.perWord == 0 }

// Prompt draws a text of n tokens: words, each after a space.
func (v Vocabulary) Prompt(rng *rand.Rand, n int) string {
	words := v.words
	if words == nil {
		words = tokens.Words()
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
// them in groups: about one call of count for each 16 words. Where a server's
// tokens do not follow words, the vocabulary is not Exact, and prompts get as
// many words as its mean asks for. ofText says that the counter's constant is
// part of the text (a tokenizer's dummy prefix), so that prompts have to be
// shorter by it; otherwise it is the request's (a chat template).
func Calibrate(ctx context.Context, count Counter, ofText bool) (Vocabulary, error) {
	all := tokens.Words()
	half := len(all) / 2
	var n [3]int
	for i, words := range [][]string{all[:half], all[half:], all} {
		var err error
		if n[i], err = count(ctx, join(words)); err != nil {
			return Vocabulary{}, fmt.Errorf("counting prompt tokens: %w", err)
		}
	}
	// What is counted twice in the halves and once in the whole is the
	// server's constant.
	constant := n[0] + n[1] - n[2]
	total := n[2] - constant
	if total < 1 {
		return Vocabulary{}, fmt.Errorf("counting prompt tokens: %d words gave %d tokens", len(all), total)
	}
	v := Vocabulary{words: all}
	if ofText && constant > 0 {
		v.extra = constant
	}
	if total == len(all) {
		return v, nil
	}
	var good []string
	for i := 0; i < len(all); i += groupSize {
		group := all[i:min(i+groupSize, len(all))]
		c, err := count(ctx, join(group))
		if err != nil {
			return Vocabulary{}, fmt.Errorf("counting prompt tokens: %w", err)
		}
		if c-constant == len(group) {
			good = append(good, group...)
		}
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
