package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math/big"
	"net"
	"slices"
	"strconv"
	"time"
)

// A wire is a connection of the servers and clients here that speak HTTP/1.1 by hand, so that what they cost is next to
// nothing beside what is measured.
type wire struct {
	net.Conn
	buf  []byte
	r, w int
	nap  time.Duration // before each read
}

func newWire(c net.Conn) *wire { return &wire{Conn: c, buf: make([]byte, 8<<10)} }

var headEnd = []byte("\r\n\r\n")

// head reads up to the end of a header and returns it; it is valid until the next call of the wire's methods.
func (c *wire) head() ([]byte, error) {
	for {
		if i := bytes.Index(c.buf[c.r:c.w], headEnd); i >= 0 {
			head := c.buf[c.r : c.r+i+len(headEnd)]
			c.r += len(head)
			return head, nil
		}
		if err := c.fill(); err != nil {
			return nil, err
		}
	}
}

// fill reads once more. What is unread may move.
func (c *wire) fill() error {
	if c.r > 0 {
		copy(c.buf, c.buf[c.r:c.w])
		c.w -= c.r
		c.r = 0
	}
	if c.w == len(c.buf) {
		c.buf = slices.Grow(c.buf, 1)
		c.buf = c.buf[:cap(c.buf)]
	}
	if c.nap > 0 {
		time.Sleep(c.nap)
	}
	n, err := c.Read(c.buf[c.w:])
	c.w += n
	if n > 0 {
		return nil
	}
	return err
}

// skip reads n bytes and forgets them.
func (c *wire) skip(n int) error {
	for n > c.w-c.r {
		n -= c.w - c.r
		c.r, c.w = 0, 0
		if err := c.fill(); err != nil {
			return err
		}
	}
	c.r += n
	return nil
}

// take reads n bytes, which are valid until the next call of the wire's methods.
func (c *wire) take(n int) ([]byte, error) {
	for c.w-c.r < n {
		if err := c.fill(); err != nil {
			return nil, err
		}
	}
	c.r += n
	return c.buf[c.r-n : c.r], nil
}

// contentLength returns the value of that field, -1 if there is none.
func contentLength(head []byte) (int, error) {
	const name = "content-length:"
	for line := range bytes.Lines(head) {
		if len(line) > len(name) && bytes.EqualFold(line[:len(name)], []byte(name)) {
			return strconv.Atoi(string(bytes.TrimSpace(line[len(name):])))
		}
	}
	return -1, nil
}

// A wireRequest is a request as a server here sees it.
type wireRequest struct {
	head, body []byte
}

func (r *wireRequest) isGet() bool { return bytes.HasPrefix(r.head, []byte("GET ")) }

// request reads one request.
func (c *wire) request() (*wireRequest, error) {
	head, err := c.head()
	if err != nil {
		return nil, err
	}
	n, err := contentLength(head)
	if err != nil || n <= 0 {
		return &wireRequest{head: head}, err
	}
	r := &wireRequest{head: bytes.Clone(head)}
	r.body, err = c.take(n)
	return r, err
}

// exchange sends a request and reads the answer, whose size it returns. Chunked answers must be short of nothing: their
// end is told by the bytes "0\r\n\r\n" at the end of a read, which no event ends with.
func (c *wire) exchange(request []byte) (size int, err error) {
	if _, err := c.Write(request); err != nil {
		return 0, err
	}
	head, err := c.head()
	if err != nil {
		return 0, err
	}
	if !bytes.HasPrefix(head, []byte("HTTP/1.1 200")) {
		line, _, _ := bytes.Cut(head, []byte("\r\n"))
		return 0, fmt.Errorf("answer %q", line)
	}
	size = len(head)
	n, err := contentLength(head)
	if err != nil {
		return 0, err
	}
	if n >= 0 {
		return size + n, c.skip(n)
	}
	end := []byte("\r\n0\r\n\r\n")
	for {
		if bytes.HasSuffix(c.buf[c.r:c.w], end) {
			size += c.w - c.r
			c.r, c.w = 0, 0
			return size, nil
		}
		if unread := c.w - c.r; unread > len(end) { // the end may come in two pieces
			size += unread - len(end)
			c.r = c.w - len(end)
		}
		if err := c.fill(); err != nil {
			return 0, err
		}
	}
}

// modelsAnswer is what clients ask for to warm up.
const modelsAnswer = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 24\r\n\r\n" + `{"data":[{"id":"perf"}]}`

// serveWires listens on a loopback port and calls serve for each connection.
func serveWires(secure bool, serve func(*wire) error) (url string, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	scheme := "http://"
	var config *tls.Config
	if secure {
		scheme = "https://"
		if config, err = selfSigned(); err != nil {
			return "", err
		}
	}
	go func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			if config != nil {
				nc = tls.Server(nc, config)
			}
			go func() {
				defer nc.Close()
				_ = serve(newWire(nc)) // clients leave when they like
			}()
		}
	}()
	return scheme + l.Addr().String(), nil
}

// selfSigned makes a certificate for this process alone. The clients here do not look at it.
func selfSigned() (*tls.Config, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	cert := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, key.Public(), key)
	if err != nil {
		return nil, err
	}
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}, nil
}

// asRequest is a POST as the wire clients here send it.
func asRequest(path string, body []byte) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", path, len(body))
	b.Write(body)
	return b.Bytes()
}

func dial(url string) (*wire, error) {
	_, addr, _ := bytes.Cut([]byte(url), []byte("://"))
	nc, err := net.Dial("tcp", string(addr))
	if err != nil {
		return nil, err
	}
	return newWire(nc), nil
}
