package h1

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
)

// A hostKey is what a URL says of where to connect.
type hostKey struct {
	scheme, host string
	socket       string // path of a Unix socket as it stands in the URL
}

// A host is a place to connect to, and its idle connections.
type host struct {
	network, addr string
	secure        bool
	serverName    string // for TLS
	header        string // the Host field, unless the request has its own

	idle []*conn // the last one used at the end; guarded by Transport.mu
}

// unixHost is the host of URLs of Unix sockets. http.NewRequest removes the colon
// that they are written with.
const unixHost = "unix"

// find returns the host of a URL and the target of the request line.
func (t *Transport) find(u *url.URL) (*host, string, error) {
	key := hostKey{scheme: u.Scheme, host: u.Host}
	target := ""
	if strings.TrimSuffix(u.Host, ":") == unixHost {
		var err error
		if key.socket, target, err = cutSocket(u); err != nil {
			return nil, "", err
		}
	} else {
		target = u.RequestURI()
	}
	if strings.IndexFunc(target, func(r rune) bool { return r <= ' ' || r == 0x7f }) >= 0 {
		return nil, "", errors.New("the URL holds white space or a control character")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if h := t.hosts[key]; h != nil {
		return h, target, nil
	}
	h, err := newHost(key)
	if err != nil {
		return nil, "", err
	}
	if t.hosts == nil {
		t.hosts = map[hostKey]*host{}
	}
	t.hosts[key] = h
	return h, target, nil
}

func newHost(key hostKey) (*host, error) {
	h := &host{network: "tcp", header: key.host}
	port := "80"
	switch key.scheme {
	case "http":
	case "https":
		h.secure, port = true, "443"
	default:
		return nil, fmt.Errorf("unsupported protocol scheme %q", key.scheme)
	}
	if key.socket != "" {
		path, err := url.PathUnescape(key.socket)
		if err != nil {
			return nil, err
		}
		h.network, h.addr, h.header, h.serverName = "unix", path, "localhost", "localhost"
		return h, nil
	}
	u := url.URL{Host: key.host}
	name := u.Hostname()
	if name == "" {
		return nil, errors.New("the URL has no host")
	}
	for _, c := range []byte(key.host) {
		if c <= ' ' || c >= 0x7f {
			return nil, errors.New("the URL's host is not plain ASCII: write it in Punycode (xn--…)")
		}
	}
	if p := u.Port(); p != "" {
		port = p
	}
	h.addr = net.JoinHostPort(name, port)
	h.serverName, _, _ = strings.Cut(name, "%")
	if zone := strings.IndexByte(key.host, '%'); zone >= 0 {
		// The zone of an address means something on this machine only.
		h.header = key.host[:zone] + key.host[strings.IndexByte(key.host, ']'):]
	}
	return h, nil
}

// cutSocket cuts the path of a URL of a Unix socket into the socket's and the
// request's.
func cutSocket(u *url.URL) (socket, target string, err error) {
	path := u.EscapedPath()
	socket, target, found := strings.Cut(path, ":/")
	switch {
	case found:
		target = "/" + target
	case strings.HasSuffix(path, ":"):
		socket, target = path[:len(path)-1], "/"
	default:
		return "", "", errors.New("the URL of a Unix socket has no ':' behind the socket's path, as in http://unix:/run/server.sock:/v1/models")
	}
	if len(socket) < 2 {
		return "", "", errors.New("the URL of a Unix socket has no path of a socket, as in http://unix:/run/server.sock:/v1/models")
	}
	if u.ForceQuery || u.RawQuery != "" {
		target += "?" + u.RawQuery
	}
	return socket, target, nil
}
