package gate

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"unicode/utf16"
	"unicode/utf8"
)

// utf16Order recognises UTF-16 by the start of a text, and returns nil if it is
// something else. Windows PowerShell's `>` writes it, with a byte order mark.
// Without one, a zero beside the first character tells.
func utf16Order(start []byte) binary.ByteOrder {
	if len(start) < 2 {
		return nil
	}
	switch a, b := start[0], start[1]; {
	case a == 0xff && b == 0xfe, a != 0 && b == 0:
		return binary.LittleEndian
	case a == 0xfe && b == 0xff, a == 0 && b != 0:
		return binary.BigEndian
	}
	return nil
}

// utf16Text reads UTF-16 as UTF-8.
type utf16Text struct {
	src   *bufio.Reader
	order binary.ByteOrder
	rest  []byte
}

func (u *utf16Text) Read(p []byte) (int, error) {
	var err error
	for len(u.rest) < len(p) && err == nil {
		var r rune
		if r, err = u.rune(); err == nil {
			u.rest = utf8.AppendRune(u.rest, r)
		}
	}
	n := copy(p, u.rest)
	u.rest = append(u.rest[:0], u.rest[n:]...)
	if n > 0 && err == io.EOF {
		err = nil
	}
	return n, err
}

func (u *utf16Text) rune() (rune, error) {
	first, err := u.unit()
	if err != nil || !utf16.IsSurrogate(first) {
		return first, err
	}
	second, err := u.unit()
	if err != nil && err != io.EOF {
		return 0, err
	}
	return utf16.DecodeRune(first, second), nil
}

func (u *utf16Text) unit() (rune, error) {
	var b [2]byte
	switch _, err := io.ReadFull(u.src, b[:]); err {
	case nil:
		return rune(u.order.Uint16(b[:])), nil
	case io.ErrUnexpectedEOF:
		return 0, errors.New("UTF-16 text ends in the middle of a character")
	default:
		return 0, err
	}
}
