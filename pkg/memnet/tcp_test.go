package memnet_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"example.com/tokpace/pkg/memnet"

	"github.com/stretchr/testify/require"
)

// verdict is what net/http and its users can see of an error.
type verdict struct {
	op       string // of a *net.OpError, else ""
	eof      bool
	timeout  bool
	closed   bool
	canceled bool
	errno    syscall.Errno
}

func judge(err error) verdict {
	v := verdict{
		eof:      err == io.EOF,
		timeout:  errors.Is(err, os.ErrDeadlineExceeded),
		closed:   errors.Is(err, net.ErrClosed),
		canceled: errors.Is(err, context.Canceled),
	}
	if opErr := (*net.OpError)(nil); errors.As(err, &opErr) {
		v.op = opErr.Op
	}
	errors.As(err, &v.errno)
	return v
}

// halfConn is what both kinds of connection have beyond net.Conn.
type halfConn interface {
	net.Conn
	CloseWrite() error
}

// Every failure looks as it does on a TCP connection over loopback.
func TestErrorsAreThoseOfTCP(t *testing.T) {
	type ends struct{ own, peer halfConn }
	reset := func(c net.Conn) {
		switch c := c.(type) {
		case *memnet.Conn:
			c.Reset()
		case *net.TCPConn:
			c.SetLinger(0)
			c.Close()
		}
	}
	read := func(c net.Conn) error { _, err := c.Read(make([]byte, 1)); return err }
	write := func(c net.Conn) error { _, err := c.Write(make([]byte, 1)); return err }
	past := time.Unix(1, 0)
	cases := []struct {
		name string
		do   func(e ends) error
	}{
		{"read after own close", func(e ends) error { e.own.Close(); return read(e.own) }},
		{"write after own close", func(e ends) error { e.own.Close(); return write(e.own) }},
		{"empty read after own close", func(e ends) error { e.own.Close(); _, err := e.own.Read(nil); return err }},
		{"empty write after own close", func(e ends) error { e.own.Close(); _, err := e.own.Write(nil); return err }},
		{"second close", func(e ends) error { e.own.Close(); return e.own.Close() }},
		{"half close after own close", func(e ends) error { e.own.Close(); return e.own.CloseWrite() }},
		{"deadline after own close", func(e ends) error { e.own.Close(); return e.own.SetDeadline(past) }},
		{"write after own half close", func(e ends) error { e.own.CloseWrite(); return write(e.own) }},
		{"read after peer close", func(e ends) error { e.peer.Close(); return read(e.own) }},
		{"read after peer half close", func(e ends) error { e.peer.CloseWrite(); return read(e.own) }},
		{"read after peer reset", func(e ends) error { reset(e.peer); return read(e.own) }},
		{"close after peer reset", func(e ends) error { reset(e.peer); read(e.own); return e.own.Close() }},
		{"read past deadline", func(e ends) error { e.own.SetDeadline(past); return read(e.own) }},
		{"write past deadline", func(e ends) error { e.own.SetDeadline(past); return write(e.own) }},
		{"empty read past deadline", func(e ends) error { e.own.SetDeadline(past); _, err := e.own.Read(nil); return err }},
		{"empty write past deadline", func(e ends) error { e.own.SetDeadline(past); _, err := e.own.Write(nil); return err }},
		{"empty read after peer reset", func(e ends) error { reset(e.peer); _, err := e.own.Read(nil); return err }},
		{"read past deadline with bytes waiting", func(e ends) error {
			write(e.peer)
			read(e.own)
			write(e.peer)
			e.own.SetReadDeadline(past)
			return read(e.own)
		}},
		{"read past deadline after peer close", func(e ends) error { e.peer.Close(); e.own.SetDeadline(past); return read(e.own) }},
	}

	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer tcp.Close()
	dialTCP := func() ends {
		own, err := net.Dial("tcp", tcp.Addr().String())
		require.NoError(t, err)
		peer, err := tcp.Accept()
		require.NoError(t, err)
		return ends{own.(halfConn), peer.(halfConn)}
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			real := dialTCP()
			defer real.own.Close()
			defer real.peer.Close()
			own, peer := pair(t)
			require.Equal(t, judge(tc.do(real)), judge(tc.do(ends{own, peer})))
		})
	}

	t.Run("listener", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		mem := memnet.Listen()
		_, realErr := new(net.Dialer).DialContext(ctx, "tcp", tcp.Addr().String())
		_, memErr := mem.DialContext(ctx, "tcp", "")
		require.Equal(t, judge(realErr), judge(memErr))

		tcp.Close()
		mem.Close()
		_, realErr = net.Dial("tcp", tcp.Addr().String())
		_, memErr = mem.DialContext(t.Context(), "tcp", "")
		require.Equal(t, judge(realErr), judge(memErr))
		_, realErr = tcp.Accept()
		_, memErr = mem.Accept()
		require.Equal(t, judge(realErr), judge(memErr))
		require.Equal(t, judge(tcp.Close()), judge(mem.Close()))
	})
}
