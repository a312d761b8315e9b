package h1

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http/httptrace"
	"time"
)

// A conn is one connection. It belongs to one exchange or to the pool.
type conn struct {
	host *host
	sock *socket
	nc   net.Conn // sock, or TLS over it
	tls  *tls.ConnectionState

	in  input
	err error // of the last read, which brought bytes all the same

	took   time.Duration // to open it
	until  time.Time     // its deadline
	pooled bool          // it comes from the pool
	since  time.Time     // it is idle
	// interrupt ends reads and writes in progress; it is kept because making it
	// for each request would allocate.
	interrupt func()
}

// past is a deadline that has passed.
var past = time.Unix(1, 0)

var defaultDialer = &net.Dialer{Timeout: connectTimeout, KeepAlive: 15 * time.Second}

// connect opens a connection.
func (t *Transport) connect(ctx context.Context, h *host, trace *httptrace.ClientTrace) (*conn, error) {
	dial := t.Dial
	if dial == nil {
		dial = defaultDialer.DialContext
	}
	begin := time.Now()
	nc, err := dial(ctx, h.network, h.addr)
	if err != nil {
		return nil, err
	}
	c := &conn{host: h, sock: newSocket(nc, t.clock)}
	c.nc = c.sock
	c.interrupt = func() { _ = nc.SetDeadline(past) }
	if h.secure {
		if err := c.secureWith(ctx, t.TLS, trace); err != nil {
			nc.Close()
			return nil, err
		}
	}
	c.took = time.Since(begin)
	return c, nil
}

func (c *conn) secureWith(ctx context.Context, config *tls.Config, trace *httptrace.ClientTrace) error {
	if config == nil {
		config = &tls.Config{}
	}
	config = config.Clone()
	if config.ServerName == "" {
		config.ServerName = c.host.serverName
	}
	config.NextProtos = []string{"http/1.1"}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	if trace != nil && trace.TLSHandshakeStart != nil {
		trace.TLSHandshakeStart()
	}
	over := tls.Client(c.sock, config)
	err := over.HandshakeContext(ctx)
	state := over.ConnectionState()
	if trace != nil && trace.TLSHandshakeDone != nil {
		trace.TLSHandshakeDone(state, err)
	}
	if err != nil {
		return err
	}
	c.nc, c.tls = over, &state
	return nil
}

func (c *conn) secure() bool { return c.tls != nil }

// setDeadline sets the deadline of an exchange; the zero time is none.
func (c *conn) setDeadline(t time.Time) {
	if !t.Equal(c.until) {
		c.until = t
		_ = c.sock.Conn.SetDeadline(t) // a connection that has none is read without
	}
}

// close ends a connection in order.
func (c *conn) close() {
	c.nc.Close()
	c.in.release()
}

// abort ends a connection that is in the middle of something: no farewell of TLS,
// which could block.
func (c *conn) abort() {
	c.sock.Conn.Close()
	c.in.release()
}

// read reads once, to p.
func (c *conn) read(p []byte) (int, error) {
	if err := c.err; err != nil {
		c.err = nil
		return 0, err
	}
	for range maxEmptyReads {
		n, err := c.nc.Read(p)
		if n > 0 {
			c.err = err
			return n, nil
		}
		if err != nil {
			return 0, err
		}
	}
	return 0, io.ErrNoProgress
}

const maxEmptyReads = 100

// fill reads once more into the input.
func (c *conn) fill() error {
	if c.in.r == c.in.w {
		if c.sock.raw != nil && !c.secure() {
			c.in.release()
			b, n, err := c.sock.readBuffer()
			if err != nil {
				return err
			}
			c.in.own(b, n)
			return nil
		}
		c.in.r, c.in.w = 0, 0
	}
	c.in.room()
	n, err := c.read(c.in.b[c.in.w:])
	c.in.w += n
	return err
}
