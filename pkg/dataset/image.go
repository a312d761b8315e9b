package dataset

import (
	"encoding/binary"
	"hash/crc32"
	"math/rand/v2"

	"example.com/tokpace/pkg/api"
)

// maxSide is the largest image side in pixels.
const maxSide = 1 << 14

// block is the side of the squares that an image is made of, in pixels. Servers
// count tokens by the size alone; large squares of two colours keep the request
// small and cheap to build, so that the client's own work stays out of the way.
const block = 16

// pngImage draws a PNG image of random squares in two random colours. The PNG
// is put together here (PNG specification, third edition, sections 5, 9 and 11)
// because the general encoder takes many times as long: at one bit a pixel a
// square is two bytes wide, and its rows below the first are written as "no
// difference to the row above".
func pngImage(rng *rand.Rand, width, height int) api.Image {
	const bitDepth, indexed = 1, 3
	header := binary.BigEndian.AppendUint32(nil, uint32(width))
	header = binary.BigEndian.AppendUint32(header, uint32(height))
	header = append(header, bitDepth, indexed, 0, 0, 0)
	colours := binary.BigEndian.AppendUint64(nil, rng.Uint64())[:6]

	data := []byte("\x89PNG\r\n\x1a\n")
	data = appendChunk(data, "IHDR", header)
	data = appendChunk(data, "PLTE", colours)
	data = appendChunk(data, "IDAT", pixels(rng, width, height))
	data = appendChunk(data, "IEND", nil)
	return api.Image{MIME: "image/png", Data: data}
}

func appendChunk(to []byte, name string, data []byte) []byte {
	to = binary.BigEndian.AppendUint32(to, uint32(len(data)))
	at := len(to)
	to = append(to, name...)
	to = append(to, data...)
	return binary.BigEndian.AppendUint32(to, crc32.ChecksumIEEE(to[at:]))
}

// pixels are the compressed rows, each a byte that says how and then its bits.
func pixels(rng *rand.Rand, width, height int) []byte {
	const plain, asAbove = 0, 2
	stride := 1 + (width+7)/8
	rows := make([]byte, block*stride)
	rows[0] = plain
	for k := 1; k < block; k++ {
		rows[k*stride] = asAbove
	}
	z := newRunCoder(nil)
	for y := 0; y < height; y += block {
		var random uint64
		for x := range (width + block - 1) / block {
			if x%64 == 0 {
				random = rng.Uint64()
			}
			colour := -byte(random & 1)
			random >>= 1
			for k := 1 + 2*x; k < min(3+2*x, stride); k++ {
				rows[k] = colour
			}
		}
		z.write(rows[:min(block, height-y)*stride])
	}
	return z.close()
}
