package api

import (
	"encoding/base64"
	"encoding/binary"
	"math/bits"

	"example.com/tokpace/pkg/freelist"
)

// walkVectors reads an answer of vectors as vectorAnswer does, without decoding a
// number: each is checked, counted and passed over. ok is false when the answer is
// anything but vectors of one form and a usage; then it has to be decoded.
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
	for {
		n += w.shortNumbers()
		w.space()
		if !w.number() {
			return 0, false
		}
		n++
		if w.i < len(w.b) && w.b[w.i] == ',' {
			w.i++
			continue
		}
		if w.take(']') {
			return n, true
		}
		if !w.take(',') {
			return 0, false
		}
	}
}

// shortNumbers takes numbers of the usual form, each with the comma behind it: a sign
// perhaps, a digit, a point, up to twelve digits. Nobody can predict how long each of
// them is, so no branch depends on it, and the next one begins where the comma is found,
// whatever checking this one still has to do.
func (w *walker) shortNumbers() (n int) {
	const window = 24
	b, i := w.b, w.i
	for len(b)-i >= window {
		p := b[i : i+window : i+window]
		head := binary.LittleEndian.Uint64(p)
		comma := where(head^ones*',', binary.LittleEndian.Uint64(p[8:])^ones*',')
		sign := (uint32(byte(head)^'-') - 1) >> 31 // 1 if there is one
		q := p[sign : sign+18]
		first, second := digits8(binary.LittleEndian.Uint64(q[2:])), digits8(binary.LittleEndian.Uint64(q[10:]))
		digits := first + second&-(first>>3) // the second only behind a full first
		head >>= sign * 8
		if byte(head)-'0' > 9 || byte(head>>8) != '.' || digits == 0 || int(sign)+2+digits != comma {
			break
		}
		i += comma + 1
		n++
	}
	w.i = i
	return n
}

// where is the first byte that is 0 of the sixteen of two words, 16 if there is none.
func where(first, second uint64) int {
	a := bits.TrailingZeros64((first-ones)&^first&highs) >> 3
	b := bits.TrailingZeros64((second-ones)&^second&highs) >> 3
	return a + b&-(a>>3)
}

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
