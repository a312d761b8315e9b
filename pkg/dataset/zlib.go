package dataset

import (
	"encoding/binary"
	"hash"
	"hash/adler32"
	"math/bits"
)

// A runCoder writes a zlib stream (RFC 1950) whose only compression is that of
// runs: DEFLATE's fixed code (RFC 1951, section 3.2.6) with matches of distance
// 1. That is all a picture of squares needs, it takes a fraction of a general
// compressor's time and memory, and its bytes, which the fake server's answers
// depend on, do not change with the version of Go.
type runCoder struct {
	out []byte
	acc uint64 // bits to come, the first one lowest
	n   int    // how many
	sum hash.Hash32
}

func newRunCoder(out []byte) *runCoder {
	z := &runCoder{out: append(out, 0x78, 0x01), sum: adler32.New()}
	z.put(1, 1) // the last block
	z.put(1, 2) // of the fixed code
	return z
}

func (z *runCoder) write(data []byte) {
	_, _ = z.sum.Write(data) // a hash takes everything
	for i := 0; i < len(data); {
		end := i + 1
		for end < len(data) && data[end] == data[i] {
			end++
		}
		z.run(data[i], end-i)
		i = end
	}
}

// close ends the stream and returns it.
func (z *runCoder) close() []byte {
	z.symbol(endOfBlock)
	z.put(0, 7) // fills the last byte
	return binary.BigEndian.AppendUint32(z.out, z.sum.Sum32())
}

const (
	endOfBlock  = 256
	firstLength = 257
	lastLength  = 285
	minMatch    = 3
	maxMatch    = 258
)

// run writes n bytes b.
func (z *runCoder) run(b byte, n int) {
	z.symbol(int(b))
	n--
	for n >= minMatch {
		k := min(n, maxMatch)
		z.length(k)
		z.put(0, 5) // distance 1
		n -= k
	}
	for range n {
		z.symbol(int(b))
	}
}

// length writes a match's length. From 11 on, four symbols share a number of
// extra bits.
func (z *runCoder) length(k int) {
	if k == maxMatch {
		z.symbol(lastLength)
		return
	}
	k -= minMatch
	extra := max(0, bits.Len(uint(k))-3)
	z.symbol(firstLength + 4*extra + k>>extra)
	z.put(uint64(k)&(1<<extra-1), extra)
}

// symbol writes a symbol of the fixed code, whose bits go highest first.
func (z *runCoder) symbol(s int) {
	var code, n int
	switch {
	case s < 144:
		code, n = 0x30+s, 8
	case s < 256:
		code, n = 0x190+s-144, 9
	case s < 280:
		code, n = s-256, 7
	default:
		code, n = 0xc0+s-280, 8
	}
	z.put(uint64(bits.Reverse16(uint16(code))>>(16-n)), n)
}

// put writes the n lowest bits of v, lowest first.
func (z *runCoder) put(v uint64, n int) {
	z.acc |= v << z.n
	z.n += n
	for z.n >= 8 {
		z.out = append(z.out, byte(z.acc))
		z.acc >>= 8
		z.n -= 8
	}
}
