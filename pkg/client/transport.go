package client

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"example.com/tokpace/pkg/h1"
)

// A DialFunc opens a connection, as net.Dialer.DialContext does.
type DialFunc func(ctx context.Context, network, addr string) (net.Conn, error)

// A Transport moves requests and answers, and keeps connections.
type Transport interface {
	http.RoundTripper
	CloseIdleConnections()
}

// The names of the transports. H1 is package h1, the default: it says when bytes
// arrived, and tells failures apart exactly. NetHTTP is NewTransport's, for
// servers that H1 is too strict for; events that share an HTTP chunk all get the
// last one's time there.
const (
	H1      = "h1"
	NetHTTP = "net/http"
)

// TransportNames are the names that NamedTransport knows, the default first.
func TransportNames() []string { return []string{H1, NetHTTP} }

// NamedTransport returns a new transport of a name; empty means the default. A
// nil dial means TCP.
func NamedTransport(name string, dial DialFunc) (Transport, error) {
	switch name {
	case H1, "":
		return &h1.Transport{Dial: dial}, nil
	case NetHTTP:
		return NewTransport(dial), nil
	}
	return nil, fmt.Errorf("unknown transport %q: choose one of %s", name, strings.Join(TransportNames(), ", "))
}

// LimitHeader limits the header of a new transport's answers, in bytes; 0 keeps
// its default of 10 MiB.
func LimitHeader(t Transport, bytes int) {
	if bytes <= 0 {
		return
	}
	switch t := t.(type) {
	case *h1.Transport:
		t.MaxHeaderBytes = bytes
	case *http.Transport:
		t.MaxResponseHeaderBytes = int64(bytes)
	}
}

// UseTLS makes a new transport use config for https; nil keeps its default, which
// trusts the system's certificates.
func UseTLS(t Transport, config *tls.Config) {
	switch t := t.(type) {
	case *h1.Transport:
		t.TLS = config
	case *http.Transport:
		t.TLSClientConfig = config
	}
}

// UseProxy makes a new transport go through the proxy that proxy names for a
// request, as http.ProxyFromEnvironment and http.ProxyURL do. It reports false
// for a transport that knows no proxies: H1 does not.
func UseProxy(t Transport, proxy func(*http.Request) (*url.URL, error)) bool {
	nh, ok := t.(*http.Transport)
	if ok {
		nh.Proxy = proxy
	}
	return ok
}

// NewTransport returns a net/http transport with what measuring needs: HTTP/1.1,
// connections kept without a limit on their number, no proxy from the
// environment in the measured path, bodies left as they were sent. A nil dial
// means TCP.
func NewTransport(dial DialFunc) *http.Transport {
	if dial == nil {
		dial = (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 15 * time.Second}).DialContext
	}
	return &http.Transport{
		DialContext:         dial,
		DisableCompression:  true,
		MaxIdleConnsPerHost: 1 << 20,
		IdleConnTimeout:     90 * time.Second,
		TLSHandshakeTimeout: 30 * time.Second,
		Protocols:           http1(),
	}
}

func http1() *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	return p
}
