// Package sse reads event streams (text/event-stream): bytes in, events with
// their arrival times out. It sits at the bottom of the measuring path: pkg/api
// gives the events their meaning, pkg/client the exchange around them.
//
// The reader follows the event-stream format of the HTML standard: lines end in
// LF, CR LF or CR wherever the writes were cut, one leading byte order mark is
// skipped, one space after the colon is optional, comments and unknown fields
// are ignored, several data lines are joined by LF. It departs from the standard
// in one point: at the clean end of the stream an event that no blank line
// closed is still delivered, marked Unterminated, because servers do end that
// way and the lost event is usually the one that holds the usage.
//
//	start := time.Now()
//	r := sse.NewReader(resp.Body, func() time.Duration { return time.Since(start) })
//	for {
//		ev, err := r.Next()
//		if err == io.EOF {
//			break // the stream ended cleanly
//		}
//		if err != nil {
//			return err // the connection broke, or an event was over the limit
//		}
//		fmt.Println(ev.At, string(ev.Data))
//	}
package sse

import (
	"bytes"
	"fmt"
	"io"
	"time"
)

// DefaultMaxEvent is the limit on one event's size, in bytes, when
// Reader.MaxEvent is zero. Events of several MiB occur in practice (log
// probabilities, images inside a tool call).
const DefaultMaxEvent = 32 << 20

// An Event is one dispatched event.
type Event struct {
	// Data is the event's data, several data lines joined by LF. It is valid
	// until the next call of a method.
	Data []byte
	// Type is the value of the event field, empty when there was none.
	Type string
	// At is the stamp of the read that brought the byte which ended the event.
	// Events that one read brought together have the same At.
	At time.Duration
	// Read is the ordinal, from 1, of the read that ended the event: equal
	// ordinals mean that the events' own times cannot be told apart.
	Read int
	// Unterminated says that the stream ended cleanly before a blank line
	// closed the event.
	Unterminated bool
}

// A LimitError says that an event was longer than the reader's limit.
type LimitError struct {
	Limit int // bytes
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("event longer than the limit of %d bytes", e.Limit)
}

// A Reader reads events from a stream. It is not safe for concurrent use.
type Reader struct {
	// MaxEvent limits the size of one event: the bytes of its lines, fields
	// and comments alike, line ends not counted. 0 means DefaultMaxEvent. An
	// event is over the limit or not whatever reads its bytes came in. Memory
	// use stays below four times the limit (and some KiB).
	MaxEvent int
	// Buffer is memory to begin with; nil means 16 KiB. A small one is enough for
	// events that come one by one, and while the first is waited for; it is replaced
	// when a read fills it. It must not change once Next was called.
	Buffer []byte

	src   io.Reader
	stamp func() time.Duration

	pooled     *[fullBuffer]byte // buf's memory, if it is from the pool
	filled     bool              // the last read filled all of it
	buf        []byte
	start, end int // unread bytes are buf[start:end]
	scanned    int // no line end in buf[start:scanned]
	skipLF     bool
	begun      bool // the byte order mark has been looked for
	err        error

	at    time.Duration
	reads int

	value   []byte // the event's data so far
	hasData bool
	shared  bool   // value is part of buf
	data    []byte // memory for a value that cannot be

	// The event's first byte is buf[from], if from is not negative: it was not
	// moved away since.
	from     int
	raw      []byte // of the event that was returned last
	rawValue int    // where its value is in raw

	typ   string
	types map[string]string // the types seen, so that each is allocated once
	size  int               // bytes of the current event's lines so far
}

// NewReader returns a reader of the events in src. stamp is called once after
// each read of src that returned bytes; its value becomes the At of the events
// which those bytes end.
func NewReader(src io.Reader, stamp func() time.Duration) *Reader {
	return &Reader{src: src, stamp: stamp}
}

// Next returns the next event. At the clean end of the stream it returns io.EOF;
// an error of the source (a cut connection) is returned as it is, after all
// events that were complete before it, and what the cut left of an event is
// dropped. An event over the limit ends in a *LimitError. Errors are final.
func (r *Reader) Next() (Event, error) {
	r.raw, r.from = nil, -1
	if r.begun {
		r.passLF()
		r.from = r.start
	}
	for {
		line, ok := r.line()
		if !ok {
			if r.err == nil {
				r.fill()
				continue
			}
			if r.err == io.EOF {
				return r.last()
			}
			return Event{}, r.err
		}
		if len(line) > 0 {
			r.field(line)
			continue
		}
		if r.hasData {
			return r.event(false), nil
		}
		r.reset()
	}
}

// last delivers what a clean end left over, then io.EOF.
func (r *Reader) last() (Event, error) {
	if r.start < r.end {
		r.field(r.buf[r.start:r.end])
		r.start = r.end
	}
	if r.hasData {
		return r.event(true), nil
	}
	return Event{}, io.EOF
}

func (r *Reader) event(unterminated bool) Event {
	ev := Event{Data: r.value, Type: r.typ, At: r.at, Read: r.reads, Unterminated: unterminated}
	if r.shared && r.from >= 0 && !unterminated {
		r.raw = r.buf[r.from:r.start]
		r.rawValue = offset(r.buf, r.value) - r.from
	}
	r.reset()
	return ev
}

// offset is where part begins in whole, of whose memory it is.
func offset(whole, part []byte) int { return cap(whole) - cap(part) }

func (r *Reader) reset() {
	r.hasData, r.shared, r.typ, r.size = false, false, "", 0
}

// passLF passes over the LF of a CR LF whose CR has ended a line already.
func (r *Reader) passLF() {
	if r.skipLF && r.start < r.end {
		r.skipLF = false
		if r.buf[r.start] == '\n' {
			r.start++
			r.scanned = max(r.scanned, r.start)
		}
	}
}

// line takes one line, without its end, from the buffer. ok is false when the
// buffer holds no whole line.
func (r *Reader) line() (line []byte, ok bool) {
	if !r.begun && !r.skipBOM() {
		return nil, false
	}
	r.passLF()
	found := false
	for !found && r.scanned < r.end {
		var n int
		n, found = lineEnd(r.buf[r.scanned:min(r.end, r.scanned+stride)])
		r.scanned += n
	}
	line = r.buf[r.start:r.scanned]
	if r.size+len(line) > r.limit() {
		r.start, r.scanned = r.end, r.end
		r.err = &LimitError{Limit: r.limit()}
		return nil, false
	}
	if !found {
		return nil, false
	}
	// A CR ends the line at once, also as the last byte read: waiting for the
	// LF that may follow would date the event to the next read.
	r.skipLF = r.buf[r.scanned] == '\r'
	r.size += len(line)
	r.scanned++
	r.start = r.scanned
	return line, true
}

// stride is how far a line's end is looked for at a time: in a large buffer of
// short lines that end in CR, looking for an LF first would read all of it for
// each line.
const stride = 1 << 10

// lineEnd returns the number of bytes before the first line end in b, which is
// all of them when there is none.
func lineEnd(b []byte) (n int, found bool) {
	if i := bytes.IndexByte(b, '\n'); i >= 0 {
		b, found = b[:i], true
	}
	if i := bytes.IndexByte(b, '\r'); i >= 0 {
		return i, true
	}
	return len(b), found
}

func (r *Reader) limit() int {
	if r.MaxEvent <= 0 {
		return DefaultMaxEvent
	}
	return r.MaxEvent
}

var bom = []byte("\xef\xbb\xbf")

// skipBOM reports whether the start of the stream is decided.
func (r *Reader) skipBOM() bool {
	head := r.buf[r.start:r.end]
	if len(head) < len(bom) && bytes.HasPrefix(bom, head) && r.err == nil {
		return false
	}
	if bytes.HasPrefix(head, bom) {
		r.start += len(bom)
		r.scanned = r.start
	}
	r.begun = true
	return true
}

var (
	dataField  = []byte("data")
	eventField = []byte("event")
)

// field handles one line that is not empty.
func (r *Reader) field(line []byte) {
	name, value, found := bytes.Cut(line, []byte{':'})
	if !found {
		value = line[len(line):]
	} else if len(value) > 0 && value[0] == ' ' {
		value = value[1:]
	}
	switch {
	case bytes.Equal(name, dataField):
		if !r.hasData {
			r.value, r.hasData, r.shared = value, true, true
			break
		}
		r.own()
		r.data = append(r.data, '\n')
		r.data = append(r.data, value...)
		r.value = r.data
	case bytes.Equal(name, eventField):
		r.typ = r.intern(value)
	}
}

// own gives the event's data memory of its own.
func (r *Reader) own() {
	if r.shared {
		r.data = append(r.data[:0], r.value...)
		r.value, r.shared = r.data, false
	}
}

// maxTypes bounds what a stream of ever new types can make the reader keep.
const maxTypes = 64

// intern returns value as a string, without a new allocation for a type that
// the stream has had before.
func (r *Reader) intern(value []byte) string {
	if typ, ok := r.types[string(value)]; ok {
		return typ
	}
	typ := string(value)
	if r.types == nil {
		r.types = map[string]string{}
	}
	if len(r.types) < maxTypes && len(typ) <= maxTypes {
		r.types[typ] = typ
	}
	return typ
}
