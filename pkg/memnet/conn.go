package memnet

import (
	"io"
	"net"
	"os"
	"syscall"
	"time"
)

// Conn is one end of a connection. Both the Accept and the DialContext of a
// [Listener] return one as a net.Conn; assert to *Conn for CloseWrite and
// Reset. All methods may be called from several goroutines.
type Conn struct {
	in, out       *stream
	local, remote net.Addr // boxed once, since clients ask for them with each request
}

var _ net.Conn = (*Conn)(nil)

// newPair returns the two ends of a new connection.
func newPair(a, b addr) (*Conn, *Conn) {
	p := new(struct {
		ab, ba stream
		a, b   Conn
	})
	p.ab.init()
	p.ba.init()
	p.a = Conn{in: &p.ba, out: &p.ab, local: a, remote: b}
	p.b = Conn{in: &p.ab, out: &p.ba, local: b, remote: a}
	return &p.a, &p.b
}

// Read waits for at least one byte. It returns io.EOF, unwrapped, once the peer
// closed and all it wrote was read. Other failures are *net.OpError values
// around os.ErrDeadlineExceeded (also when bytes are waiting), around
// syscall.ECONNRESET after the peer's Reset, or around net.ErrClosed after this
// end's Close.
func (c *Conn) Read(p []byte) (int, error) {
	n, err := c.in.read(p)
	return n, c.wrap("read", err)
}

// Write returns once all of p is in the peer's buffer, and blocks while that is
// full. Concurrent writes do not mix their bytes. With an error, the count
// tells how much the peer can still read. Failures are *net.OpError values
// around os.ErrDeadlineExceeded, around syscall.EPIPE after the peer's Close or
// this end's CloseWrite, around syscall.ECONNRESET after the peer's Reset, or
// around net.ErrClosed after this end's Close.
func (c *Conn) Write(p []byte) (int, error) {
	n, err := c.out.write(p)
	return n, c.wrap("write", err)
}

// Close ends both directions and unblocks both ends. The peer reads what was
// written before and then io.EOF; its writes fail with syscall.EPIPE. What this
// end has not read yet is dropped. The second Close fails with a *net.OpError
// around net.ErrClosed.
func (c *Conn) Close() error {
	if !c.out.closeWriter(false) {
		return c.wrap("close", net.ErrClosed)
	}
	c.in.closeReader(false)
	return nil
}

// CloseWrite ends the outgoing direction only: the peer reads what was written
// before and then io.EOF, and can still answer.
func (c *Conn) CloseWrite() error {
	return c.wrap("close", c.out.finish())
}

// Reset closes the connection the hard way, as TCP does with a zero linger
// time: bytes in the buffers of both directions are dropped, and the peer's
// blocked and later reads and writes fail with syscall.ECONNRESET. On a closed
// connection it has no effect.
func (c *Conn) Reset() {
	if c.out.closeWriter(true) {
		c.in.closeReader(true)
	}
}

// LocalAddr returns this end's address, on the network "mem".
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr returns the peer's address, on the network "mem".
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline sets the read and the write deadline.
func (c *Conn) SetDeadline(t time.Time) error {
	if err := c.SetReadDeadline(t); err != nil {
		return err
	}
	return c.SetWriteDeadline(t)
}

// SetReadDeadline makes blocked and later reads fail with
// os.ErrDeadlineExceeded from t on. A past t ends blocked reads at once; the
// zero t means no deadline.
func (c *Conn) SetReadDeadline(t time.Time) error {
	return c.wrap("set", c.in.setReadDeadline(t))
}

// SetWriteDeadline does for writes what SetReadDeadline does for reads.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	return c.wrap("set", c.out.setWriteDeadline(t))
}

// wrap gives an error the shape that the net package gives to TCP's, which is
// what net/http and its users look at.
func (c *Conn) wrap(op string, err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	if errno, ok := err.(syscall.Errno); ok {
		err = os.NewSyscallError(op, errno)
	}
	return &net.OpError{Op: op, Net: network, Source: c.local, Addr: c.remote, Err: err}
}
