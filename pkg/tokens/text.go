package tokens

import (
	"fmt"
	"strings"
)

// The vocabulary, in the order of its ids: all single bytes, all pairs of lower-case letters, the same pairs behind a
// space, and the words of [Words] behind a space.
const (
	pairs          = 26 * 26
	pairBase       = 256
	spacedPairBase = pairBase + pairs
	wordBase       = spacedPairBase + pairs

	// VocabSize is the number of tokens. Ids run from 0 to VocabSize-1.
	VocabSize = wordBase + wordCount
)

// Encode splits s into tokens, taking at each byte the longest piece of the vocabulary that fits, and returns their ids.
// Any byte string can be encoded and [Decode] gives it back unchanged. The result is empty, not nil, for an empty string.
//
// No piece has a space anywhere but at its front, so a token never reaches over a space: the tokens of a+b are those of a
// followed by those of b whenever b begins with a space.
func Encode(s string) []int {
	ids := make([]int, 0, len(s)/pieceLen+1)
	for i := 0; i < len(s); {
		id, n := next(s, i)
		ids = append(ids, id)
		i += n
	}
	return ids
}

// Count returns the number of tokens of s, which is len(Encode(s)), without building them.
func Count(s string) int {
	count := 0
	for i := 0; i < len(s); count++ {
		_, n := next(s, i)
		i += n
	}
	return count
}

// Decode joins the pieces of ids. An id outside the vocabulary is an error that names it and its position.
func Decode(ids []int) (string, error) {
	var b strings.Builder
	b.Grow(len(ids) * pieceLen)
	for at, id := range ids {
		if id < 0 || id >= VocabSize {
			return "", fmt.Errorf("tokens: unknown token id %d at position %d: ids are 0 to %d", id, at, VocabSize-1)
		}
		b.WriteString(pieces[id])
	}
	return b.String(), nil
}

// Piece returns the bytes that token id stands for; ok is false for an id outside the vocabulary. The piece of an id
// from 128 to 255 is half a character and not valid UTF-8 on its own.
func Piece(id int) (piece string, ok bool) {
	if id < 0 || id >= VocabSize {
		return "", false
	}
	return pieces[id], true
}

// next returns the token that begins at s[i] and its length in bytes.
func next(s string, i int) (id, n int) {
	if s[i] != ' ' {
		if p, ok := pairAt(s, i); ok {
			return pairBase + p, 2
		}
		return int(s[i]), 1
	}
	head, ok := pairAt(s, i+1)
	if !ok {
		return ' ', 1
	}
	if tail, ok := pairAt(s, i+3); ok {
		if k := wordIndex.find(head, tail); k >= 0 {
			return wordBase + k, pieceLen
		}
	}
	return spacedPairBase + head, 3
}

// pairAt returns the code of the two lower-case letters at s[i], from 0 for "aa" to 675 for "zz".
func pairAt(s string, i int) (code int, ok bool) {
	if i+1 >= len(s) {
		return 0, false
	}
	x, y := s[i]-'a', s[i+1]-'a' // other bytes wrap around to 26 and more
	return int(x)*26 + int(y), x < 26 && y < 26
}

var pieces = newPieces()

func newPieces() *[VocabSize]string {
	t := new([VocabSize]string)
	for b := range pairBase {
		t[b] = string([]byte{byte(b)})
	}
	var spaced strings.Builder
	for p := range pairs {
		spaced.Write([]byte{' ', 'a' + byte(p/26), 'a' + byte(p%26)})
	}
	for p := range pairs {
		s := spaced.String()[3*p : 3*p+3]
		t[pairBase+p] = s[1:]
		t[spacedPairBase+p] = s
	}
	for k := range wordCount {
		t[wordBase+k] = wordPiece(k)
	}
	return t
}
