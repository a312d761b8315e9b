package fakeserver

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// dechunk takes the framing off what was read at one time; each read holds whole chunks here.
func dechunk(t *testing.T, data string) string {
	t.Helper()
	var b strings.Builder
	for data != "" {
		size, rest, ok := strings.Cut(data, "\r\n")
		require.True(t, ok, "%q", data)
		var n int
		_, err := fmt.Sscanf(size, "%x", &n)
		require.NoError(t, err)
		if n == 0 {
			break
		}
		b.WriteString(rest[:n])
		data = strings.TrimPrefix(rest[n:], "\r\n")
	}
	return b.String()
}

// What is compressed can be decoded as far as it is there at every time, and only as far; the bytes are compress/gzip's
// and no golden.
func TestFaultGzip(t *testing.T) {
	noLeaks(t)
	rawVirtual(t, Config{}, func(t *testing.T, s *Server, dial func() net.Conn) {
		get := func(request, fault string) ([]read, string) {
			r := faultRequests[request]
			c := dial()
			defer c.Close()
			_, err := io.WriteString(c, rawRequest("POST", r.path, r.body, FaultHeader, fault))
			require.NoError(t, err)
			reads, end, _ := rawRead(t, c, time.Minute)
			return reads, end
		}
		reads, _ := get("script", script+"gzip=on; line-end=crlf")
		require.Len(t, reads, 4)
		require.Contains(t, reads[0].data, "Content-Encoding: gzip\r\n")
		var sofar bytes.Buffer
		want := ""
		for i, event := range []string{"data: {\"a\":1}\r\n\r\n", "data: {\"b\":\"x,y\",\"c\":2}\r\n\r\n", "data: [DONE]\r\n\r\n"} {
			require.Equal(t, time.Duration(i+1)*10*ms, reads[i+1].at)
			sofar.WriteString(dechunk(t, reads[i+1].data))
			want += event
			z, err := gzip.NewReader(bytes.NewReader(sofar.Bytes()))
			require.NoError(t, err)
			got, err := io.ReadAll(z)
			require.Equal(t, want, string(got))
			if i < 2 {
				require.ErrorIs(t, err, io.ErrUnexpectedEOF)
			} else {
				require.NoError(t, err)
			}
		}

		plain, _ := get("rerank", "interim=103; gzip=hidden")
		head, body, _ := strings.Cut(strings.TrimPrefix(plain[0].data, "HTTP/1.1 103 Early Hints\r\n\r\n"), "\r\n\r\n")
		require.NotContains(t, head, "Content-Encoding")
		require.Contains(t, head, fmt.Sprintf("Content-Length: %d\r\n", len(body)))
		z, err := gzip.NewReader(strings.NewReader(body))
		require.NoError(t, err)
		got, err := io.ReadAll(z)
		require.NoError(t, err)
		require.True(t, json.Valid(got))

		_, end := get("rerank", "gzip=on; cut=1")
		require.Equal(t, "closed", end)

		reads, _ = get("script", "gzip=bomb; flood-size=5000000")
		_, body, _ = strings.Cut(reads[0].data, "\r\n\r\n")
		require.Less(t, len(body), 20000)
		z, err = gzip.NewReader(strings.NewReader(dechunk(t, body)))
		require.NoError(t, err)
		n, err := io.Copy(io.Discard, z)
		require.NoError(t, err)
		require.EqualValues(t, 5<<20, n)
	})
}

// Floods do not end by themselves and cost no memory; the server is free as soon as the client has left.
func TestFloodsEndWithTheClient(t *testing.T) {
	noLeaks(t)
	for _, fault := range []string{"flood=comments", "flood=line", "flood=events", "flood=headers", "gzip=bomb; flood-size=1099511627776", "body=x; body-size=1099511627776"} {
		t.Run(fault, func(t *testing.T) {
			rawVirtual(t, Config{}, func(t *testing.T, s *Server, dial func() net.Conn) {
				c := dial()
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				_, err := io.WriteString(c, rawRequest("POST", "/v1/completions", `{"prompt":"a","stream":true}`, FaultHeader, fault))
				require.NoError(t, err)
				n, err := io.CopyN(io.Discard, c, 16<<20)
				require.NoError(t, err)
				require.EqualValues(t, 16<<20, n)
				runtime.ReadMemStats(&after)
				require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(8<<20))
				require.Equal(t, Running, s.Journal()[0].End)
				start := time.Now()
				c.Close()
				synctest.Wait()
				require.Zero(t, time.Since(start))
				require.Equal(t, Disconnected, s.Journal()[0].End)
			})
		})
	}
}

// The ends of connections over TCP: by class only.
func TestFaultsOverTCP(t *testing.T) {
	noLeaks(t)
	if runtime.GOOS == "windows" {
		t.Skip("resets have another name there")
	}
	s := Start(t, Config{})
	defer s.Close()
	for _, tc := range []struct{ fault, end, tail string }{
		{script, "open", "0\r\n\r\n"},
		{script + "cut=1", "closed", "\"a\":1}\n\n\r\n"},
		{script + "cut=1; cut-with=rst; end-delay=50ms", "reset", ""},
		{script + "cut-byte=20", "closed", "19\r\ndata:"},
		{script + "cut-byte=20; cut-with=rst; end-delay=50ms", "reset", ""},
		{"no-answer=close", "closed", ""},
		{"no-answer=reset", "reset", ""},
		{"no-answer=hang", "open", ""},
		{script + "idle-close=20ms", "closed", "0\r\n\r\n"},
		{script + "framing=close", "closed", "data: [DONE]\n\n"},
		{script + "framing=length; length-off=3", "closed", "data: [DONE]\n\n"},
	} {
		t.Run(tc.fault, func(t *testing.T) {
			c, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
			require.NoError(t, err)
			defer c.Close()
			_, err = io.WriteString(c, rawRequest("POST", "/v1/completions", `{"prompt":"a","stream":true,"max_tokens":1}`, FaultHeader, tc.fault))
			require.NoError(t, err)
			patience := 10 * time.Second
			if tc.end == "open" {
				patience = time.Second // nothing tells it but silence
			}
			reads, end, _ := rawRead(t, c, patience)
			require.Equal(t, tc.end, end)
			var all string
			for _, r := range reads {
				all += r.data
			}
			require.True(t, strings.HasSuffix(all, tc.tail), "%q", all)
		})
	}
}

// A connection that is to be closed when idle is not, if another request comes first; a later one is answered on a new
// connection, and the server has seen each request once.
func TestIdleClose(t *testing.T) {
	noLeaks(t)
	cfg := Config{Rules: []Rule{{Match: Match{First: 1}, Fault: Fault{IdleClose: new(30 * ms)}}, {Match: Match{Nth: 3}, Fault: Fault{IdleClose: new(time.Duration(0))}}}}
	rawVirtual(t, cfg, func(t *testing.T, s *Server, dial func() net.Conn) {
		request := rawRequest("POST", "/tokenize", `{"prompt":"a"}`)
		c := dial()
		for _, pause := range []time.Duration{29 * ms, time.Hour} {
			_, err := io.WriteString(c, request)
			require.NoError(t, err)
			_, end, _ := rawRead(t, c, pause)
			require.Equal(t, "open", end)
		}
		start := time.Now()
		_, err := io.WriteString(c, request)
		require.NoError(t, err)
		_, end, _ := rawRead(t, c, time.Hour)
		require.Equal(t, "closed", end)
		require.Zero(t, time.Since(start))
		records := s.Journal()
		require.Len(t, records, 3)
		require.Empty(t, records[0].Actions)
		require.Equal(t, []Action{{What: ActionIdleClose, Events: 1}}, records[2].Actions)
	})
}

// H28 at the fake's side: an idle connection that closes at random moments of the client's next request never makes the
// server count a request that it did not answer.
func TestIdleCloseRacesWithTheNextRequest(t *testing.T) {
	noLeaks(t)
	s := Start(t, Config{Rules: []Rule{{Fault: Fault{IdleClose: new(200 * time.Microsecond)}}}})
	defer s.Close()
	for i := range 200 {
		req, err := http.NewRequest("POST", s.URL+"/tokenize", strings.NewReader(`{"prompt":"a"}`))
		require.NoError(t, err)
		req.Header.Set("Idempotency-Key", "1") // lets net/http send it again on a fresh connection
		res, err := s.Client().Do(req)
		require.NoError(t, err, "request %d", i)
		_, err = io.Copy(io.Discard, res.Body)
		require.NoError(t, err)
		res.Body.Close()
	}
	require.NoError(t, s.Close())
	complete := 0
	for _, r := range s.Journal() {
		if r.End == Complete {
			complete++
		}
	}
	require.Equal(t, 200, complete)
}

// In a server of the caller's own, what needs the connection is refused, unless that server makes it known.
func TestFaultsInAnotherServer(t *testing.T) {
	noLeaks(t)
	s := newServer(t, Config{})
	ask := func(other *httptest.Server, fault string) (*http.Response, string, error) {
		req, err := http.NewRequest("POST", other.URL+"/tokenize", strings.NewReader(`{"prompt":"a"}`))
		require.NoError(t, err)
		req.Header.Set(FaultHeader, fault)
		res, err := other.Client().Do(req)
		if err != nil {
			return nil, "", err
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		return res, string(b), err
	}
	bare := httptest.NewServer(s.Handler())
	defer bare.Close()
	for _, fault := range []string{"no-answer=reset", "framing=close", "idle-close=1s", "length-off=1"} {
		res, body, err := ask(bare, fault)
		require.NoError(t, err)
		require.Equal(t, 500, res.StatusCode)
		require.Contains(t, body, "this fault needs the connection: set ConnContext")
	}
	_, _, err := ask(bare, "cut-byte=3")
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)

	helped := httptest.NewUnstartedServer(s.Handler())
	helped.Config.ConnContext = s.ConnContext
	helped.Start()
	defer helped.Close()
	res, body, err := ask(helped, "framing=close")
	require.NoError(t, err)
	require.True(t, res.Close)
	require.Contains(t, body, `"count"`)
}

// A stall and a hang end when the server does.
func TestCloseEndsFaults(t *testing.T) {
	noLeaks(t)
	for _, fault := range []string{"no-answer=hang", "stall=1", "stall=1; stall-for=1h", "stall=1; framing=close", "idle-close=1h"} {
		rawVirtual(t, Config{}, func(t *testing.T, s *Server, dial func() net.Conn) {
			c := dial()
			_, err := io.WriteString(c, rawRequest("POST", "/v1/completions", `{"prompt":"a","stream":true,"max_tokens":4}`, FaultHeader, fault))
			require.NoError(t, err)
			rawRead(t, c, time.Second)
			start := time.Now()
			require.NoError(t, s.Close())
			require.Zero(t, time.Since(start), fault)
			want := Canceled
			if fault == "idle-close=1h" {
				want = Complete
			}
			require.Equal(t, want, s.Journal()[0].End, fault)
		})
	}
}
