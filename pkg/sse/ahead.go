package sse

// Raw returns the bytes of the stream that the event of the last Next consists of,
// line ends included, and where its Data begins in them. The same bytes again, where
// an event begins, are the same event again; bytes that differ from them only in what
// is Data, and have no line end there, are one that differs in its Data only. It
// returns nil when the event was not all in the buffer, or its Data is not one piece
// of it. It is valid until the next call of another method.
func (r *Reader) Raw() (raw []byte, data int) { return r.raw, r.rawValue }

// Ahead returns bytes that have been read and not taken, nil when there are none or
// when they are not the beginning of an event. All events that are whole in them
// ended with the last read, and none of those is longer than MaxEvent. It is valid
// until the next call of another method.
func (r *Reader) Ahead() []byte {
	if !r.begun {
		return nil
	}
	r.passLF()
	ahead := r.buf[r.start:r.end]
	return ahead[:min(len(ahead), r.limit())]
}

// More reads once more from the source, behind what is ahead. It reports whether there
// may be more ahead now: not at the end of the stream, nor when as many bytes are
// ahead as an event may have.
func (r *Reader) More() bool {
	if r.err != nil || len(r.Ahead()) >= r.limit() {
		return false
	}
	r.raw = nil
	r.fill()
	return true
}

// Skip takes the first n bytes of Ahead, which must be whole events and are known to
// the caller. The event returned says when the last of them ended; it has no Data.
func (r *Reader) Skip(n int) Event {
	r.raw = nil
	if n > 0 {
		r.start += n
		r.scanned = r.start
		r.skipLF = r.buf[r.start-1] == '\r'
	}
	return Event{At: r.at, Read: r.reads}
}
