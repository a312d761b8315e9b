package h1

import "example.com/tokpace/pkg/freelist"

// bufferSize is the size of a read buffer: enough for some sixty events of a
// stream; larger ones only cost cache misses.
const bufferSize = 16 << 10

// A buffer is a pooled read buffer. A connection has one only while it holds
// bytes that nobody took yet.
type buffer [bufferSize]byte

// A smallBuffer serves a first read that cannot wait without a buffer (TLS,
// connections that are no sockets), so that a thousand waiting requests hold
// little.
type smallBuffer [4 << 10]byte

var (
	bufferPool = freelist.List[*buffer]{New: func() *buffer { return new(buffer) }}
	smallPool  = freelist.List[*smallBuffer]{New: func() *smallBuffer { return new(smallBuffer) }}
)

func getBuffer() *buffer { return bufferPool.Get() }

func putBuffer(b *buffer) {
	if b != nil {
		bufferPool.Put(b)
	}
}

// heads are buffers to compose requests in.
var heads = freelist.List[*[]byte]{New: func() *[]byte { b := make([]byte, 0, 4<<10); return &b }}

// putHead gives a request's buffer back, unless it is so large that it would
// only be held.
func putHead(b *[]byte) {
	if cap(*b) <= 2*smallRequest {
		*b = (*b)[:0]
		heads.Put(b)
	}
}

// An input is what a connection has read and nobody took: b[r:w].
type input struct {
	b     []byte
	r, w  int
	full  *buffer      // b's memory, if it is pooled
	small *smallBuffer // the same
}

func (in *input) unread() []byte { return in.b[in.r:in.w] }

// own makes the first n bytes of a pooled buffer the input.
func (in *input) own(b *buffer, n int) {
	in.release()
	in.b, in.full, in.w = b[:], b, n
}

// room makes room to read more behind what is there.
func (in *input) room() {
	switch {
	case in.b == nil:
		in.small = smallPool.Get()
		in.b = in.small[:]
	case in.w < len(in.b):
	case in.r > 0:
		in.w = copy(in.b, in.b[in.r:in.w])
		in.r = 0
	default:
		var next input
		if len(in.b) < bufferSize {
			next.full = getBuffer()
			next.b = next.full[:]
		} else {
			next.b = make([]byte, 2*len(in.b))
		}
		next.w = copy(next.b, in.b[:in.w])
		in.release()
		*in = next
	}
}

// release gives the memory back; what was unread is lost.
func (in *input) release() {
	putBuffer(in.full)
	if in.small != nil {
		smallPool.Put(in.small)
	}
	*in = input{}
}
