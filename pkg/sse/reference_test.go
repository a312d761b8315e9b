package sse_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"time"

	"example.com/tokpace/pkg/sse"
)

// A want is what a stream should give: an event, and which byte of the stream
// ended it.
type want struct {
	typ, data    string
	end          int // offset of the byte that ended the event, or of the stream's last
	unterminated bool
}

// reference reads a whole stream by the words of the HTML standard (section
// "Parsing an event stream"), one byte and one step after another, with the one
// departure that the package documents: the event which the end of the stream
// left open is delivered.
func reference(stream []byte) []want {
	type line struct {
		text string
		end  int
	}
	// "Streams must be decoded using the UTF-8 decode algorithm", which strips
	// one byte order mark.
	offset := 0
	if bytes.HasPrefix(stream, []byte{0xEF, 0xBB, 0xBF}) {
		offset = 3
	}
	// "Lines must be separated by either a CRLF pair, a single LF, or a single
	// CR."
	var lines []line
	text := ""
	for i := offset; i < len(stream); i++ {
		switch {
		case stream[i] == '\n' && i > offset && stream[i-1] == '\r':
			// The second half of a pair; the line has ended.
		case stream[i] == '\n' || stream[i] == '\r':
			lines = append(lines, line{text, i})
			text = ""
		default:
			text += string(stream[i : i+1])
		}
	}
	var (
		events       []want
		typ, data    string
		dispatch     func(end int, unterminated bool)
		process      func(field, value string)
		interpret    func(text string)
		emptyStrings = func() { typ, data = "", "" }
	)
	dispatch = func(end int, unterminated bool) {
		// "If the data buffer is an empty string, set the data buffer and the
		// event type buffer to empty strings and return."
		if data == "" {
			emptyStrings()
			return
		}
		// "If the data buffer's last character is a LF, remove it."
		events = append(events, want{typ, strings.TrimSuffix(data, "\n"), end, unterminated})
		emptyStrings()
	}
	process = func(field, value string) {
		switch field {
		case "event":
			typ = value
		case "data":
			data += value + "\n"
		}
	}
	interpret = func(text string) {
		colon := strings.Index(text, ":")
		switch {
		case colon == 0:
			// "Ignore the line."
		case colon > 0:
			// "If value starts with a SPACE, remove that space from value."
			process(text[:colon], strings.TrimPrefix(text[colon+1:], " "))
		default:
			process(text, "")
		}
	}
	for _, l := range lines {
		if l.text == "" {
			dispatch(l.end, false)
		} else {
			interpret(l.text)
		}
	}
	if text != "" {
		interpret(text)
	}
	dispatch(len(stream)-1, true)
	return events
}

// pieces is a source that returns its pieces one a read, and says by clock what
// time it is: the number of the piece.
type pieces struct {
	parts [][]byte
	n     int
	// eager makes the last read bring the end with its bytes.
	eager bool
	err   error // instead of io.EOF
}

func (p *pieces) Read(b []byte) (int, error) {
	end := p.err
	if end == nil {
		end = io.EOF
	}
	if p.n == len(p.parts) {
		return 0, end
	}
	part := p.parts[p.n]
	n := copy(b, part)
	if n < len(part) {
		p.parts[p.n] = part[n:]
		return n, nil
	}
	p.n++
	if p.eager && p.n == len(p.parts) {
		return n, end
	}
	return n, nil
}

// clock stamps the k-th piece with k seconds, k from 1.
func (p *pieces) clock() time.Duration { return time.Duration(p.n) * time.Second }

type got struct {
	typ, data    string
	at           time.Duration
	read         int
	unterminated bool
}

// readAll reads events until an error, which is nil for io.EOF.
func readAll(r *sse.Reader) ([]got, error) {
	var events []got
	for {
		ev, err := r.Next()
		if errors.Is(err, io.EOF) && err == io.EOF {
			return events, nil
		}
		if err != nil {
			return events, err
		}
		events = append(events, got{ev.Type, string(ev.Data), ev.At, ev.Read, ev.Unterminated})
	}
}

// expect is what a reader should give for a stream that came in pieces.
func expect(wants []want, parts [][]byte) []got {
	var events []got
	for _, w := range wants {
		k, sum := 0, 0
		for sum <= w.end {
			sum += len(parts[k])
			k++
		}
		events = append(events, got{w.typ, w.data, time.Duration(k) * time.Second, k, w.unterminated})
	}
	return events
}

// split cuts a stream at offsets, which ascend.
func split(stream []byte, at ...int) [][]byte {
	var parts [][]byte
	last := 0
	for _, i := range append(at, len(stream)) {
		if i > last {
			parts = append(parts, stream[last:i])
			last = i
		}
	}
	return parts
}
