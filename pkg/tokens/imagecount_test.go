package tokens

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func vision(t *testing.T, s string) Vision {
	t.Helper()
	v, err := ParseVision(s)
	require.NoError(t, err)
	return v
}

func placeholders(t *testing.T, family string, width, height int) int {
	t.Helper()
	c, err := vision(t, family).Count(width, height)
	require.NoError(t, err, "%s %dx%d", family, width, height)
	return c.Tokens
}

// One row per size, one column per family. 720/32 = 22.5 and 336/32 = 10.5 are halves that go to the even neighbour.
func TestCountVectors(t *testing.T) {
	columns := []string{
		"qwen2-vl", "qwen2.5-vl", "qwen2.5-vl:max-pixels=1003520", "qwen3-vl", "internvl", "phi3-v", "phi3.5-v", "llava-next",
	}
	for _, row := range []struct {
		height, width int
		want          [8]int
	}{
		{256, 256, [8]int{81, 81, 81, 64, 256, 2509, 757, 1176}},
		{720, 1280, [8]int{1196, 1196, 1196, 880, 2304, 2353, 757, 1948}},
		{1024, 800, [8]int{1073, 1073, 1073, 800, 3328, 2509, 757, 2448}},
		{336, 336, [8]int{144, 144, 144, 100, 256, 2509, 757, 1176}},
		{512, 512, [8]int{324, 324, 324, 256, 256, 2509, 757, 2928}},
		{1080, 1920, [8]int{2691, 2691, 1222, 2040, 2304, 2353, 757, 1948}},
		{2160, 3840, [8]int{10549, 10549, 1222, 8160, 2304, 2353, 757, 1948}},
	} {
		for i, family := range columns {
			require.Equal(t, row.want[i], placeholders(t, family, row.width, row.height), "%s HxW %dx%d", family, row.height, row.width)
		}
		require.Equal(t, 576, placeholders(t, "llava-1.5", row.width, row.height))
		require.Equal(t, 256, placeholders(t, "gemma3", row.width, row.height))
		require.Equal(t, 7, placeholders(t, "fixed:7", row.width, row.height))
	}
}

// Sizes at the edges of the formulas. The expected counts come from a separate Python transcription of the processors.
func TestCountEdges(t *testing.T) {
	for _, c := range []struct {
		family        string
		width, height int
		want          int
	}{
		{"qwen2-vl", 1, 1, 4}, // scaled up to the least area
		{"qwen2-vl", 28, 28, 4},
		{"qwen2-vl", 70, 56, 4}, // 2.5 -> 2
		{"qwen2-vl", 98, 56, 8}, // 3.5 -> 4
		{"qwen2-vl", 70, 28, 8}, // 2.5 -> 2 makes it too small
		{"qwen2-vl", 2000, 10, 29},
		{"qwen2-vl", 10, 2000, 29}, // 200 to 1 is allowed
		{"qwen2-vl", 5600, 28, 200},
		{"qwen2-vl", 13000, 9000, 16218},
		{"qwen2-vl:max-pixels=3136", 28, 5600, 28}, // the short side stays at one token
		{"qwen2-vl:max-pixels=3136", 5600, 28, 28},
		{"qwen3-vl", 13000, 9000, 16218},
		{"qwen3-vl", 1, 1, 64},
		{"qwen3-vl", 2000, 10, 114},
		{"internvl", 70, 28, 2816},
		{"internvl", 10, 2000, 3328},
		{"internvl", 896, 448, 768},   // 2x1 and 4x2 tie; too small for the second
		{"internvl", 1568, 896, 2304}, // 3x2, 2x1 and 4x2 tie; the last is filled by more than half
		{"internvl", 640, 480, 3328},  // 4x3
		{"internvl:max-tiles=6", 800, 1024, 1792},
		{"internvl:max-tiles=1", 800, 1024, 256}, // no overview beside a single tile
		{"phi3-v", 672, 336, 2353},
		{"phi3-v", 336, 672, 2377}, // the count depends on the number of rows
		{"phi3-v", 1000, 100, 1609},
		{"phi3.5-v", 1000, 100, 745},
		{"phi3.5-v", 10, 2000, 781},
		{"phi3-v:max-tiles=4", 1000, 100, 745},
		{"llava-next", 1, 1, 1176},
		{"llava-next", 672, 336, 1752},
		{"llava-next", 448, 896, 1776},
		{"llava-next", 1000, 100, 1160},
		{"llava-next", 1008, 337, 2328},
		{"llava-next", 2000, 10, 576}, // all rows are padding
	} {
		require.Equal(t, c.want, placeholders(t, c.family, c.width, c.height), "%s %dx%d", c.family, c.width, c.height)
	}
}

// A 512-token text, a 1024x800 (height x width) image and 21 tokens of template and markers were 1606 prompt tokens on a
// real server; two of the 21 are the markers.
func TestCaseMultimodalPromptTokens(t *testing.T) {
	c, err := Vision{}.Count(800, 1024)
	require.NoError(t, err)
	require.Equal(t, ImageCount{Tokens: 1073, Markers: 2, Placeholder: 1073}, c)
	require.Equal(t, 1606, 512+c.Tokens+c.Markers+19)
}

func TestCountMarkers(t *testing.T) {
	for family, want := range map[string]ImageCount{
		"qwen2-vl":   {Tokens: 81, Markers: 2, Placeholder: 81},
		"qwen2.5-vl": {Tokens: 81, Markers: 2, Placeholder: 81},
		"qwen3-vl":   {Tokens: 64, Markers: 2, Placeholder: 64},
		"llava-1.5":  {Tokens: 576, Placeholder: 576},
		"llava-next": {Tokens: 1176, Placeholder: 1176},
		"internvl":   {Tokens: 256, Markers: 2, Placeholder: 258},
		"phi3-v":     {Tokens: 2509, Placeholder: 2509},
		"phi3.5-v":   {Tokens: 757, Placeholder: 757},
		"gemma3":     {Tokens: 256, Markers: 4, Placeholder: 260},
		"fixed:10":   {Tokens: 10, Placeholder: 10},
	} {
		c, err := vision(t, family).Count(256, 256)
		require.NoError(t, err)
		require.Equal(t, want, c, family)
	}
}

func TestCountDefaultsAreQwen25(t *testing.T) {
	for _, size := range [][2]int{{1, 1}, {640, 480}, {3840, 2160}, {9000, 9000}} {
		zero, err := Vision{}.Count(size[0], size[1])
		require.NoError(t, err)
		named, err := Vision{Family: "qwen2.5-vl", MinPixels: 3136, MaxPixels: 12_845_056}.Count(size[0], size[1])
		require.NoError(t, err)
		require.Equal(t, named, zero)
	}
}

func TestCountErrors(t *testing.T) {
	for _, family := range []string{"qwen2-vl", "qwen3-vl", "llava-1.5", "llava-next", "internvl", "phi3-v", "gemma3", "fixed:3"} {
		v := vision(t, family)
		for _, size := range [][2]int{{0, 0}, {0, 10}, {10, 0}, {-1, 10}, {10, -1}, {math.MinInt, math.MinInt}} {
			c, err := v.Count(size[0], size[1])
			require.ErrorContains(t, err, "both sides must be positive", "%s %v", family, size)
			require.Zero(t, c)
		}
	}
	for _, family := range []string{"qwen2-vl", "qwen2.5-vl", "qwen3-vl"} {
		for _, size := range [][2]int{{201, 1}, {1, 201}, {2001, 10}, {maxSide, 1}} {
			_, err := vision(t, family).Count(size[0], size[1])
			require.ErrorContains(t, err, "proportion over 200 to 1", "%s %v", family, size)
		}
	}
	_, err := vision(t, "phi3-v").Count(5377, 1)
	require.ErrorContains(t, err, "proportion over 5376 to 1")
	_, err = vision(t, "phi3.5-v").Count(1, 1345)
	require.ErrorContains(t, err, "proportion over 1344 to 1")
	require.Equal(t, (16*1+1)*144+1+2*12, placeholders(t, "phi3-v", 5376, 1))
}

// Giant sizes and limits neither overflow nor hang.
func TestCountGiantSizes(t *testing.T) {
	for _, c := range []struct {
		family string
		want   int
	}{
		{"qwen2-vl", 128 * 128}, {"qwen3-vl", 128 * 128}, {"llava-1.5", 576}, {"llava-next", 576 + 48*48 + 48},
		{"internvl", 10 * 256}, {"internvl:max-tiles=256", 257 * 256},
		{"phi3-v", 17*144 + 1 + 5*12}, {"phi3-v:max-tiles=256", 257*144 + 1 + 17*12}, {"gemma3", 256},
	} {
		require.Equal(t, c.want, placeholders(t, c.family, maxSide, maxSide), c.family)
	}
	v := Vision{MinPixels: math.MaxInt, MaxPixels: math.MaxInt}
	for _, size := range [][2]int{{1, 1}, {1, 200}, {maxSide, maxSide}, {maxSide, maxSide/200 + 1}} {
		c, err := v.Count(size[0], size[1])
		require.NoError(t, err)
		require.Positive(t, c.Tokens)
	}

	if math.MaxInt > maxSide {
		over := maxSide
		over++
		for _, size := range [][2]int{{over, 5}, {5, over}, {math.MaxInt, math.MaxInt}} {
			_, err := Vision{}.Count(size[0], size[1])
			require.ErrorContains(t, err, "a side is over 2147483647")
		}
	}
}

// The scaled image stays within the area limits.
func TestCountStaysWithinLimits(t *testing.T) {
	const side, limit = 28, 1_003_520
	v := Vision{MaxPixels: limit}
	for w := 1; w <= 4000; w += 37 {
		for h := (w + 199) / 200; h <= min(4000, 200*w); h += 41 {
			c, err := v.Count(w, h)
			require.NoError(t, err)
			require.LessOrEqual(t, c.Tokens*side*side, limit, "%dx%d", w, h)
			require.GreaterOrEqual(t, c.Tokens*side*side, 3136, "%dx%d", w, h)
			turned, err := v.Count(h, w)
			require.NoError(t, err)
			require.Equal(t, c, turned, "the same when turned")
		}
	}
}
