package fakeserver

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/bits"
	"math/rand/v2"
	"sync"
)

// patternLen is the number of different values in a vector. Longer vectors repeat them, so that a 64 MiB body is served
// from a few KiB.
const patternLen = 4096

// vector is a unit vector of any length, held as its repeating values.
type vector struct {
	pattern []float32
	dim     int
}

// newVector makes the vector of a key. Values are sums of four uniform numbers, which is close enough to normal (Irwin and
// Hall) and, being integers until the one division by the norm, the same on every machine. A shorter vector of a key has
// the direction of the longer one's beginning.
func newVector(key uint64, dim int) vector {
	rng := rand.NewPCG(key, 0)
	whole := make([]int64, min(dim, patternLen))
	var sum uint64 // of squares: at most 1<<24 · (1<<18)² = 1<<60
	for i := range whole {
		u := rng.Uint64()
		x := int64(u&0xffff) + int64(u>>16&0xffff) + int64(u>>32&0xffff) + int64(u>>48)
		whole[i] = 2*(x-2*0xffff) + 1 // odd: never zero
		repeats := uint64((dim - i + patternLen - 1) / patternLen)
		sum += uint64(whole[i]*whole[i]) * repeats
	}
	norm := math.Sqrt(float64(sum))
	v := vector{pattern: make([]float32, len(whole)), dim: dim}
	for i, x := range whole {
		v.pattern[i] = float32(float64(x) / norm)
	}
	return v
}

// at returns value i.
func (v vector) at(i int) float32 { return v.pattern[i%len(v.pattern)] }

// elementFormat is how the elements of a binary vector are written.
type elementFormat struct {
	dtype     string
	endian    string // as the request says it
	size      int
	bigEndian bool
}

func parseElementFormat(dtype, endian string) (elementFormat, error) {
	f := elementFormat{dtype: dtype, endian: endian}
	switch dtype {
	case "float32", "":
		f.dtype, f.size = "float32", 4
	case "float16", "bfloat16":
		f.size = 2
	default:
		return f, badParam("embed_dtype", "embed_dtype: %q is not one of float32, float16, bfloat16", dtype)
	}
	switch endian {
	case "native", "": // of the machine vLLM runs on; here always little, or bytes would differ between machines
		f.endian = "native"
	case "little":
	case "big":
		f.bigEndian = true
	default:
		return f, badParam("endianness", "endianness: %q is not one of native, little, big", endian)
	}
	return f, nil
}

// append appends one value.
func (f elementFormat) append(b []byte, v float32) []byte {
	var order binary.AppendByteOrder = binary.LittleEndian
	if f.bigEndian {
		order = binary.BigEndian
	}
	switch f.dtype {
	case "float16":
		return order.AppendUint16(b, float16(v))
	case "bfloat16":
		return order.AppendUint16(b, bfloat16(v))
	default:
		return order.AppendUint32(b, math.Float32bits(v))
	}
}

// block returns the bytes of the vector's pattern.
func (f elementFormat) block(b []byte, v vector) []byte {
	b = b[:0]
	for _, x := range v.pattern {
		b = f.append(b, x)
	}
	return b
}

// bfloat16 rounds to the upper half of a float32, ties to even.
func bfloat16(v float32) uint16 {
	u := math.Float32bits(v)
	if v != v {
		return uint16(u>>16) | 0x40 // stays a NaN whatever bits are cut
	}
	return uint16((u + 0x7fff + u>>16&1) >> 16)
}

// float16 rounds to IEEE 754 binary16, ties to even: values from 65520 become infinite, those below 2^-14 subnormal.
func float16(v float32) uint16 {
	u := math.Float32bits(v)
	sign := uint16(u >> 16 & 0x8000)
	exp, frac := int(u>>23&0xff)-127, u&0x7fffff
	switch {
	case exp == 128 && frac != 0:
		return sign | 0x7e00 | uint16(frac>>13)
	case exp > 15:
		return sign | 0x7c00
	case exp >= -14:
		// A carry out of the fraction runs into the exponent, which is the right result, up to infinity.
		return sign + uint16(roundShift(uint32(exp+15)<<23|frac, 13))
	case exp >= -25:
		return sign + uint16(roundShift(1<<23|frac, uint(-1-exp)))
	default:
		return sign
	}
}

// roundShift returns u / 2^n rounded to nearest, ties to even, for 0 < n < 32.
func roundShift(u uint32, n uint) uint32 {
	return (u + 1<<(n-1) - 1 + u>>n&1) >> n
}

// vectorsBody is the binary body of several vectors as an io.ReaderAt that makes its bytes when they are read. It holds
// one pattern at a time.
type vectorsBody struct {
	keys   []uint64
	dim    int
	format elementFormat

	mu    sync.Mutex
	index int // of the vector whose pattern block is; -1 = none yet
	block []byte
}

// stride returns the bytes of one vector.
func (b *vectorsBody) stride() int64 { return int64(b.dim) * int64(b.format.size) }

func (b *vectorsBody) ReadAt(p []byte, off int64) (n int, err error) {
	if off < 0 {
		return 0, fmt.Errorf("fakeserver: negative offset %d", off)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for n < len(p) {
		index, within := int(off/b.stride()), off%b.stride()
		if index >= len(b.keys) {
			return n, io.EOF
		}
		if b.index != index {
			b.index, b.block = index, b.format.block(b.block, newVector(b.keys[index], b.dim))
		}
		part := b.block[within%int64(len(b.block)):]
		part = part[:min(int64(len(part)), b.stride()-within)]
		done := copy(p[n:], part)
		n += done
		off += int64(done)
	}
	return n, nil
}

// base64Len returns the length of n bytes in padded base64.
func base64Len(n int64) int64 {
	hi, lo := bits.Mul64(uint64((n+2)/3), 4)
	if hi != 0 {
		return math.MaxInt64
	}
	return int64(lo)
}
