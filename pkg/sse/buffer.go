package sse

import (
	"errors"

	"example.com/tokpace/pkg/freelist"
)

// fullBuffer is the size of the first buffer, unless Reader.Buffer is one, and of the
// second: larger ones only cost cache misses.
const fullBuffer = 16 << 10

// fullBuffers is where Release puts buffers.
var fullBuffers = freelist.List[*[fullBuffer]byte]{New: func() *[fullBuffer]byte { return new([fullBuffer]byte) }}

// fill reads once more from the source. The error, if any, is kept until the
// bytes that came with it are used up.
func (r *Reader) fill() {
	r.own()
	if r.start > 0 {
		if r.from == r.start {
			r.from = 0
		} else {
			r.from = -1
		}
		copy(r.buf, r.buf[r.start:r.end])
		r.scanned -= r.start
		r.end -= r.start
		r.start = 0
	}
	if r.end == len(r.buf) || r.filled && len(r.buf) < fullBuffer {
		r.grow()
	}
	for range maxEmptyReads {
		n, err := r.src.Read(r.buf[r.end:])
		if n > 0 {
			r.at = r.stamp()
			r.reads++
			r.filled = n == len(r.buf)-r.end
			r.end += n
		}
		if n > 0 || err != nil {
			r.err = err
			return
		}
	}
	r.err = errNoProgress
}

// grow makes the buffer larger. What is pending is within the limit, or line would
// have failed: a buffer of the limit and a little always has room.
func (r *Reader) grow() {
	var larger []byte
	old := r.pooled
	switch {
	case len(r.buf) == 0 && len(r.Buffer) > 0:
		larger = r.Buffer
	case len(r.buf) < fullBuffer:
		r.pooled = fullBuffers.Get()
		larger = r.pooled[:]
	default:
		r.pooled = nil
		larger = make([]byte, len(r.buf)+max(fullBuffer, min(len(r.buf), r.limit()-len(r.buf))))
	}
	copy(larger, r.buf[:r.end])
	r.buf = larger
	if old != nil {
		fullBuffers.Put(old)
	}
}

// Reserve makes the buffers that n readers at once can need, so that none of them
// has to make one in a moment that somebody measures.
func Reserve(n int) { fullBuffers.Reserve(n) }

// Release gives the reader's memory to others, and with it the Data of its last
// event. Next must not be called any more. It need not be called.
func (r *Reader) Release() {
	if r.pooled != nil {
		fullBuffers.Put(r.pooled)
	}
	r.pooled, r.buf, r.raw, r.value, r.data = nil, nil, nil, nil, nil
	r.start, r.end, r.scanned, r.err = 0, 0, 0, errReleased
}

const maxEmptyReads = 100

var (
	errNoProgress = errors.New("event stream: the source returned no bytes and no error")
	errReleased   = errors.New("event stream: the reader was released")
)
