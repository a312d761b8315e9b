package h1

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A wire is a connection whose reads return given pieces, one each, and then
// end.
type wire struct {
	pieces [][]byte
	end    error
	after  chan struct{} // closed when they may begin; nil: at once
	sent   bytes.Buffer
	closed bool
}

func (w *wire) Read(p []byte) (int, error) {
	if w.after != nil {
		<-w.after
	}
	for len(w.pieces) > 0 && len(w.pieces[0]) == 0 {
		w.pieces = w.pieces[1:]
	}
	if len(w.pieces) == 0 {
		return 0, w.end
	}
	n := copy(p, w.pieces[0])
	w.pieces[0] = w.pieces[0][n:]
	return n, nil
}

func (w *wire) Write(p []byte) (int, error)      { return w.sent.Write(p) }
func (w *wire) Close() error                     { w.closed = true; return nil }
func (w *wire) LocalAddr() net.Addr              { return &net.UnixAddr{} }
func (w *wire) RemoteAddr() net.Addr             { return &net.UnixAddr{} }
func (w *wire) SetDeadline(time.Time) error      { return nil }
func (w *wire) SetReadDeadline(time.Time) error  { return nil }
func (w *wire) SetWriteDeadline(time.Time) error { return nil }

// onWire is a transport whose only connection is w.
func onWire(w *wire) *Transport {
	return &Transport{IdleTimeout: -1, Dial: func(context.Context, string, string) (net.Conn, error) { return w, nil }}
}

// A result is what became of an answer.
type result struct {
	resp   *http.Response
	body   []byte
	err    error // of RoundTrip or of the body
	reused bool  // the connection went back to the pool
}

// deliver gives the pieces to a transport as the answer to a request, and reads
// the body with reads of so many bytes.
func deliver(t testing.TB, method string, size int, pieces ...[]byte) result {
	t.Helper()
	w := &wire{pieces: pieces, end: io.EOF}
	tr := onWire(w)
	req, err := http.NewRequest(method, "http://wire.invalid/", nil)
	require.NoError(t, err)
	var r result
	if r.resp, r.err = tr.RoundTrip(req); r.err == nil {
		r.body, r.err = readBy(r.resp.Body, size)
		require.NoError(t, r.resp.Body.Close())
	}
	r.reused = idle(tr) > 0
	require.Equal(t, !r.reused, w.closed)
	tr.CloseIdleConnections()
	require.True(t, w.closed)
	return r
}

// readBy reads all, with reads of at most size bytes.
func readBy(r io.Reader, size int) ([]byte, error) {
	var all []byte
	p := make([]byte, size)
	for {
		n, err := r.Read(p)
		all = append(all, p[:n]...)
		if err == io.EOF {
			return all, nil
		}
		if err != nil {
			return all, err
		}
	}
}

// splits calls f with raw whole, in single bytes, and cut in two at every place.
func splits(raw string, f func(pieces ...[]byte)) {
	f([]byte(raw))
	f(singles(raw)...)
	for i := 1; i < len(raw); i++ {
		f([]byte(raw[:i]), []byte(raw[i:]))
	}
}

func singles(raw string) [][]byte {
	var all [][]byte
	for i := range len(raw) {
		all = append(all, []byte{raw[i]})
	}
	return all
}

// byNetHTTP reads an answer with net/http's reader.
func byNetHTTP(method string, raw []byte) (*http.Response, []byte, error) {
	resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(raw)), &http.Request{Method: method})
	if err != nil {
		return nil, nil, err
	}
	body, err := io.ReadAll(resp.Body)
	return resp, body, err
}

// requireSame demands that an answer that both readers accept is the same.
func requireSame(t testing.TB, theirs *http.Response, theirBody []byte, ours result) {
	t.Helper()
	require.Equal(t, theirs.StatusCode, ours.resp.StatusCode)
	require.Equal(t, theirs.Status, ours.resp.Status)
	require.Equal(t, theirs.Proto, ours.resp.Proto)
	require.Equal(t, theirs.ProtoMajor, ours.resp.ProtoMajor)
	require.Equal(t, theirs.ProtoMinor, ours.resp.ProtoMinor)
	require.Equal(t, theirs.ContentLength, ours.resp.ContentLength)
	require.Equal(t, theirs.TransferEncoding, ours.resp.TransferEncoding)
	require.Equal(t, string(theirBody), string(ours.body))
	header := ours.resp.Header.Clone()
	// net/http moves the first, since it reads trailers, drops the second when it
	// has obeyed it, and makes up the third.
	header.Del("Trailer")
	if theirs.Close && theirs.Header["Connection"] == nil {
		header.Del("Connection")
	}
	if header.Get("Pragma") == "no-cache" && header["Cache-Control"] == nil {
		header["Cache-Control"] = []string{"no-cache"}
	}
	theirs.Header.Del("Trailer")
	require.Equal(t, theirs.Header, header)

	require.Equal(t, theirs.Close, ours.resp.Close)
}

func repeat(s string, n int) string { return strings.Repeat(s, n) }
