package tokens

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWords(t *testing.T) {
	words := Words()
	require.Len(t, words, 512)
	for i, w := range words {
		require.Len(t, w, 4)
		require.Empty(t, strings.Trim(w, "abcdefghijklmnopqrstuvwxyz"), w)
		if i > 0 {
			require.Less(t, words[i-1], w, "sorted and distinct")
		}
	}
	require.Subset(t, words, []string{"time", "year", "work", "that", "with", "have"})

	words[0] = "gone"
	require.Equal(t, "able", Words()[0], "the slice is a copy")
}

func TestWord(t *testing.T) {
	words := Words()
	for _, n := range []uint64{0, 1, 511, 512, 513, 1<<32 + 5, math.MaxUint64} {
		id, piece := Word(n)
		require.Equal(t, " "+words[n%512], piece)
		require.Equal(t, []int{id}, Encode(piece))
		got, ok := Piece(id)
		require.True(t, ok)
		require.Equal(t, piece, got)
	}
}

// The ids are part of what the fake server sends, so their order is fixed here by example.
func TestVocabularyOrder(t *testing.T) {
	require.Equal(t, 256+676+676+512, VocabSize)
	for _, c := range []struct {
		id    int
		piece string
	}{
		{0, "\x00"}, {' ', " "}, {'a', "a"}, {255, "\xff"},
		{256, "aa"}, {257, "ab"}, {256 + 26, "ba"}, {931, "zz"},
		{932, " aa"}, {932 + 27, " bb"}, {1607, " zz"},
		{1608, " able"}, {1609, " acid"}, {2119, " " + Words()[511]},
	} {
		got, ok := Piece(c.id)
		require.True(t, ok)
		require.Equal(t, c.piece, got)
		require.Equal(t, []int{c.id}, Encode(c.piece), "%q", c.piece)
	}
	for _, id := range []int{-1, VocabSize, math.MaxInt, math.MinInt} {
		_, ok := Piece(id)
		require.False(t, ok)
	}
}

func TestEncode(t *testing.T) {
	for _, c := range []struct {
		text   string
		pieces []string
	}{
		{"", nil},
		{" time", []string{" time"}},
		{" time work", []string{" time", " work"}},
		{"time", []string{"ti", "me"}},
		{" times", []string{" time", "s"}},
		{" timely", []string{" time", "ly"}},
		{" Time", []string{" ", "T", "im", "e"}},
		{" tim", []string{" ti", "m"}},
		{" ti", []string{" ti"}},
		{" t", []string{" ", "t"}},
		{" ", []string{" "}},
		{"  time", []string{" ", " time"}},
		{" zzzz", []string{" zz", "zz"}},
		{" ti!e", []string{" ti", "!", "e"}},
		{"a time\n", []string{"a", " time", "\n"}},
		{"`a{", []string{"`", "a", "{"}}, // neighbours of a and z
		{"a`z{", []string{"a", "`", "z", "{"}},
		{"é", []string{"\xc3", "\xa9"}},
		{"ab\xff\x00cd", []string{"ab", "\xff", "\x00", "cd"}},
	} {
		var got []string
		for _, id := range Encode(c.text) {
			p, ok := Piece(id)
			require.True(t, ok)
			got = append(got, p)
		}
		require.Equal(t, c.pieces, got, "%q", c.text)
		require.Equal(t, len(c.pieces), Count(c.text), "%q", c.text)
	}
	require.NotNil(t, Encode(""), "an empty JSON list, not null")
}

func TestDecode(t *testing.T) {
	s, err := Decode(nil)
	require.NoError(t, err)
	require.Empty(t, s)

	s, err = Decode([]int{1608, 'x', 256, 932, 0xe2, 0x82, 0xac})
	require.NoError(t, err)
	require.Equal(t, " ablexaa aa€", s)

	_, err = Decode([]int{1, 2, VocabSize})
	require.EqualError(t, err, "tokens: unknown token id 2120 at position 2: ids are 0 to 2119")
	_, err = Decode([]int{-7})
	require.ErrorContains(t, err, "unknown token id -7 at position 0")
}

func TestWordsAreOneTokenEach(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var text strings.Builder
		want := []int{}
		for range rng.IntN(300) {
			id, piece := Word(rng.Uint64())
			want = append(want, id)
			text.WriteString(piece)
		}
		require.Equal(t, want, Encode(text.String()))
		require.Equal(t, len(want), Count(text.String()))
		require.Equal(t, 5*len(want), text.Len())
	}
}

func TestEncodeIsGreedyAndReversible(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	const alphabet = "  aeimtwz`{A\n\xc3\xff"
	for range 2000 {
		a, b := randomText(rng, alphabet), randomText(rng, alphabet)
		checkText(t, a)
		require.Equal(t, append(Encode(a), Encode(" "+b)...), Encode(a+" "+b), "no token reaches over a space")
	}
}

func TestCountDoesNotAllocate(t *testing.T) {
	text := strings.Repeat(" time works, Über\xff", 100)
	require.Zero(t, testing.AllocsPerRun(20, func() { Count(text) }))
}

func FuzzText(f *testing.F) {
	for _, s := range []string{"", " time year work", "Hello, world!", "grüß € 你好 🙂", "\xff\xfe\x80 ab", "   ", " tim", strings.Repeat(" t", 40)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) { checkText(t, s) })
}

// checkText compares Encode with a plain search for the longest piece, Count with Encode, and decodes again.
func checkText(t *testing.T, s string) {
	t.Helper()
	want := []int{}
	for rest := s; rest != ""; {
		n := min(len(rest), 5)
		for ; ; n-- {
			if id, ok := idOf[rest[:n]]; ok {
				want = append(want, id)
				break
			}
		}
		rest = rest[n:]
	}
	got := Encode(s)
	require.Equal(t, want, got, "%q", s)
	require.Equal(t, len(got), Count(s), "%q", s)
	back, err := Decode(got)
	require.NoError(t, err)
	require.Equal(t, s, back)
}

var idOf = func() map[string]int {
	m := make(map[string]int)
	for id := range VocabSize {
		p, _ := Piece(id)
		m[p] = id
	}
	if len(m) != VocabSize {
		panic("two ids share a piece")
	}
	return m
}()

func randomText(rng *rand.Rand, alphabet string) string {
	words := Words()
	var b strings.Builder
	for range rng.IntN(12) {
		if rng.IntN(3) == 0 {
			b.WriteString(words[rng.IntN(len(words))])
		} else {
			b.WriteByte(alphabet[rng.IntN(len(alphabet))])
		}
	}
	return b.String()
}

func BenchmarkCount(b *testing.B) {
	text := strings.Join(slices.Repeat(Words(), 2), " ")
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		Count(text)
	}
}
