package api

import (
	"encoding/base64"
	"encoding/binary"
	"math/bits"

	"example.com/tokpace/pkg/freelist"
)

// walkVectors reads an answer of vectors as vectorAnswer does, without decoding a
// number: they are counted and passed over, as far as they are made of what numbers are
// made of. ok is false when the answer is anything but vectors of one form and a usage;
// then it has to be decoded.
func walkVectors(body []byte, dtype string) (a Answer, ok bool) {
	w := &walker{b: body}
	if !w.take('{') {
		return a, false
	}
	var (
		seen  fields
		usage counts
	)
	for first := true; ; first = false {
		key, more, ok := w.key(first)
		if !ok {
			return a, false
		}
		if !more {
			break
		}
		switch string(key) {
		case "data":
			ok = seen.first(1) && w.vectors(&a, dtype)
		case "usage":
			ok = seen.first(2) && w.usage(&usage)
		case "error":
			ok = seen.first(4) && w.null()
		case "object":
			w.space()
			begin := w.i
			ok = seen.first(8) && w.value(0) && string(body[begin:w.i]) != `"error"`
		default:
			ok = other(key, "data", "usage", "error", "object") && w.value(0)
		}
		if !ok {
			return a, false
		}
	}
	a.Usage.add(usage, true)
	return a, w.end() && a.Vectors.V > 0
}

// vectors takes the list of vectors.
func (w *walker) vectors(a *Answer, dtype string) bool {
	if !w.take('[') {
		return false
	}
	n := 0
	for {
		dim, ok := w.vectorItem(dtype)
		if !ok || n > 0 && dim != a.Dim.V {
			return false
		}
		n++
		a.Vectors, a.Dim = Some(n), Some(dim)
		if w.take(']') {
			return true
		}
		if !w.take(',') {
			return false
		}
	}
}

func (w *walker) vectorItem(dtype string) (dim int, ok bool) {
	if !w.take('{') {
		return 0, false
	}
	var seen fields
	for first := true; ; first = false {
		key, more, ok := w.key(first)
		if !ok || !more {
			return dim, ok && dim > 0
		}
		switch string(key) {
		case "embedding", "data":
			// An item with both is nobody's.
			if !seen.first(1) {
				return 0, false
			}
			dim, ok = w.vector(dtype)
		default:
			ok = other(key, "embedding", "data") && w.value(0)
		}
		if !ok {
			return 0, false
		}
	}
}

// vector takes numbers, rows of numbers of one length, or base64, and returns the
// number of elements (of a row).
func (w *walker) vector(dtype string) (dim int, ok bool) {
	w.space()
	if w.i < len(w.b) && w.b[w.i] == '"' {
		s, ok := w.str()
		if !ok || s.escaped || s.wide {
			return 0, false
		}
		n, size := base64Len(w.b[s.from:s.to]), elementSize(dtype)
		if n <= 0 || size == 0 || n%size != 0 {
			return 0, false
		}
		return n / size, true
	}
	if !w.take('[') {
		return 0, false
	}
	if !w.take('[') {
		return w.numbers()
	}
	for {
		n, ok := w.numbers()
		if !ok || dim > 0 && n != dim {
			return 0, false
		}
		dim = n
		if w.take(']') {
			return dim, true
		}
		if !w.take(',') || !w.take('[') {
			return 0, false
		}
	}
}

// numbers takes the rest of a list of numbers that is not empty, and counts them.
func (w *walker) numbers() (n int, ok bool) {
	if n := w.plainNumbers(); n > 0 {
		return n, true
	}
	for {
		w.space()
		if !w.number() {
			return 0, false
		}
		n++
		if w.take(']') {
			return n, true
		}
		if !w.take(',') {
			return 0, false
		}
	}
}

// plainNumbers takes the rest of a list whose elements are made of digits, points and
// minus signs alone, and counts them: whatever is no number, as null, NaN or a string,
// has other bytes. Where in a number they stand is not looked at; CheckVectors does that. It
// takes nothing and returns 0 when there is anything else in the list, white space
// and exponents too, or an empty element. (A slash passes as well. It stands nowhere
// in JSON but in strings.)
//
// Eight bytes are looked at together, each in its lane of a word, whose upper bit is a
// mark. Lanes above the first mark of the list's end may have wrong ones.
func (w *walker) plainNumbers() (n int) {
	b, i := w.b, w.i
	last := uint64(0) // its upper lane says that the byte before is a comma, or the list's begin
	filled := uint64(highs)
	for ; len(b)-i >= 32; i += 32 {
		p := b[i : i+32 : i+32]
		x0, x1 := binary.LittleEndian.Uint64(p), binary.LittleEndian.Uint64(p[8:])
		x2, x3 := binary.LittleEndian.Uint64(p[16:]), binary.LittleEndian.Uint64(p[24:])
		above := above9(x0) | above9(x1) | above9(x2) | above9(x3)
		if (above|^(fromComma(x0)&fromComma(x1)&fromComma(x2)&fromComma(x3)))&highs != 0 {
			break
		}
		c0, c1, c2, c3 := noComma(x0), noComma(x1), noComma(x2), noComma(x3)
		filled &= (c0 | c0<<8 | last>>56) & (c1 | c1<<8 | c0>>56) & (c2 | c2<<8 | c1>>56) & (c3 | c3<<8 | c2>>56)
		sum := c0>>7&ones + c1>>7&ones + c2>>7&ones + c3>>7&ones
		n += 32 - int(sum*ones>>56)
		last = c3
	}
	if filled&highs != highs {
		return 0
	}
	for ; len(b)-i >= 8; i += 8 {
		x := binary.LittleEndian.Uint64(b[i:])
		c := noComma(x)
		comma, empty := ^c&highs, ^(c|c<<8|last>>56)&highs
		other := (above9(x) | ^fromComma(x)) & highs
		if other == 0 {
			if empty != 0 {
				return 0
			}
			n += bits.OnesCount64(comma)
			last = c
			continue
		}
		end := bits.TrailingZeros64(other) >> 3 // the first that is something else
		inside := uint64(1)<<(8*end) - 1
		i += end
		if b[i] != ']' || i == w.i || b[i-1] == ',' || empty&inside != 0 {
			return 0
		}
		w.i = i + 1
		return n + bits.OnesCount64(comma&inside) + 1
	}
	return 0
}

// above9 marks the lanes that are above '9'.
func above9(x uint64) uint64 { return x + ones*(0x7f-'9') | x }

// fromComma marks the lanes that are ',' or above.
func fromComma(x uint64) uint64 { return (x | highs) - ones*',' }

// noComma marks the lanes that are no comma, if none is above ASCII.
func noComma(x uint64) uint64 { return (x ^ ones*',') + ones*0x7f }

var decoded = freelist.List[*[]byte]{New: func() *[]byte { return new([]byte) }}

// base64Len is the number of bytes that a base64 text stands for, -1 if it is none.
func base64Len(text []byte) int {
	p := decoded.Get()
	defer decoded.Put(p)
	if n := base64.StdEncoding.DecodedLen(len(text)); cap(*p) < n {
		*p = make([]byte, n)
	}
	n, err := base64.StdEncoding.Decode((*p)[:cap(*p)], text)
	if err != nil {
		return -1
	}
	return n
}
