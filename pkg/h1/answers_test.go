package h1

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const ok = "HTTP/1.1 200 OK\r\n"

// valid are answers that are read to their end. Each is also read by net/http's
// reader, with the same result.
var valid = []struct {
	name, method string
	raw          string
	body         string
	reused       bool
	// net/http reads it in its transport, and not in its reader.
	special bool
}{
	{name: "length", raw: ok + "Content-Length: 5\r\n\r\nhello", body: "hello", reused: true},
	{name: "length 0", raw: ok + "Content-Length: 0\r\n\r\n", reused: true},
	{name: "length twice the same", raw: ok + "Content-Length: 2\r\nContent-Length: 2\r\n\r\nhi", body: "hi", reused: true},
	{name: "length with zeros", raw: ok + "Content-Length: 0002\r\n\r\nhi", body: "hi", reused: true},
	{name: "white space around a value", raw: ok + "Content-Length:\t 2 \t\r\nX: \r\nY:\r\n\r\nhi", body: "hi", reused: true},
	{name: "chunks", raw: ok + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n", body: "hello!", reused: true},
	{name: "chunks in capitals", raw: ok + "TRANSFER-encoding: CHUNKED\r\n\r\nA\r\n0123456789\r\n0\r\n\r\n", body: "0123456789", reused: true},
	{name: "no chunk", raw: ok + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", reused: true},
	{name: "zeros before a size", raw: ok + "Transfer-Encoding: chunked\r\n\r\n0000000000000002\r\nhi\r\n000\r\n\r\n", body: "hi", reused: true},
	{name: "extensions", raw: ok + "Transfer-Encoding: chunked\r\n\r\n2;a=b;c=\"d e\"\r\nhi\r\n1;x\r\n!\r\n2 \t \r\nho\r\n0;last\r\n\r\n", body: "hi!ho", reused: true},
	{name: "trailers", raw: ok + "Trailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nX-Sum: 1\r\nY: \xe4\r\n\r\n", body: "hi", reused: true},
	{name: "framing look-alike in the data", raw: ok + "Transfer-Encoding: chunked\r\n\r\n7\r\n\r\n0\r\n\r\n\r\n0\r\n\r\n", body: "\r\n0\r\n\r\n", reused: true},
	{name: "until close", raw: ok + "\r\nall of it", body: "all of it"},
	{name: "until close, empty", raw: ok + "\r\n"},
	{name: "HTTP/1.0", raw: "HTTP/1.0 200 OK\r\n\r\nold", body: "old"},
	{name: "HTTP/1.0 with length", raw: "HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nold", body: "old"},
	{name: "HTTP/1.0 kept", raw: "HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 3\r\n\r\nold", body: "old", reused: true},
	{name: "closed by the server", raw: ok + "Connection: x, Close\r\nContent-Length: 2\r\n\r\nhi", body: "hi"},
	{name: "more behind the length", raw: ok + "Content-Length: 2\r\n\r\nhiHTTP/1.1 200 OK\r\n", body: "hi"},
	{name: "more behind the last chunk", raw: ok + "Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\nHTTP", body: "hi"},
	{name: "HEAD with length", method: "HEAD", raw: ok + "Content-Length: 50\r\n\r\n", reused: true},
	{name: "HEAD with chunks", method: "HEAD", raw: ok + "Transfer-Encoding: chunked\r\n\r\n", reused: true},
	{name: "HEAD with neither", method: "HEAD", raw: ok + "\r\n", reused: true},
	{name: "204", raw: "HTTP/1.1 204 No Content\r\n\r\n", reused: true},
	{name: "304 with length", raw: "HTTP/1.1 304 Not Modified\r\nContent-Length: 50\r\n\r\n", reused: true},
	{name: "no reason", raw: "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", reused: true},
	{name: "empty reason", raw: "HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n", reused: true},
	{name: "unknown status", raw: "HTTP/1.1 999 Whatever it is\r\nContent-Length: 0\r\n\r\n", reused: true},
	{name: "many values", raw: ok + "Set-Cookie: a\r\nX: 1\r\nset-cookie: b\r\nContent-Length: 0\r\n\r\n", reused: true},
	{name: "bytes beyond ASCII", raw: ok + "X: gr\xc3\xbc\xdf\r\nContent-Length: 0\r\n\r\n", reused: true},
	{name: "interim answers", raw: "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n" + ok + "Content-Length: 2\r\n\r\nhi", body: "hi", reused: true, special: true},
	{name: "large header", raw: ok + "Metadata: " + repeat("m", 100_000) + "\r\nContent-Length: 2\r\n\r\nhi", body: "hi", reused: true},
	{name: "large body", raw: ok + "Content-Length: 100000\r\n\r\n" + repeat("0123456789", 10_000), body: repeat("0123456789", 10_000), reused: true},
	{name: "large chunk", raw: ok + "Transfer-Encoding: chunked\r\n\r\n186a0\r\n" + repeat("0123456789", 10_000) + "\r\n0\r\n\r\n", body: repeat("0123456789", 10_000), reused: true},
	{name: "many chunks", raw: ok + "Transfer-Encoding: chunked\r\n\r\n" + repeat("1\r\na\r\n3;x\r\nbcd\r\n", 10_000) + "0\r\n\r\n", body: repeat("abcd", 10_000), reused: true},
}

func TestValidAnswers(t *testing.T) {
	for _, c := range valid {
		t.Run(c.name, func(t *testing.T) {
			if c.method == "" {
				c.method = "GET"
			}
			theirs, theirBody, err := byNetHTTP(c.method, []byte(c.raw))
			if !c.special {
				require.NoError(t, err)
			}
			check := func(size int, pieces ...[]byte) {
				r := deliver(t, c.method, size, pieces...)
				require.NoError(t, r.err)
				require.Equal(t, c.body, string(r.body))
				if len(pieces) == 1 {
					require.Equal(t, c.reused, r.reused)
				}
				if !c.special {
					requireSame(t, theirs, theirBody, r)
				}
			}
			if len(c.raw) > 10_000 {
				for _, size := range []int{1, 511, directRead, 64 << 10} {
					check(size, []byte(c.raw))
				}
				check(64<<10, singles(c.raw)...)
				return
			}
			for _, size := range []int{1, 3, 512, directRead} {
				splits(c.raw, func(pieces ...[]byte) { check(size, append([][]byte(nil), pieces...)...) })
			}
		})
	}
}

const chunkedHead = ok + "Transfer-Encoding: chunked\r\n\r\n"

// invalid are answers that are refused, and why.
var invalid = []struct {
	raw   string
	fault Fault
}{
	{"SSH-2.0-OpenSSH_9.6\r\n", BadStatusLine},
	{"H\x00", BadStatusLine},
	{"HTTP/2.0 200 OK\r\n\r\n", BadStatusLine},
	{"HTTP/1.2 200 OK\r\n\r\n", BadStatusLine},
	{"HTTP/1.12 200 OK\r\n\r\n", BadStatusLine},
	{"HTTP/1.1  200 OK\r\n\r\n", BadStatusLine},
	{"HTTP/1.1 20 OK\r\n\r\n", BadStatusLine},
	{"HTTP/1.1 2000 OK\r\n\r\n", BadStatusLine},
	{"HTTP/1.1 +20 OK\r\n\r\n", BadStatusLine},
	{"HTTP/1.1 099 OK\r\n\r\n", BadStatusLine},
	{"HTTP/1.1 2x0 OK\r\n\r\n", BadStatusLine},
	{"HTTP/1.1\r\n\r\n", BadStatusLine},
	{"HTTP/1.1 200 O\x00K\r\n\r\n", BadStatusLine},
	{"HTTP/1.1 200 O\rK\r\n\r\n", BadStatusLine},
	{"\r\nHTTP/1.1 200 OK\r\n\r\n", BadStatusLine},
	{"HTTP/1.1 200 OK\n\r\n", BareLF},
	{ok + "A: b\n\r\n", BareLF},
	{ok + "A: b\r\n\n", BareLF},
	{ok + "A: b\rc\r\n\r\n", BareCR},
	{ok + "A: b\r\r\n\r\n", BareCR},
	{ok + "A: b\x00\r\n\r\n", BadField},
	{ok + "A: b\x1b[2J\r\n\r\n", BadField},
	{ok + ": b\r\n\r\n", BadField},
	{ok + "A b\r\n\r\n", BadField},
	{ok + "A : b\r\n\r\n", BadField},
	{ok + "A\x80: b\r\n\r\n", BadField},
	{ok + "\r\r\n\r\n", BadField},
	{ok + "A: b\r\n c\r\n\r\n", FoldedField},
	{ok + "\tA: b\r\n\r\n", FoldedField},
	{ok + repeat("A: b\r\n", maxFields+1) + "\r\n", TooManyFields},
	{ok + "A: " + repeat("b", DefaultMaxHeaderBytes) + "\r\n\r\n", HeaderTooLarge},
	{repeat("HTTP/1.1 100 Continue\r\n\r\n", maxInterim+1) + ok + "Content-Length: 0\r\n\r\n", TooManyInterim},
	{"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\n", Upgraded},

	{ok + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", LengthAndEncoding},
	{ok + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello", DifferingLengths},
	{ok + "Content-Length: 5\r\nContent-Length: 05\r\n\r\nhello", DifferingLengths},
	{ok + "Content-Length: 5, 5\r\n\r\nhello", BadLength},
	{ok + "Content-Length: -5\r\n\r\nhello", BadLength},
	{ok + "Content-Length: +5\r\n\r\nhello", BadLength},
	{ok + "Content-Length: 5_0\r\n\r\nhello", BadLength},
	{ok + "Content-Length: 0x5\r\n\r\nhello", BadLength},
	{ok + "Content-Length: 9223372036854775808\r\n\r\nhello", BadLength},
	{ok + "Content-Length:\r\n\r\nhello", BadLength},
	{ok + "Transfer-Encoding: gzip\r\n\r\n", BadTransferEncoding},
	{ok + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", BadTransferEncoding},
	{ok + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", BadTransferEncoding},
	{ok + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", BadTransferEncoding},
	{ok + "Transfer-Encoding:\r\n\r\n0\r\n\r\n", BadTransferEncoding},
	{ok + "Transfer-Encoding: identity\r\n\r\n", BadTransferEncoding},
	{"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", BadTransferEncoding},

	{chunkedHead + "zz\r\n", BadChunkSize},
	{chunkedHead + "\r\n", BadChunkSize},
	{chunkedHead + ";x\r\n", BadChunkSize},
	{chunkedHead + "-1\r\n", BadChunkSize},
	{chunkedHead + "+1\r\n", BadChunkSize},
	{chunkedHead + " 1\r\na\r\n", BadChunkSize},
	{chunkedHead + "0x1\r\n", BadChunkSize},
	{chunkedHead + "1 2\r\n", BadChunkSize},
	{chunkedHead + "1 ;x\r\n", BadChunkSize},
	{chunkedHead + "10000000000000000\r\n", ChunkTooLarge},
	{chunkedHead + "00000000000000001\r\n", ChunkTooLarge},
	{chunkedHead + "ffffffffffffffff\r\n", ChunkTooLarge},
	{chunkedHead + "4000000000000000\r\n", ChunkTooLarge},
	{chunkedHead + "1\na\r\n", BareLF},
	{chunkedHead + "1;x\na\r\n", BareLF},
	{chunkedHead + "1\rxa\r\n", BareCR},
	{chunkedHead + "1;" + repeat("x", maxSizeLine) + "\r\na\r\n", BadChunkExtension},
	{chunkedHead + "1;a\x00\r\na\r\n", BadChunkExtension},
	{chunkedHead + repeat("1;"+repeat("x", 900)+"\r\na\r\n", 20), TooMuchFraming},
	{chunkedHead + "1\r\nab\r\n", BadChunkEnd},
	{chunkedHead + "1\r\na\n", BadChunkEnd},
	{chunkedHead + "1\r\na\r\r\n", BadChunkEnd},
	{chunkedHead + "0\r\nA : b\r\n\r\n", BadTrailer},
	{chunkedHead + "0\r\n b\r\n\r\n", BadTrailer},
	{chunkedHead + "0\r\nA\r\n\r\n", BadTrailer},
	{chunkedHead + "0\r\nA: \x01\r\n\r\n", BadTrailer},
	{chunkedHead + "0\r\nA: b\n\r\n", BareLF},
	{chunkedHead + "0\r\nA: b\rc\r\n\r\n", BareCR},
	{chunkedHead + "0\r\n\rx", BareCR},
	{chunkedHead + "0\r\n" + repeat("A: b\r\n", maxTrailer/6+1) + "\r\n", TrailerTooLarge},
}

func TestInvalidAnswers(t *testing.T) {
	for _, c := range invalid {
		name := fmt.Sprintf("%s %q", c.fault, c.raw[:min(len(c.raw), 60)])
		t.Run(name, func(t *testing.T) {
			check := func(size int, pieces ...[]byte) {
				r := deliver(t, "GET", size, pieces...)
				var bad *ProtocolError
				require.ErrorAs(t, r.err, &bad)
				require.Equal(t, c.fault, bad.Fault, "%v", bad)
				require.False(t, r.reused)
				require.Less(t, len(bad.Error()), 400)
				require.NotContains(t, bad.Error(), "\x1b")
			}
			check(directRead, []byte(c.raw))
			if len(c.raw) < 10_000 {
				check(1, []byte(c.raw))
				check(directRead, singles(c.raw)...)
			}
			if len(c.raw) < 300 {
				for _, size := range []int{3, directRead} {
					splits(c.raw, func(pieces ...[]byte) { check(size, append([][]byte(nil), pieces...)...) })
				}
			}
		})
	}
}

// What came before the fault is handed out.
func TestDataBeforeFault(t *testing.T) {
	for _, size := range []int{1, 7, directRead} {
		r := deliver(t, "GET", size, []byte(chunkedHead+"5\r\nhello\r\nzz\r\n"))
		require.Error(t, r.err)
		require.Equal(t, "hello", string(r.body))
	}
}

// Every proper prefix of an answer with an end is a named failure.
func TestTruncatedAnswers(t *testing.T) {
	for _, raw := range []string{
		ok + "Content-Length: 5\r\n\r\nhello",
		chunkedHead + "5;x\r\nhello\r\n1\r\n!\r\n0\r\nA: b\r\n\r\n",
		"HTTP/1.1 100 Continue\r\n\r\n" + ok + "Content-Length: 1\r\n\r\n!",
	} {
		head := strings.LastIndex(raw, "OK")
		head += strings.Index(raw[head:], "\r\n\r\n") + 4
		for n := range len(raw) {
			for _, pieces := range [][][]byte{{[]byte(raw[:n])}, singles(raw[:n])} {
				r := deliver(t, "GET", directRead, pieces...)
				require.False(t, r.reused)
				if n == 0 {
					var closed *ClosedError
					require.ErrorAs(t, r.err, &closed)
					require.False(t, closed.Reused)
					require.ErrorIs(t, r.err, io.EOF)
					continue
				}
				var cut *TruncatedError
				require.ErrorAs(t, r.err, &cut, "%d bytes", n)
				require.ErrorIs(t, r.err, io.ErrUnexpectedEOF)
				want := "header"
				if n >= head {
					want = "body"
				}
				require.Equal(t, want, cut.Part, "%d bytes", n)
			}
		}
	}
}

func TestBrokenConnections(t *testing.T) {
	broken := errors.New("wire: broken")
	for raw, check := range map[string]func(t *testing.T, err error){
		"": func(t *testing.T, err error) {
			var closed *ClosedError
			require.ErrorAs(t, err, &closed)
			require.NotErrorIs(t, err, io.ErrUnexpectedEOF)
		},
		"HTTP/1.1 2":                           cutIn("header"),
		ok + "Content-Length: 5\r\n\r\nhell":   cutIn("body"),
		ok + "\r\nuntil close, but it was cut": cutIn("body"),
	} {
		w := &wire{pieces: [][]byte{[]byte(raw)}, end: broken}
		req := newRequest(t, "GET", "http://wire.invalid/", "")
		resp, err := onWire(w).RoundTrip(req)
		if err == nil {
			_, err = io.ReadAll(resp.Body)
		}
		require.ErrorIs(t, err, broken)
		check(t, err)
		require.True(t, w.closed)
	}
}

func cutIn(part string) func(t *testing.T, err error) {
	return func(t *testing.T, err error) {
		var cut *TruncatedError
		require.ErrorAs(t, err, &cut)
		require.Equal(t, part, cut.Part)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	}
}

func TestHeaderLimit(t *testing.T) {
	head := ok + "Content-Length: 0\r\n\r\n"
	for limit, good := range map[int]bool{len(head): true, len(head) - 1: false} {
		tr := onWire(&wire{pieces: [][]byte{[]byte(head)}, end: io.EOF})
		tr.MaxHeaderBytes = limit
		_, err := tr.RoundTrip(newRequest(t, "GET", "http://wire.invalid/", ""))
		require.Equal(t, good, err == nil, "%v", err)
	}
}
