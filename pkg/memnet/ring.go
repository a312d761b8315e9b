package memnet

// BufferSize is how many bytes one direction of a connection holds before
// writers block.
const BufferSize = 64 << 10

// minRing is the first allocation: room for most answers, so that it does not depend
// on how far a reader lags behind whether more is allocated.
// It and BufferSize are powers of two, so doubling ends exactly at the limit.
const minRing = 8 << 10

// ring is a first-in first-out byte buffer that grows up to BufferSize. Its
// zero value is empty and holds no memory.
type ring struct {
	buf   []byte
	start int // index of the oldest byte
	n     int // bytes held
}

// write copies as much of p as the limit allows and returns how much that was.
func (r *ring) write(p []byte) int {
	p = p[:min(len(p), BufferSize-r.n)]
	if len(p) == 0 {
		return 0
	}
	r.reserve(r.n + len(p))
	end := (r.start + r.n) & (len(r.buf) - 1)
	copied := copy(r.buf[end:], p)
	copy(r.buf, p[copied:])
	r.n += len(p)
	return len(p)
}

// read moves up to len(p) of the oldest bytes to p.
func (r *ring) read(p []byte) int {
	p = p[:min(len(p), r.n)]
	copied := copy(p, r.buf[r.start:])
	copy(p[copied:], r.buf)
	r.n -= len(p)
	if r.n == 0 {
		r.start = 0 // the next write is then one piece
		return len(p)
	}
	r.start = (r.start + len(p)) & (len(r.buf) - 1)
	return len(p)
}

// reserve makes room for size bytes in all, which is at most BufferSize.
func (r *ring) reserve(size int) {
	if size <= len(r.buf) {
		return
	}
	room := max(minRing, len(r.buf))
	for room < size {
		room *= 2
	}
	grown := make([]byte, room)
	copied := copy(grown[:r.n], r.buf[r.start:])
	copy(grown[copied:r.n], r.buf)
	r.buf, r.start = grown, 0
}
