package h1

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// directRead is the space from which on a read goes straight to the caller's
// memory, past the connection's buffer.
const directRead = 4 << 10

// A Body is the body of an answer: what http.Response.Body holds. Read and
// Arrived belong to one goroutine; Close may be called from any.
type Body struct {
	t   *Transport
	c   *conn    // nil once the connection is given away
	nc  net.Conn // of the socket, for Close
	ctx context.Context
	// until is when the exchange is given up; zero: never.
	until time.Time
	stop  func() bool // ends the watch of ctx; nil if there is nothing to watch
	up    *upload     // nil unless the request was large

	kind  bodyKind
	keep  bool  // the connection may carry another request
	extra bool  // bytes came behind the end
	left  int64 // of a sized body
	dec   chunks

	conn Connection

	state atomic.Int32
	err   error
	at    time.Time
	reads Reads
}

// A Connection is one that brings an answer.
type Connection struct {
	Local   net.Addr      // the client's end
	Reused  bool          // it brought another answer before
	Opening time.Duration // how long it took to open it, TLS included
}

// The states of a Body.
const (
	bodyOpen    = iota
	bodyReading // a Read is in progress
	bodyDone    // a Read has returned its end or an error
	bodyClosed
)

func (b *Body) init(t *Transport, c *conn, ctx context.Context, until time.Time) {
	b.t, b.c, b.nc, b.ctx, b.until = t, c, c.sock.Conn, ctx, until
	b.conn = Connection{c.nc.LocalAddr(), c.pooled, c.took}
	if ctx.Done() != nil {
		b.stop = context.AfterFunc(ctx, c.interrupt)
	}
}

// begin makes the body ready once the header has been read.
func (b *Body) begin() {
	b.at, b.reads = b.c.sock.at, b.c.sock.reads
	if b.c.in.r == b.c.in.w {
		b.c.in.release()
	}
	if b.kind == noBody {
		b.err = io.EOF
		b.state.Store(bodyDone)
		b.finish(true)
	}
}

// Arrived returns when what was handed out last arrived: the stamp of the read of
// the socket that brought the last byte of it, or that brought the end. Before the
// first Read it is that of the header's end. Bytes with the same stamp came
// together.
func (b *Body) Arrived() time.Time { return b.at }

// Connection returns what connection the answer comes on.
func (b *Body) Connection() Connection { return b.conn }

// Reads returns how the answer came, from the first byte of its header to what was
// handed out last.
func (b *Body) Reads() Reads { return b.reads }

// Read returns as soon as any bytes of the body are there, and io.EOF as soon as
// its end is, with the last bytes if they came together. All other errors are the
// cause of the request's context, a *TruncatedError or a *ProtocolError.
func (b *Body) Read(p []byte) (int, error) {
	if !b.state.CompareAndSwap(bodyOpen, bodyReading) {
		if b.state.Load() == bodyDone {
			return 0, b.err
		}
		return 0, http.ErrBodyReadAfterClose
	}
	var n int
	for n == 0 && b.err == nil && len(p) > 0 {
		n, b.err = b.read(p)
	}
	b.at, b.reads = b.c.sock.at, b.c.sock.reads
	if b.err == nil {
		if !b.state.CompareAndSwap(bodyReading, bodyOpen) {
			b.finish(false) // closed meanwhile
		}
		return n, nil
	}
	// Close must not close a connection that is somebody else's already.
	open := b.state.CompareAndSwap(bodyReading, bodyDone)
	b.finish(open && b.err == io.EOF)
	return n, b.err
}

// Close gives the body up. Unless it was read to its end, its connection is
// closed, and a Read in progress ends.
func (b *Body) Close() error {
	for {
		switch state := b.state.Load(); state {
		case bodyClosed:
			return nil
		case bodyOpen:
			if b.state.CompareAndSwap(state, bodyClosed) {
				b.finish(false)
				return nil
			}
		case bodyReading:
			if b.state.CompareAndSwap(state, bodyClosed) {
				b.nc.Close()
				return nil
			}
		default:
			b.state.CompareAndSwap(state, bodyClosed)
		}
	}
}

// read decodes what is there, or reads once and decodes that. It may return
// nothing at all.
func (b *Body) read(p []byte) (int, error) {
	c := b.c
	if c.in.r < c.in.w {
		n, taken, err := b.decode(p, c.in.unread())
		if c.in.r += taken; c.in.r == c.in.w {
			c.in.release()
		}
		return n, err
	}
	if len(p) < directRead {
		if err := c.fill(); err != nil {
			return 0, b.broken(err)
		}
		return 0, nil
	}
	if b.kind == sized {
		p = p[:min(int64(len(p)), b.left)]
	}
	came, err := c.read(p)
	if err != nil {
		return 0, b.broken(err)
	}
	switch b.kind {
	case untilClose:
		return came, nil
	case sized:
		b.left -= int64(came)
		return came, b.atEnd(b.left == 0)
	}
	n, taken, err := b.decode(p, p[:came])
	b.extra = taken < came
	return n, err
}

// decode takes the body's bytes out of src, as far as there is space in dst. The
// end of the body is the error io.EOF.
func (b *Body) decode(dst, src []byte) (n, taken int, err error) {
	switch b.kind {
	case sized:
		n = copy(dst, src[:min(int64(len(src)), b.left)])
		b.left -= int64(n)
		return n, n, b.atEnd(b.left == 0)
	case chunked:
		n, taken, err = b.dec.decode(dst, src)
		if err == nil {
			err = b.atEnd(b.dec.state == chunksDone)
		}
		return n, taken, err
	}
	n = copy(dst, src)
	return n, n, nil
}

func (b *Body) atEnd(end bool) error {
	if end {
		return io.EOF
	}
	return nil
}

// broken turns an error of the connection into the body's.
func (b *Body) broken(err error) error {
	if cause := b.interrupted(); cause != nil {
		return cause
	}
	if err != io.EOF {
		return &TruncatedError{Part: "body", Err: err}
	}
	if b.kind == untilClose {
		return io.EOF
	}
	return &TruncatedError{Part: "body"}
}

// interrupted returns why this end gave the exchange up, nil if it did not.
func (b *Body) interrupted() error {
	if b.ctx.Err() != nil {
		return context.Cause(b.ctx)
	}
	if !b.until.IsZero() && !time.Now().Before(b.until) {
		return context.DeadlineExceeded
	}
	if b.up != nil {
		if err := b.up.failed(); err != nil {
			return &RequestError{err}
		}
	}
	return nil
}

// finish gives the connection back, or ends it.
func (b *Body) finish(atEnd bool) {
	c := b.c
	b.c = nil
	// Once its watcher has begun to run, a connection is lost.
	watched := b.stop == nil || b.stop()
	written := b.up == nil || atEnd && watched && b.up.complete()
	switch {
	case !atEnd || !watched || !written:
		c.abort()
		if b.up != nil {
			b.up.closeBody()
		}
	case !b.keep || b.extra || c.in.r < c.in.w || c.err != nil:
		c.close()
	default:
		c.in.release()
		b.t.put(c)
	}
}
