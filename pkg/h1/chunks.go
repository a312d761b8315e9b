package h1

import "strings"

// A chunkState is where in the framing the next byte stands.
type chunkState uint8

const (
	inSize     chunkState = iota // digits of a size
	afterSize                    // white space behind it, which old servers pad with
	inExt                        // extension
	sizeLF                       // LF of the size's line
	inData                       // bytes of the body
	dataCR                       // CR behind them
	dataLF                       // LF behind them
	lineStart                    // first byte of a trailer field or of the last line
	inName                       // name of a trailer field
	inValue                      // its value
	trailerEnd                   // LF of a trailer field
	lastLF                       // LF of the last line
	chunksDone                   // behind the body
)

const (
	// maxSizeDigits is what other readers take, too; more could only be zeros.
	maxSizeDigits = 16
	maxChunkSize  = 1 << 62
	// maxSizeLine limits a size with its extensions, which nobody sends.
	maxSizeLine = 1 << 10
	// maxExcess limits framing beyond 16 bytes a chunk and twice the data: a
	// body is not allowed to consist of framing.
	maxExcess  = 16 << 10
	maxTrailer = 4 << 10
)

// chunks decodes a chunked body (RFC 9112, section 7.1). The zero value stands at
// its start.
type chunks struct {
	state  chunkState
	size   int64 // of the chunk; in inData, what is left of it
	digits int
	line   int // bytes of the size's line or of the trailer
	excess int64
}

// decode takes framing and data from src and puts the data into dst. It stops at
// the end of src, at the end of the body, and where data would not fit into dst.
// dst may be the start of the memory whose end src is: nothing is overwritten
// before it is read.
func (d *chunks) decode(dst, src []byte) (written, taken int, err error) {
	for taken < len(src) && d.state != chunksDone {
		if d.state == inData {
			n := int(min(d.size, int64(len(src)-taken), int64(len(dst)-written)))
			if n == 0 {
				break
			}
			if &dst[written] != &src[taken] { // else it is where it belongs
				copy(dst[written:], src[taken:taken+n])
			}
			written += n
			taken += n
			if d.size -= int64(n); d.size == 0 {
				d.state = dataCR
				taken += d.between(src[taken:])
			}
			continue
		}
		if err := d.framing(src[taken]); err != nil {
			return written, taken, err
		}
		taken++
	}
	return written, taken, nil
}

// between takes the framing between two chunks at once, if all of it is there in
// its usual form: the end of one, a size without anything around it, no zero.
// Everything else is left to framing, whose result is the same.
func (d *chunks) between(src []byte) (taken int) {
	if len(src) < len("\r\n1\r\n") || src[0] != '\r' || src[1] != '\n' {
		return 0
	}
	size, i := int64(0), 2
	for most := min(len(src), 2+8); i < most; i++ {
		digit := hexDigits[src[i]]
		if digit < 0 {
			break
		}
		size = size<<4 | int64(digit)
	}
	if size == 0 || i+2 > len(src) || src[i] != '\r' || src[i+1] != '\n' {
		return 0
	}
	d.size, d.line = size, i-1
	_ = d.begin() // so little framing is never too much
	return i + 2
}

// framing takes one byte that is no data.
func (d *chunks) framing(c byte) error {
	switch d.state {
	case inSize:
		d.line++
		digit := hexDigits[c]
		ok := digit >= 0
		switch {
		case ok && (d.digits == maxSizeDigits || d.size >= maxChunkSize>>4):
			return &ProtocolError{Fault: ChunkTooLarge}
		case ok:
			d.size = d.size<<4 | int64(digit)
			d.digits++
		case d.digits == 0:
			return fault(BadChunkSize, []byte{c})
		case c == '\r':
			d.state = sizeLF
		case c == ';':
			d.state = inExt
		case c == ' ' || c == '\t':
			d.state = afterSize
		case c == '\n':
			return &ProtocolError{Fault: BareLF, Detail: "in a chunk size"}
		default:
			return fault(BadChunkSize, []byte{c})
		}
	case afterSize, inExt:
		if d.line++; d.line > maxSizeLine {
			return &ProtocolError{Fault: BadChunkExtension, Detail: "too long"}
		}
		switch {
		case c == '\r':
			d.state = sizeLF
		case c == '\n':
			return &ProtocolError{Fault: BareLF, Detail: "in a chunk size"}
		case d.state == afterSize && c != ' ' && c != '\t':
			return fault(BadChunkSize, []byte{c})
		case isControl(c):
			return fault(BadChunkExtension, []byte{c})
		}
	case sizeLF:
		if c != '\n' {
			return &ProtocolError{Fault: BareCR, Detail: "in a chunk size"}
		}
		return d.begin()
	case dataCR:
		if c != '\r' {
			return fault(BadChunkEnd, []byte{c})
		}
		d.state = dataLF
	case dataLF:
		if c != '\n' {
			return fault(BadChunkEnd, []byte{c})
		}
		d.state, d.line = inSize, 0
	default:
		if d.line++; d.line > maxTrailer {
			return &ProtocolError{Fault: TrailerTooLarge}
		}
		return d.trailer(c)
	}
	return nil
}

// begin starts a chunk whose size is known.
func (d *chunks) begin() error {
	// Written so that no size overflows.
	d.excess += int64(d.line) + 1
	if allowed := 16 + 2*min(d.size, maxExcess); d.excess > allowed {
		d.excess -= allowed
	} else {
		d.excess = 0
	}
	if d.excess > maxExcess {
		return &ProtocolError{Fault: TooMuchFraming}
	}
	d.digits, d.line = 0, 0
	d.state = inData
	if d.size == 0 {
		d.state = lineStart
	}
	return nil
}

// trailer takes one byte behind the last chunk.
func (d *chunks) trailer(c byte) error {
	switch d.state {
	case lineStart:
		switch {
		case c == '\r':
			d.state = lastLF
		case !isToken(c):
			return fault(BadTrailer, []byte{c})
		default:
			d.state = inName
		}
	case inName:
		switch {
		case c == ':':
			d.state = inValue
		case !isToken(c):
			return fault(BadTrailer, []byte{c})
		}
	case inValue:
		switch {
		case c == '\r':
			d.state = trailerEnd
		case c == '\n':
			return &ProtocolError{Fault: BareLF, Detail: "in a trailer"}
		case isControl(c):
			return fault(BadTrailer, []byte{c})
		}
	case trailerEnd, lastLF:
		if c != '\n' {
			return &ProtocolError{Fault: BareCR, Detail: "in a trailer"}
		}
		if d.state == trailerEnd {
			d.state = lineStart
		} else {
			d.state = chunksDone
		}
	}
	return nil
}

// hexDigits are the values of the bytes that are digits, -1 for all others.
var hexDigits = func() (t [256]int8) {
	for c := range t {
		t[c] = int8(strings.IndexByte("0123456789abcdef", byte(c)))
	}
	for i, c := range "ABCDEF" {
		t[c] = int8(10 + i)
	}
	return t
}()

// isControl reports whether c is a control character other than a tab: what can
// stand in no line of HTTP.
func isControl(c byte) bool { return c < ' ' && c != '\t' || c == 0x7f }

// isToken reports whether c can stand in a field's name (RFC 9110, section 5.6.2).
func isToken(c byte) bool { return tokenBytes[c] }

var tokenBytes = func() (t [256]bool) {
	for c := range t {
		alnum := '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		t[c] = alnum
	}
	for _, c := range "!#$%&'*+-.^_`|~" {
		t[c] = true
	}
	return t
}()
