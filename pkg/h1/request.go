package h1

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
)

// smallRequest is the longest body that is read and sent at once, by the caller's
// goroutine: what the buffers of an idle connection take without its peer
// reading.
const smallRequest = 64 << 10

// A message is a request as it goes out.
type message struct {
	req    *http.Request
	head   *[]byte // pooled; with the body behind it when that is small
	length int64   // of the body behind the head, -1 when unknown
}

// compose makes the message of a request, and takes its body if that is small.
func compose(req *http.Request, h *host, target string) (message, error) {
	m := message{req: req, length: req.ContentLength}
	switch {
	case req.Body == nil || req.Body == http.NoBody:
		m.length = 0
	case m.length <= 0:
		m.length = -1
	}
	m.head = heads.Get()
	var err error
	if *m.head, err = appendHead((*m.head)[:0], req, h, target, m.length); err == nil && 0 < m.length && m.length <= smallRequest {
		err = m.takeBody()
	}
	if err != nil {
		putHead(m.head)
		return message{}, &RequestError{err}
	}
	return m, nil
}

// whole reports whether the message is all in its head.
func (m *message) whole() bool { return m.length == 0 }

func (m *message) takeBody() error {
	head := *m.head
	begin := len(head)
	// One byte more than the body has, to see that it has no more.
	head = slices.Grow(head, int(m.length)+1)
	n, err := io.ReadFull(m.req.Body, head[begin:begin+int(m.length)+1])
	*m.head = head[:begin+int(m.length)]
	switch {
	case err == nil:
		return errLongBody
	case int64(n) < m.length && (err == io.EOF || err == io.ErrUnexpectedEOF):
		return errShortBody
	case err != io.ErrUnexpectedEOF:
		return err
	}
	m.length = 0
	return m.req.Body.Close()
}

var (
	errLongBody  = errors.New("the body is longer than ContentLength")
	errShortBody = errors.New("the body is shorter than ContentLength")
)

// ours are the fields that follow from the request itself.
func ours(name string) bool {
	switch name {
	case "Host", "Content-Length", "Transfer-Encoding", "Trailer":
		return true
	}
	return false
}

// appendHead appends the request line and the header.
func appendHead(b []byte, req *http.Request, h *host, target string, length int64) ([]byte, error) {
	method := req.Method
	if method == "" {
		method = http.MethodGet
	}
	hostField := h.header
	if req.Host != "" && req.Host != req.URL.Host {
		hostField = req.Host
	}
	switch {
	case !isName(method):
		return b, fmt.Errorf("invalid method %q", method)
	case method == http.MethodConnect:
		return b, errors.New("CONNECT is not supported")
	case !isValue(hostField):
		return b, errors.New("invalid Host")
	}
	b = append(b, method...)
	b = append(b, ' ')
	b = append(b, target...)
	b = append(b, " HTTP/1.1\r\nHost: "...)
	b = append(b, hostField...)
	b = append(b, "\r\n"...)

	var few [16]string
	names := few[:0]
	for name := range req.Header {
		if !ours(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		if !isName(name) {
			return b, fmt.Errorf("invalid header field name %q", name)
		}
		for _, value := range req.Header[name] {
			if !isValue(value) {
				return b, fmt.Errorf("invalid value of header field %q", name)
			}
			b = append(b, name...)
			b = append(b, ": "...)
			b = append(b, value...)
			b = append(b, "\r\n"...)
		}
	}
	if req.Close && !hasToken(req.Header["Connection"], "close") {
		b = append(b, "Connection: close\r\n"...)
	}
	switch {
	case length > 0 || length == 0 && (method == http.MethodPost || method == http.MethodPut || method == http.MethodPatch):
		b = append(b, "Content-Length: "...)
		b = strconv.AppendInt(b, length, 10)
		b = append(b, "\r\n"...)
	case length < 0:
		b = append(b, "Transfer-Encoding: chunked\r\n"...)
	}
	return append(b, "\r\n"...), nil
}

func isName(s string) bool {
	for i := range len(s) {
		if !isToken(s[i]) {
			return false
		}
	}
	return s != ""
}

// isValue reports whether s can be a field's value.
func isValue(s string) bool {
	for i := range len(s) {
		if isControl(s[i]) {
			return false
		}
	}
	return true
}

// closeBody closes the body of a request that is not sent.
func closeBody(req *http.Request) {
	if req.Body != nil {
		req.Body.Close()
	}
}
