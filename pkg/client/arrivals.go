package client

import (
	"bytes"
	"fmt"
	"io"
	"time"

	"example.com/tokpace/pkg/freelist"
	"example.com/tokpace/pkg/h1"
)

// arrivals is a body that knows when its bytes came.
type arrivals struct {
	r     io.Reader
	timed *h1.Body // r, if it can tell
	start time.Time
	at    time.Duration // of the header, then of the last read that brought bytes or the end
	n     int64         // bytes read
	limit int64         // of n; 0: none
	reads int           // of r that brought bytes

	// What beginsWithJSON took is handed out by the next reads, with the
	// stamp and the error it came with.
	held   []byte
	err    error
	peeked bool
}

// newArrivals returns the arrivals of a body whose header has been read now.
func newArrivals(body io.Reader, start, now time.Time) *arrivals {
	a := &arrivals{r: body, start: start, at: now.Sub(start)}
	if timed, ok := body.(*h1.Body); ok {
		a.timed, a.at = timed, timed.Arrived().Sub(start)
	}
	return a
}

// how says how the answer came so far. A transport that cannot tell the reads of its
// socket has those of its body.
func (a *arrivals) how() h1.Reads {
	if a.timed != nil {
		return a.timed.Reads()
	}
	return h1.Reads{Total: a.reads}
}

func (a *arrivals) Read(p []byte) (int, error) {
	if len(a.held) > 0 {
		n := copy(p, a.held)
		a.held = a.held[n:]
		return n, nil
	}
	if a.err != nil {
		return 0, a.err
	}
	return a.read(p)
}

func (a *arrivals) read(p []byte) (int, error) {
	n, err := a.r.Read(p)
	switch {
	case n == 0 && err == nil:
	case a.timed != nil:
		a.at = a.timed.Arrived().Sub(a.start)
	default:
		a.at = time.Since(a.start)
	}
	if n > 0 {
		a.reads++
		a.n += int64(n)
	}
	if a.limit > 0 && a.n > a.limit {
		return n, &bodyLimitError{a.limit}
	}
	return n, err
}

// A bodyLimitError ends a body that is longer than the client's limit.
type bodyLimitError struct{ limit int64 }

func (e *bodyLimitError) Error() string {
	return fmt.Sprintf("body longer than the limit of %d bytes", e.limit)
}

func (a *arrivals) stamp() time.Duration { return a.at }

// beginsWithJSON reads until the first byte that is not white space (or a byte
// order mark) and says whether it opens a JSON object or list.
func (a *arrivals) beginsWithJSON() bool {
	if !a.peeked {
		a.peeked = true
		buf := make([]byte, 0, 512)
		for a.err == nil && len(buf) < cap(buf) && len(bytes.TrimLeft(buf, jsonLead)) == 0 {
			var n int
			n, a.err = a.read(buf[len(buf):cap(buf)])
			buf = buf[:len(buf)+n]
		}
		a.held = buf
	}
	head := bytes.TrimLeft(a.held, jsonLead)
	return len(head) > 0 && (head[0] == '{' || head[0] == '[')
}

const jsonLead = " \t\r\n\xef\xbb\xbf"

// Buffers are pooled: their growth would otherwise be most of the allocated
// bytes of a run, and none of it the server's.
var (
	buffers = freelist.List[*bytes.Buffer]{New: func() *bytes.Buffer { return new(bytes.Buffer) }}
	pieces  = freelist.List[*[]byte]{New: func() *[]byte { p := make([]byte, 64<<10); return &p }}
)

// maxPooled keeps one huge answer from holding its memory for the whole run.
const maxPooled = 1 << 20

func getBuffer() *bytes.Buffer { return buffers.Get() }

func putBuffer(b *bytes.Buffer) {
	if b.Cap() <= maxPooled {
		b.Reset()
		buffers.Put(b)
	}
}

func getPiece() *[]byte  { return pieces.Get() }
func putPiece(p *[]byte) { pieces.Put(p) }
