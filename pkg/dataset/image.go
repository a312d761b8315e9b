package dataset

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"math/rand/v2"

	"example.com/tokpace/pkg/api"
)

// maxSide is the largest image side in pixels.
const maxSide = 1 << 14

// block is the side of the squares that an image is made of, in pixels. Servers
// count tokens by the size alone; large squares of two colours keep the request
// small and cheap to build, so that the client's own work stays out of the way.
const block = 16

// pngImage draws a PNG image of random squares.
func pngImage(rng *rand.Rand, width, height int) (api.Image, error) {
	palette := color.Palette{shade(rng), shade(rng)}
	img := image.NewPaletted(image.Rect(0, 0, width, height), palette)
	for y := 0; y < height; y += block {
		row := img.Pix[y*img.Stride:][:width]
		for x := 0; x < width; x += block {
			if rng.Uint64()&1 == 1 {
				for k := x; k < min(x+block, width); k++ {
					row[k] = 1
				}
			}
		}
		for k := y + 1; k < min(y+block, height); k++ {
			copy(img.Pix[k*img.Stride:], row)
		}
	}
	var buf bytes.Buffer
	enc := png.Encoder{CompressionLevel: png.BestSpeed}
	if err := enc.Encode(&buf, img); err != nil {
		return api.Image{}, err
	}
	return api.Image{MIME: "image/png", Data: buf.Bytes()}, nil
}

func shade(rng *rand.Rand) color.Color {
	v := rng.Uint32()
	return color.RGBA{R: uint8(v), G: uint8(v >> 8), B: uint8(v >> 16), A: 0xff}
}
