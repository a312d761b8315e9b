package fakeserver

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math/bits"
)

// mix folds two words into one: the middle step of wyhash (a 64×64→128 bit product whose halves are xored), which
// spreads every input bit over the result and is the same on every machine.
func mix(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a^0xa0761d6478bd642f, b^0xe7037ed1a0b428db)
	return hi ^ lo
}

// hashBytes continues h with b, eight bytes at a time.
func hashBytes[T string | []byte](h uint64, b T) uint64 {
	n := len(b)
	for len(b) >= 8 {
		h = mix(h, binary.LittleEndian.Uint64([]byte(b[:8])))
		b = b[8:]
	}
	var tail [8]byte
	copy(tail[:], b)
	return mix(mix(h, binary.LittleEndian.Uint64(tail[:])), uint64(n))
}

// canonicalHash returns a hash of a valid JSON text that does not depend on white space, key order or the way strings
// are escaped. Members of an object are added up, which needs neither sorting nor a decoded copy; large strings such as
// data URLs are hashed where they lie.
func canonicalHash(text []byte) uint64 {
	s := scanner{text: text}
	return s.value()
}

// scanner walks a JSON text already found valid (encoding/json bounds its nesting), so it looks for no errors.
type scanner struct {
	text []byte
	pos  int
}

const (
	seedObject uint64 = iota + 1
	seedArray
	seedString
	seedLiteral
)

func (s *scanner) value() uint64 {
	switch s.peek() {
	case '{':
		s.pos++
		sum, n := uint64(0), uint64(0)
		for s.peek() != '}' {
			if s.peek() == ',' {
				s.pos++
				s.peek()
			}
			key := s.string()
			s.peek()
			s.pos++ // the colon
			sum += mix(key, s.value())
			n++
		}
		s.pos++
		return mix(sum, mix(seedObject, n))
	case '[':
		s.pos++
		h := seedArray
		for s.peek() != ']' {
			if s.peek() == ',' {
				s.pos++
			}
			h = mix(h, s.value())
		}
		s.pos++
		return h
	case '"':
		return s.string()
	default:
		from := s.pos
		for s.pos < len(s.text) && !isDelimiter(s.text[s.pos]) {
			s.pos++
		}
		return hashBytes(seedLiteral, s.text[from:s.pos])
	}
}

// string hashes the string that starts here.
func (s *scanner) string() uint64 {
	from := s.pos + 1
	end := from + bytes.IndexByte(s.text[from:], '"')
	if bytes.IndexByte(s.text[from:end], '\\') < 0 {
		s.pos = end + 1
		return hashBytes(seedString, s.text[from:end])
	}
	for end = from; s.text[end] != '"'; end++ {
		if s.text[end] == '\\' {
			end++
		}
	}
	s.pos = end + 1
	var plain string
	if err := json.Unmarshal(s.text[from-1:s.pos], &plain); err != nil {
		panic(err) // the text was valid
	}
	return hashBytes(seedString, plain)
}

// peek skips white space and returns the next byte.
func (s *scanner) peek() byte {
	for s.text[s.pos] == ' ' || s.text[s.pos] == '\t' || s.text[s.pos] == '\n' || s.text[s.pos] == '\r' {
		s.pos++
	}
	return s.text[s.pos]
}

func isDelimiter(b byte) bool {
	switch b {
	case ' ', '\t', '\n', '\r', ',', ']', '}':
		return true
	}
	return false
}
