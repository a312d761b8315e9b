package tokens

import (
	"fmt"
	"math"
)

// ImageCount is what one image adds to a prompt.
type ImageCount struct {
	// Tokens is the number of placeholder tokens that the family's formula gives, without markers.
	Tokens int

	// Markers is the number of start and end tokens around them: 2 for the qwen families and internvl, 4 for gemma3 (begin,
	// end and the two newline tokens), else 0. The prompt grows by Tokens + Markers.
	Markers int

	// Placeholder is the length of the placeholder range, which a server reports as
	// usage.prompt_tokens_details.image_tokens: it includes the markers for internvl and gemma3 only.
	Placeholder int
}

// maxSide is the longest side that any image format can state (PNG: 2^31-1 pixels). With it all areas fit into int64.
const maxSide = 1<<31 - 1

// Count returns the tokens of an image of width x height pixels, as [ImageSize] reads them. Errors: an invalid v
// (see [Vision.Validate]); a side that is not positive or over 2^31-1; for the qwen families sides in a proportion over
// 200 to 1, which the models refuse; for phi an image so narrow that it scales down to nothing.
func (v Vision) Count(width, height int) (ImageCount, error) {
	if err := v.Validate(); err != nil {
		return ImageCount{}, err
	}
	if width <= 0 || height <= 0 {
		return ImageCount{}, fmt.Errorf("tokens: image of %dx%d pixels: both sides must be positive", width, height)
	}
	if width > maxSide || height > maxSide {
		return ImageCount{}, fmt.Errorf("tokens: image of %dx%d pixels: a side is over %d", width, height, maxSide)
	}
	name := v.family()
	f := families[name]
	tokens, err := f.count(v, f, width, height)
	if err != nil {
		return ImageCount{}, fmt.Errorf("tokens: %s: image of %dx%d pixels: %w", name, width, height, err)
	}
	c := ImageCount{Tokens: tokens, Markers: f.markers, Placeholder: tokens}
	if f.inRange {
		c.Placeholder += f.markers
	}
	return c, nil
}

// countQwen scales the image to sides that are multiples of the factor and an area within the limits, and counts squares
// of that factor. Source: smart_resize of transformers' Qwen2-VL image processor. Python rounds halves to even there.
func countQwen(v Vision, f family, width, height int) (int, error) {
	w, h, side := float64(width), float64(height), float64(f.factor)
	if max(w, h)/min(w, h) > 200 {
		return 0, fmt.Errorf("the sides are in a proportion over 200 to 1")
	}
	low, high := v.pixelLimits(f)
	area := float64(int64(width) * int64(height))
	cols, rows := math.RoundToEven(w/side), math.RoundToEven(h/side)
	switch scaled := cols * side * (rows * side); {
	case scaled > float64(high):
		beta := math.Sqrt(area / float64(high))
		cols, rows = max(1, math.Floor(w/beta/side)), max(1, math.Floor(h/beta/side))
	case scaled < float64(low):
		beta := math.Sqrt(float64(low) / area)
		cols, rows = math.Ceil(w*beta/side), math.Ceil(h*beta/side)
	}
	return int(cols) * int(rows), nil
}

const (
	clipSide = 336           // pixels per side of the CLIP encoder's input
	clipGrid = clipSide / 14 // patches per side
)

// countLlava: CLIP's patches of the one scaled image. Source: vLLM llava.py, strategy "default" (no class token).
func countLlava(Vision, family, int, int) (int, error) {
	return clipGrid * clipGrid, nil
}

// llavaNextGrids are the tile grids (columns, rows) of the released checkpoints' image_grid_pinpoints, in their order,
// which decides ties.
var llavaNextGrids = [...][2]int64{{2, 1}, {1, 2}, {2, 2}, {1, 3}, {3, 1}}

// countLlavaNext: the overview, the patches of the best tile grid without the padding that the image's proportions leave,
// and one newline token for each row of them. Sources: transformers' select_best_resolution, vLLM's llava_next.py.
func countLlavaNext(_ Vision, _ family, width, height int) (int, error) {
	w, h := int64(width), int64(height)
	nc, nr := llavaNextGrid(w, h)
	cols, rows := clipGrid*nc, clipGrid*nr
	if float64(w)/float64(h) > float64(cols)/float64(rows) {
		rows -= (rows - h*cols/w) / 2 * 2
	} else {
		cols -= (cols - w*rows/h) / 2 * 2
	}
	return int(clipGrid*clipGrid + cols*rows + rows), nil
}

// llavaNextGrid picks the grid on which the image keeps most of its pixels, and among equals the one that wastes least.
func llavaNextGrid(w, h int64) (cols, rows int64) {
	bestKept, bestWaste := int64(-1), int64(0)
	for _, g := range llavaNextGrids {
		gw, gh := g[0]*clipSide, g[1]*clipSide
		scale := min(float64(gw)/float64(w), float64(gh)/float64(h))
		kept := min(int64(float64(w)*scale)*int64(float64(h)*scale), w*h)
		waste := gw*gh - kept
		if kept > bestKept || kept == bestKept && waste < bestWaste {
			bestKept, bestWaste, cols, rows = kept, waste, g[0], g[1]
		}
	}
	return cols, rows
}

// countInternVL: 256 tokens for each tile of 448 pixels a side, with an overview tile when there is more than one. The
// grid is the one closest in proportions; the larger of two equally close ones is taken only if the image fills more than
// half of it. Source: dynamic_preprocess of InternVL2, which vLLM's internvl.py follows.
func countInternVL(v Vision, f family, width, height int) (int, error) {
	const (
		tokensPerTile = 256 // (448/14)^2 patches, a quarter of them after pixel shuffle
		halfTileArea  = 448 * 448 / 2
	)
	ratio := float64(width) / float64(height)
	area := int64(width) * int64(height)
	tiles, best := 1, math.Inf(1)
	for n := 1; n <= orDefault(v.MaxTiles, f.maxTiles); n++ {
		for i := 1; i <= n; i++ {
			if n%i != 0 {
				continue
			}
			diff := math.Abs(ratio - float64(i)/float64(n/i))
			if diff < best || diff == best && area > halfTileArea*int64(n) {
				tiles, best = n, diff
			}
		}
	}
	if tiles > 1 {
		tiles++
	}
	return tiles * tokensPerTile, nil
}

// countPhi: 144 tokens for the overview and for each tile, one newline token after each row of 12 of both, and one
// separator. The long side gets as many tiles as the limit on the whole grid allows. Source: Phi-3-vision's
// image processor (calc_hd_transform_size), which vLLM's phi3v.py follows.
func countPhi(v Vision, f family, width, height int) (int, error) {
	most := orDefault(v.MaxTiles, f.maxTiles)
	ratio := float64(max(width, height)) / float64(min(width, height))
	long := 1
	for s := 2; s*int(math.Ceil(float64(s)/ratio)) <= most; s++ {
		long = s
	}
	shortPixels := int(float64(long*clipSide) / ratio)
	if shortPixels == 0 {
		return 0, fmt.Errorf("the sides are in a proportion over %d to 1", long*clipSide)
	}
	short := (shortPixels + clipSide - 1) / clipSide
	rows := short
	if width < height {
		rows = long
	}
	return (long*short+1)*144 + 1 + (rows+1)*12, nil
}

// countGemma: a fixed number of soft tokens. Pan and scan, which is off by default, is not modelled.
func countGemma(Vision, family, int, int) (int, error) {
	return 256, nil
}

func countFixed(v Vision, _ family, _, _ int) (int, error) {
	return v.Fixed, nil
}
