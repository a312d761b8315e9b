// Package memnet is a network inside one process: a [net.Listener] and the
// dialer that reaches it. It is the default transport between the client and
// a fake server in the same process; it imports none of this module's
// packages, and both sides only see net.Conn.
//
//	l := memnet.Listen()
//	srv := &http.Server{Handler: handler}
//	go srv.Serve(l)
//	defer srv.Close()
//
//	tr := &http.Transport{DialContext: l.DialContext}
//	defer tr.CloseIdleConnections()
//	client := &http.Client{Transport: tr}
//	resp, err := client.Get("http://" + l.Addr().String() + "/")
//
// Connections behave like TCP over loopback where net/http can tell the
// difference: they buffer (up to [BufferSize] in each direction, then writers
// block), they half close, they can be reset, deadlines end blocked calls, and
// failures are [*net.OpError] values around the errors that TCP would give.
// They differ on purpose in four points: there is no accept backlog, so a dial
// ends when the connection is accepted; closing with unread input is a clean
// end for the peer and not a reset; the first write after the peer closed
// already fails; a connection that was reset stays reset.
//
// Everything blocks on sync.Cond values, channels and timers that belong to
// one listener or one connection. Made inside a testing/synctest bubble they
// are durably blocking, so virtual time advances over them.
package memnet

import (
	"context"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
)

// network is the name that addresses and errors carry.
const network = "mem"

// hostname is what every address starts with. The top-level domain "invalid"
// never resolves (RFC 2606), so a request sent through another dialer by
// mistake fails at once and reaches no stranger.
const hostname = "memnet.invalid"

// Ports that addresses show: the listener's, and the range that dialed
// connections count through.
const (
	listenPort    = 80
	firstDialPort = 1024
	dialPorts     = 1<<16 - firstDialPort
)

// addr is a host and port on the "mem" network. Two listeners may have the
// same address: a dialer belongs to its listener and looks nothing up.
type addr struct {
	port int
}

func (addr) Network() string { return network }

// String has the form host:port, as http.Server's RemoteAddr and URLs need it.
func (a addr) String() string {
	return net.JoinHostPort(hostname, strconv.Itoa(a.port))
}

// Listener accepts the connections that its own DialContext makes. Make one
// with [Listen].
type Listener struct {
	incoming chan *Conn
	closed   chan struct{}
	once     sync.Once
	dials    atomic.Int64
}

var _ net.Listener = (*Listener)(nil)

// Listen returns a new listener. It holds no goroutine and no other resource,
// so one that is never closed costs nothing but memory.
func Listen() *Listener {
	return &Listener{
		incoming: make(chan *Conn),
		closed:   make(chan struct{}),
	}
}

// Accept waits for the next dial and returns its server side, a [*Conn]. After
// Close it fails with a *net.OpError around net.ErrClosed.
func (l *Listener) Accept() (net.Conn, error) {
	// select picks at random: without this look a closed listener could still
	// take a waiting dial.
	select {
	case <-l.closed:
		return nil, l.acceptError()
	default:
	}
	select {
	case c := <-l.incoming:
		return c, nil
	case <-l.closed:
		return nil, l.acceptError()
	}
}

func (l *Listener) acceptError() error {
	return &net.OpError{Op: "accept", Net: network, Addr: l.Addr(), Err: net.ErrClosed}
}

// Close ends waiting calls of Accept and DialContext and makes later ones
// fail. Accepted connections live on. The second Close fails with a
// *net.OpError around net.ErrClosed.
func (l *Listener) Close() error {
	err := error(&net.OpError{Op: "close", Net: network, Addr: l.Addr(), Err: net.ErrClosed})
	l.once.Do(func() {
		close(l.closed)
		err = nil
	})
	return err
}

// Addr returns an address whose network is "mem" and whose string has the form
// host:port with a host that never resolves.
func (l *Listener) Addr() net.Addr {
	return addr{listenPort}
}

// DialContext connects to the listener and returns the client side, a [*Conn],
// once Accept has taken the server side. Its signature is the one of
// http.Transport.DialContext; network and address are ignored, because there
// is just one place to go.
//
// Errors are *net.OpError values around syscall.ECONNREFUSED when the listener
// is closed, or around ctx.Err() when ctx ends first.
func (l *Listener) DialContext(ctx context.Context, _, _ string) (net.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, l.dialError(err)
	}
	refused := os.NewSyscallError("connect", syscall.ECONNREFUSED)
	select {
	case <-l.closed:
		return nil, l.dialError(refused)
	default:
	}
	port := firstDialPort + int((l.dials.Add(1)-1)%dialPorts)
	client, server := newPair(addr{port}, addr{listenPort})
	select {
	case l.incoming <- server:
		return client, nil
	case <-l.closed:
		return nil, l.dialError(refused)
	case <-ctx.Done():
		return nil, l.dialError(ctx.Err())
	}
}

func (l *Listener) dialError(err error) error {
	return &net.OpError{Op: "dial", Net: network, Addr: l.Addr(), Err: err}
}
