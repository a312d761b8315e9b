package tokens

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseVision(t *testing.T) {
	for _, c := range []struct {
		text string
		want Vision
		back string // String of it, if not text
	}{
		{text: "", want: Vision{}, back: "qwen2.5-vl"},
		{text: "qwen2-vl", want: Vision{Family: "qwen2-vl"}},
		{text: "qwen2.5-vl", want: Vision{Family: "qwen2.5-vl"}},
		{text: "qwen3-vl", want: Vision{Family: "qwen3-vl"}},
		{text: "llava-1.5", want: Vision{Family: "llava-1.5"}},
		{text: "llava-next", want: Vision{Family: "llava-next"}},
		{text: "internvl", want: Vision{Family: "internvl"}},
		{text: "phi3-v", want: Vision{Family: "phi3-v"}},
		{text: "phi3.5-v", want: Vision{Family: "phi3.5-v"}},
		{text: "gemma3", want: Vision{Family: "gemma3"}},
		{text: "fixed:576", want: Vision{Family: "fixed", Fixed: 576}},
		{text: "qwen2.5-vl:max-pixels=1003520", want: Vision{Family: "qwen2.5-vl", MaxPixels: 1003520}},
		{
			text: "qwen3-vl:min-pixels=100,max-pixels=200",
			want: Vision{Family: "qwen3-vl", MaxPixels: 200, MinPixels: 100},
			back: "qwen3-vl:max-pixels=200,min-pixels=100",
		},
		{text: "internvl:max-tiles=6", want: Vision{Family: "internvl", MaxTiles: 6}},
		{text: "phi3-v:max-tiles=256", want: Vision{Family: "phi3-v", MaxTiles: 256}},
	} {
		got, err := ParseVision(c.text)
		require.NoError(t, err, c.text)
		require.Equal(t, c.want, got)
		require.NoError(t, got.Validate())
		if c.back == "" {
			c.back = c.text
		}
		require.Equal(t, c.back, got.String())
	}
}

func TestParseVisionErrors(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"gpt-4o", `unknown vision family "gpt-4o": want one of qwen2-vl,`},
		{"Qwen2-VL", "unknown vision family"},
		{":max-pixels=5", `unknown vision family ""`},
		{"fixed", "tokens per image"},
		{"fixed:", "tokens per image"},
		{"fixed:0", `"0" is not a positive integer`},
		{"fixed:-3", "is not a positive integer"},
		{"fixed:5,max-pixels=4", "is not a positive integer"},
		{"fixed:99999999999999999999", "is not a positive integer"},
		{"qwen2-vl:", `unknown option ""`},
		{"qwen2-vl:max-pixels", `max-pixels: "" is not a positive integer`},
		{"qwen2-vl:max-pixels=", "is not a positive integer"},
		{"qwen2-vl:max-pixels=0", "is not a positive integer"},
		{"qwen2-vl:max-pixels=+5", "is not a positive integer"},
		{"qwen2-vl:max-pixels=1e6", "is not a positive integer"},
		{"qwen2-vl:max-pixels=9000,max-pixels=9001", "max-pixels is given twice"},
		{"qwen2-vl:max-pixels=9000,", `unknown option ""`},
		{"qwen2-vl:pixels=9000", `unknown option "pixels=9000"`},
		{"qwen2-vl:max-pixels=3135", "min-pixels=3136 is over max-pixels=3135"},
		{"qwen3-vl:min-pixels=16777217", "min-pixels=16777217 is over max-pixels=16777216"},
		{"qwen2-vl:max-tiles=4", "max-tiles does not apply"},
		{"gemma3:max-pixels=4", "max-pixels does not apply"},
		{"llava-next:min-pixels=4", "min-pixels does not apply"},
		{"internvl:max-tiles=257", "max-tiles=257 is over 256"},
	} {
		v, err := ParseVision(c.text)
		require.ErrorContains(t, err, c.want, c.text)
		require.Zero(t, v)
	}
}

func TestVisionValidate(t *testing.T) {
	require.NoError(t, Vision{}.Validate())
	require.NoError(t, Vision{MaxPixels: 1003520}.Validate())
	require.NoError(t, Vision{Fixed: 1}.Validate())
	require.Equal(t, "fixed:1", Vision{Fixed: 1}.String())
	require.Equal(t, "qwen2.5-vl:max-pixels=1003520", Vision{MaxPixels: 1003520}.String())

	for _, c := range []struct {
		v    Vision
		want string
	}{
		{Vision{Family: "nope"}, "unknown vision family"},
		{Vision{Family: "fixed"}, "0 tokens per image"},
		{Vision{Fixed: -1}, "-1 tokens per image"},
		{Vision{Fixed: 5, MaxPixels: 9000}, "max-pixels does not apply"},
		{Vision{Family: "gemma3", Fixed: 5}, "a fixed count does not apply"},
		{Vision{MaxPixels: -1}, "max-pixels=-1 is negative"},
		{Vision{MinPixels: -1}, "min-pixels=-1 is negative"},
		{Vision{Family: "internvl", MaxTiles: -1}, "max-tiles=-1 is negative"},
		{Vision{MaxTiles: 3}, "max-tiles does not apply"},
	} {
		require.ErrorContains(t, c.v.Validate(), c.want)
		_, err := c.v.Count(640, 480)
		require.Equal(t, c.v.Validate(), err)
	}
}

// Every family is in the message that lists them.
func TestFamilyNames(t *testing.T) {
	listed := strings.Split(strings.ReplaceAll(familyNames, ":N", ""), ", ")
	var known []string
	for name := range families {
		known = append(known, name)
	}
	require.ElementsMatch(t, known, listed)
}

func FuzzParseVision(f *testing.F) {
	for _, s := range []string{"", "fixed:576", "internvl:max-tiles=6", "qwen3-vl:min-pixels=100,max-pixels=200", "qwen2-vl:,", "a:b=c"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		v, err := ParseVision(s)
		if err != nil {
			require.Zero(t, v)
			return
		}
		again, err := ParseVision(v.String())
		require.NoError(t, err)
		require.Equal(t, v.String(), again.String())
		if s != "" {
			require.Equal(t, v, again)
		}
	})
}
