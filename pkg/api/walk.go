package api

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

// A walker reads JSON where it stands: it checks every byte and copies none. It is
// strict, and gives up where encoding/json would have more to say: on what is no
// JSON, on deep nesting, on keys that need decoding or come twice. Then the caller
// decodes in full, so that it only ever changes how long an answer takes. (The one
// exception are the numbers of vectors: see plainNumbers.)
type walker struct {
	b []byte
	i int
}

// A span is the inside of a string: b[from:to] of a walker.
type span struct {
	from, to int
	escaped  bool // it holds escapes
	wide     bool // it holds bytes beyond ASCII, perhaps no UTF-8
}

func (s span) empty() bool { return s.from == s.to }

// maxWalk is how deep a walker follows.
const maxWalk = 64

func (w *walker) space() {
	for w.i < len(w.b) {
		switch w.b[w.i] {
		case ' ', '\t', '\n', '\r':
			w.i++
		default:
			return
		}
	}
}

// take takes the byte c, if it is next behind white space.
func (w *walker) take(c byte) bool {
	w.space()
	if w.i == len(w.b) || w.b[w.i] != c {
		return false
	}
	w.i++
	return true
}

// word takes a literal.
func (w *walker) word(word string) bool {
	if len(w.b)-w.i < len(word) || string(w.b[w.i:w.i+len(word)]) != word {
		return false
	}
	w.i += len(word)
	return true
}

// null takes null, if it is next.
func (w *walker) null() bool {
	w.space()
	return w.word("null")
}

// end reports whether nothing is left.
func (w *walker) end() bool {
	w.space()
	return w.i == len(w.b)
}

// str takes a string.
func (w *walker) str() (s span, ok bool) {
	if !w.take('"') {
		return s, false
	}
	return w.inside()
}

// inside takes the rest of a string whose quote was taken.
func (w *walker) inside() (s span, ok bool) {
	s.from = w.i
	for {
		w.i += plainText(w.b[w.i:])
		if w.i == len(w.b) {
			return s, false
		}
		switch c := w.b[w.i]; {
		case c == '"':
			s.to = w.i
			w.i++
			return s, true
		case c == '\\':
			n := escapeLen(w.b[w.i:])
			if n == 0 {
				return s, false
			}
			s.escaped = true
			w.i += n
		case c >= utf8.RuneSelf:
			s.wide = true
			for w.i < len(w.b) && w.b[w.i] >= utf8.RuneSelf {
				w.i++
			}
		default:
			return s, false
		}
	}
}

// key takes a key and its colon, or the end of the object. Before it stands a comma,
// unless it is the first. The key stands for itself.
func (w *walker) key(first bool) (key []byte, more, ok bool) {
	if w.take('}') {
		return nil, false, true
	}
	if !first && !w.take(',') {
		return nil, false, false
	}
	s, ok := w.str()
	if !ok || s.escaped || s.wide || !w.take(':') {
		return nil, false, false
	}
	return w.b[s.from:s.to], true, true
}

// value takes a value of any kind.
func (w *walker) value(depth int) bool {
	w.space()
	if w.i == len(w.b) || depth > maxWalk {
		return false
	}
	switch w.b[w.i] {
	case '"':
		_, ok := w.str()
		return ok
	case '{':
		w.i++
		for first := true; ; first = false {
			if w.take('}') {
				return true
			}
			if !first && !w.take(',') {
				return false
			}
			if _, ok := w.str(); !ok || !w.take(':') || !w.value(depth+1) {
				return false
			}
		}
	case '[':
		w.i++
		for first := true; ; first = false {
			if w.take(']') {
				return true
			}
			if !first && !w.take(',') || !w.value(depth+1) {
				return false
			}
		}
	case 't':
		return w.word("true")
	case 'f':
		return w.word("false")
	case 'n':
		return w.word("null")
	}
	return w.number()
}

// number takes a number.
func (w *walker) number() bool {
	b, i := w.b, w.i
	if i < len(b) && b[i] == '-' {
		i++
	}
	switch {
	case i == len(b) || !isDigit(b[i]):
		return false
	case b[i] == '0':
		i++
	default:
		i += digits(b[i:])
	}
	if i < len(b) && b[i] == '.' {
		n := digits(b[i+1:])
		if n == 0 {
			return false
		}
		i += 1 + n
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		n := digits(b[i:])
		if n == 0 {
			return false
		}
		i += n
	}
	w.i = i
	return true
}

func isDigit(c byte) bool { return c-'0' <= 9 }

// The bytes of a word all at once: a word's arithmetic carries, so that above the
// lowest byte found there may be false ones, below it there are none.
const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// digits is the number of digits that b begins with.
func digits(b []byte) int {
	i := 0
	for ; len(b)-i >= 8; i += 8 {
		if n := digits8(binary.LittleEndian.Uint64(b[i:])); n < 8 {
			return i + n
		}
	}
	for i < len(b) && isDigit(b[i]) {
		i++
	}
	return i
}

// digits8 is the number of digits that 8 bytes begin with.
func digits8(x uint64) int {
	// 0x30 to 0x39 have the upper half 3, also when 6 is added.
	return bits.TrailingZeros64((x&(x+ones*6)&(ones*0xf0))^ones*0x30) >> 3
}

// plainText is the number of bytes that b begins with and that stand for themselves
// in a JSON string: ASCII without quotes, backslashes and control characters.
func plainText(b []byte) int {
	i := 0
	for ; len(b)-i >= 8; i += 8 {
		x := binary.LittleEndian.Uint64(b[i:])
		quote, slash := x^ones*'"', x^ones*'\\'
		m := (x - ones*0x20) &^ x
		m |= (quote - ones) &^ quote
		m |= (slash - ones) &^ slash
		if m = (m | x) & highs; m != 0 {
			return i + bits.TrailingZeros64(m)>>3
		}
	}
	for i < len(b) && b[i] >= 0x20 && b[i] < utf8.RuneSelf && b[i] != '"' && b[i] != '\\' {
		i++
	}
	return i
}

// escapeLen is the length of the escape that b begins with, 0 if it is none.
func escapeLen(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	if b[1] != 'u' {
		if bytes.IndexByte([]byte(`"\/bfnrt`), b[1]) < 0 {
			return 0
		}
		return 2
	}
	if hex4(b[2:]) < 0 {
		return 0
	}
	return 6
}

// hex4 is the value of four hexadecimal digits, -1 if b does not begin with them.
func hex4(b []byte) rune {
	if len(b) < 4 {
		return -1
	}
	var r rune
	for _, c := range b[:4] {
		switch {
		case isDigit(c):
			c -= '0'
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return -1
		}
		r = r<<4 | rune(c)
	}
	return r
}

// unescape appends the text of the inside of a string, whose escapes are right.
func unescape(dst, b []byte) []byte {
	for {
		n := bytes.IndexByte(b, '\\')
		if n < 0 {
			return append(dst, b...)
		}
		dst = append(dst, b[:n]...)
		b = b[n:]
		c := b[1]
		if c != 'u' {
			switch c {
			case 'b':
				c = '\b'
			case 'f':
				c = '\f'
			case 'n':
				c = '\n'
			case 'r':
				c = '\r'
			case 't':
				c = '\t'
			}
			dst = append(dst, c)
			b = b[2:]
			continue
		}
		r := hex4(b[2:])
		b = b[6:]
		if utf16.IsSurrogate(r) {
			// Half a pair stands for nothing; what follows it is looked at by itself.
			second := rune(-1)
			if len(b) >= 6 && b[0] == '\\' && b[1] == 'u' {
				second = hex4(b[2:])
			}
			if r = utf16.DecodeRune(r, second); r != utf8.RuneError {
				b = b[6:]
			}
		}
		dst = utf8.AppendRune(dst, r)
	}
}
