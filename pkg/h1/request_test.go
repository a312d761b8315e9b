package h1

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

// A closeCounter is a request's body that counts its Close calls.
type closeCounter struct {
	io.Reader
	closed atomic.Int32
}

func (c *closeCounter) Close() error { c.closed.Add(1); return nil }

// sent is what goes out for a request.
func sent(t *testing.T, req *http.Request) string {
	t.Helper()
	w := &wire{pieces: [][]byte{[]byte(ok + "Content-Length: 0\r\n\r\n")}, end: io.EOF, after: make(chan struct{})}
	tr := onWire(w)
	resp, err := tr.RoundTrip(req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
		WroteRequest: func(httptrace.WroteRequestInfo) { close(w.after) },
	})))
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return w.sent.String()
}

func TestRequestsAsSent(t *testing.T) {
	post := func(body string) *http.Request {
		return newRequest(t, "POST", "http://h.invalid:8000/v1/x?a=1&b=2", body)
	}
	for name, c := range map[string]struct {
		req  func() *http.Request
		want string
	}{
		"GET": {func() *http.Request { return newRequest(t, "GET", "http://h.invalid", "") },
			"GET / HTTP/1.1\r\nHost: h.invalid\r\n\r\n"},
		"POST": {func() *http.Request {
			req := post("{}")
			req.Header = http.Header{"X-Two": {"2", "3"}, "Authorization": {"Bearer k"}, "Content-Length": {"77"}, "Host": {"no"}, "Transfer-Encoding": {"x"}}
			return req
		}, "POST /v1/x?a=1&b=2 HTTP/1.1\r\nHost: h.invalid:8000\r\nAuthorization: Bearer k\r\nX-Two: 2\r\nX-Two: 3\r\nContent-Length: 2\r\n\r\n{}"},
		"POST of nothing": {func() *http.Request { return post("") },
			"POST /v1/x?a=1&b=2 HTTP/1.1\r\nHost: h.invalid:8000\r\nContent-Length: 0\r\n\r\n"},
		"another Host, and close": {func() *http.Request {
			req := post("")
			req.Method, req.Host, req.Close = "", "other.invalid", true
			return req
		}, "GET /v1/x?a=1&b=2 HTTP/1.1\r\nHost: other.invalid\r\nConnection: close\r\n\r\n"},
		"unknown length": {func() *http.Request {
			req := post("x")
			req.Body, req.ContentLength = io.NopCloser(iotest.OneByteReader(strings.NewReader("abc"))), -1
			return req
		}, "POST /v1/x?a=1&b=2 HTTP/1.1\r\nHost: h.invalid:8000\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n1\r\nb\r\n1\r\nc\r\n0\r\n\r\n"},
		"unix socket": {func() *http.Request { return newRequest(t, "GET", "http://unix:/run/a%20b.sock:/v1/models?x=%20", "") },
			"GET /v1/models?x=%20 HTTP/1.1\r\nHost: localhost\r\n\r\n"},
		"unix socket, no path": {func() *http.Request { return newRequest(t, "GET", "http://unix:/run/s.sock:", "") },
			"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"},
		"zone": {func() *http.Request { return newRequest(t, "GET", "http://[fe80::1%25eth0]:81/", "") },
			"GET / HTTP/1.1\r\nHost: [fe80::1]:81\r\n\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, sent(t, c.req()))
		})
	}
}

// net/http's server reader gets back what was sent, for bodies of every size
// class.
func TestBodiesAsSent(t *testing.T) {
	for _, n := range []int{1, smallRequest - 1, smallRequest, smallRequest + 1, 1 << 20} {
		for _, known := range []bool{true, false} {
			body := strings.Repeat("0123456789abcdef", n/16+1)[:n]
			req := newRequest(t, "POST", "http://h.invalid/", body)
			if !known {
				req.ContentLength = -1
			}
			count := &closeCounter{Reader: req.Body}
			req.Body = count
			raw := sent(t, req)
			got, err := http.ReadRequest(bufio.NewReader(strings.NewReader(raw)))
			require.NoError(t, err)
			require.Equal(t, known, got.ContentLength == int64(n))
			back, err := io.ReadAll(got.Body)
			require.NoError(t, err)
			require.True(t, body == string(back), "%d bytes, known: %v", n, known)
			require.EqualValues(t, 1, count.closed.Load())
		}
	}
}

func TestRequestsThatCannotBeSent(t *testing.T) {
	good := func() *http.Request { return newRequest(t, "POST", "http://h.invalid/", "x") }
	for name, spoil := range map[string]func(req *http.Request){
		"method":              func(r *http.Request) { r.Method = "GE T" },
		"CONNECT":             func(r *http.Request) { r.Method = "CONNECT" },
		"no URL":              func(r *http.Request) { r.URL = nil },
		"no host":             func(r *http.Request) { r.URL.Host = "" },
		"only a port":         func(r *http.Request) { r.URL.Host = ":80" },
		"scheme":              func(r *http.Request) { r.URL.Scheme = "ftp" },
		"no scheme":           func(r *http.Request) { r.URL.Scheme = "" },
		"host not ASCII":      func(r *http.Request) { r.URL.Host = "bücher.invalid" },
		"line end in Host":    func(r *http.Request) { r.Host = "a\r\nX: y" },
		"line end in path":    func(r *http.Request) { r.URL = &url.URL{Scheme: "http", Host: "h", Opaque: "/a\r\nX: y"} },
		"line end in query":   func(r *http.Request) { r.URL.RawQuery = "a\r\nX: y" },
		"line end in a value": func(r *http.Request) { r.Header["X"] = []string{"a\r\nY: z"} },
		"name":                func(r *http.Request) { r.Header["X Y"] = []string{"a"} },
		"long body":           func(r *http.Request) { r.Body = io.NopCloser(strings.NewReader("xx")) },
		"short body":          func(r *http.Request) { r.ContentLength = 2 },
		"no socket":           func(r *http.Request) { r.URL.Host, r.URL.Path = "unix:", "/run/x.sock" },
		"empty socket":        func(r *http.Request) { r.URL.Host, r.URL.Path = "unix:", "/:/v1" },
	} {
		t.Run(name, func(t *testing.T) {
			w := &wire{end: io.EOF}
			tr := onWire(w)
			req := good()
			spoil(req)
			count := &closeCounter{Reader: req.Body}
			req.Body = count
			_, err := tr.RoundTrip(req)
			var bad *RequestError
			require.ErrorAs(t, err, &bad)
			require.Empty(t, w.sent.String())
			require.EqualValues(t, 1, count.closed.Load())
		})
	}
}

// A body that fails ends the exchange, whether it is small or large.
func TestRequestBodyFails(t *testing.T) {
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		body   io.Reader
		length int64
		want   error
	}{
		"small":           {iotest.ErrReader(broken), 10, broken},
		"large":           {io.MultiReader(bytes.NewReader(make([]byte, 1<<20)), iotest.ErrReader(broken)), 2 << 20, broken},
		"large and short": {bytes.NewReader(make([]byte, 1<<20)), 2 << 20, errShortBody},
		"large and long":  {bytes.NewReader(make([]byte, 2<<20)), 1 << 20, errLongBody},
		"unknown length":  {iotest.ErrReader(broken), -1, broken},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, &scripted{steps: []step{{0, hi}}}, func(t *testing.T, tr *Transport) {
				req := newRequest(t, "POST", memURL, "")
				req.Body, req.ContentLength = io.NopCloser(c.body), c.length
				_, err := tr.RoundTrip(req)
				var bad *RequestError
				require.ErrorAs(t, err, &bad)
				require.ErrorIs(t, err, c.want)
				require.Zero(t, idle(tr))
			})
		})
	}
}
