// Package h1 is an http.RoundTripper for HTTP/1.1, made for measuring. Its
// answers say when their bytes arrived, it hands bytes out the moment they are
// there, its failures can be told apart exactly, and it sends nothing twice. It
// sits at the bottom of the measuring path, below pkg/client, and imports none of
// this module's packages.
//
//	var t h1.Transport
//	defer t.CloseIdleConnections()
//	resp, err := t.RoundTrip(req)
//	if err != nil {
//		return err // a *ConnectError, *ClosedError, *TruncatedError, *ProtocolError …
//	}
//	defer resp.Body.Close()
//	for {
//		n, err := resp.Body.Read(buf)
//		fmt.Println(n, "bytes came at", resp.Body.(*h1.Body).Arrived())
//		if err != nil {
//			break // io.EOF at the proper end
//		}
//	}
//
// What differs from net/http's transport:
//
//   - A Read of the body returns as soon as any bytes of it are there. It waits
//     neither for the end of an HTTP chunk nor for the caller's buffer to fill, and
//     hands out all HTTP chunks that one read of the socket brought at once.
//   - Each read of the socket is stamped; Body.Arrived is the stamp of the read that
//     brought what was handed out last. On Linux the stamps of TCP are the kernel's,
//     taken when a segment arrived, whenever this process came to read it: a client
//     that lags does not add its lag to the server's times. Segments that wait
//     together are read together, and all have the time of the last one. Elsewhere,
//     and where the kernel's stamp cannot be right (the wall clock was set meanwhile),
//     a stamp is the time of the read. Body.Reads tells how many were which.
//   - One goroutine, the caller's, does everything. Only a request of more than
//     64 KiB or of unknown length is written by a second one, so that an answer that
//     comes before its end is read.
//   - Connections have no limit in number; the one that was used last is used next.
//   - A request is never sent again. A *ClosedError says that a connection died
//     before any byte of an answer, and whether it was one from the pool.
//   - Framing is strict: lines end in CR LF, lengths are unambiguous, or the answer is
//     a *ProtocolError.
//   - There are no proxies, no HTTP/2, no decompression, no trailers (they are read and
//     dropped), no protocol upgrades.
//
// Servers on Unix sockets have URLs of the form http://unix:/path/to/socket:/v1/models:
// the host is "unix" without a port, and the socket's path ends at the first ":"
// that a slash or the URL's end follows. Their requests carry "Host: localhost"
// unless they name another. (A machine of that name is reached as unix:80.)
// Alternatively Dial can connect to whatever it likes.
package h1

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	// DefaultMaxHeaderBytes limits an answer's header when
	// Transport.MaxHeaderBytes is 0. Engines put the description of binary
	// vectors, which can be megabytes, into one field.
	DefaultMaxHeaderBytes = 10 << 20
	// DefaultIdleTimeout is how long an unused connection is kept when
	// Transport.IdleTimeout is 0.
	DefaultIdleTimeout = 90 * time.Second
	// connectTimeout limits the default dialer, and each TLS handshake.
	connectTimeout = 30 * time.Second
)

// A Transport sends requests over HTTP/1.1. The zero value is ready to use. It is
// safe for concurrent use; its fields must not change once it is used.
type Transport struct {
	// Dial opens connections, as net.Dialer.DialContext does, and must end when
	// ctx does. The network is "tcp", or "unix" for a socket's path as addr. Nil
	// means the system's network. Its connections are closed, and given a
	// deadline in the past, from other goroutines.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// TLS is used for https; nil means the zero Config. ServerName, unless set, is
	// the URL's host; the protocol is always HTTP/1.1.
	TLS *tls.Config
	// MaxHeaderBytes limits the status line and header of an answer; 0 means
	// DefaultMaxHeaderBytes. An answer may have 1,000 fields.
	MaxHeaderBytes int
	// IdleTimeout is how long a connection is kept unused; 0 means
	// DefaultIdleTimeout, less than 0 for ever.
	IdleTimeout time.Duration

	clock func() moment // set by tests only

	mu     sync.Mutex
	hosts  map[hostKey]*host
	idle   int         // connections in all pools
	reaper *time.Timer // nil until a connection was idle
	armed  bool        // the reaper will run
}

// RoundTrip sends a request and reads the answer's header; the body is an
// *Body. When it returns an error, that is the cause of the request's context if
// that was done, else a *RequestError, *ConnectError, *ClosedError,
// *TruncatedError or *ProtocolError.
//
// A body with a known length of up to 64 KiB is read and sent on the caller's
// goroutine: its Read should not block. Any other may still be in use when
// RoundTrip has returned. A body of unknown length (ContentLength -1, or 0 with a
// body that is not http.NoBody) is sent in chunks.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	return t.roundTrip(req, false, time.Time{})
}

// RoundTripUntil is RoundTrip with a time at which all of the exchange must be done,
// the reading of its body too: what is not is given up, with context.DeadlineExceeded. A
// context with a deadline does the same and costs a tenth of a short exchange.
func (t *Transport) RoundTripUntil(req *http.Request, deadline time.Time) (*http.Response, error) {
	return t.roundTrip(req, false, deadline)
}

// RoundTripFresh is RoundTripUntil on a new connection, also when idle ones are there.
// The zero time is no deadline.
func (t *Transport) RoundTripFresh(req *http.Request, deadline time.Time) (*http.Response, error) {
	return t.roundTrip(req, true, deadline)
}

func (t *Transport) maxHeaderBytes() int {
	if t.MaxHeaderBytes > 0 {
		return t.MaxHeaderBytes
	}
	return DefaultMaxHeaderBytes
}

func (t *Transport) idleTimeout() time.Duration {
	if t.IdleTimeout == 0 {
		return DefaultIdleTimeout
	}
	return t.IdleTimeout
}
