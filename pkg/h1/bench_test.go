package h1

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// rawServer answers every request, which must be one write with an empty line at
// its end, with the same bytes: it costs as little as a server can.
func rawServer(l net.Listener, answer []byte) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			buf := make([]byte, 4<<10)
			n := 0
			for {
				m, err := c.Read(buf[n:])
				if err != nil {
					return
				}
				if n += m; bytes.HasSuffix(buf[:n], []byte("\r\n\r\n")) {
					n = 0
					if _, err := c.Write(answer); err != nil {
						return
					}
				}
			}
		}()
	}
}

// What one exchange costs the client, beside net/http's transport.
func BenchmarkExchange(b *testing.B) {
	event := "data: " + strings.Repeat("x", 250) + "\n\n"
	chunk := fmt.Sprintf("%x\r\n%s\r\n", len(event), event)
	header := "HTTP/1.1 200 OK\r\ndate: Mon, 30 Nov 2026 18:00:00 GMT\r\nserver: uvicorn\r\n"
	for _, c := range []struct{ name, answer string }{
		{"empty", header + "content-length: 0\r\n\r\n"},
		{"9KB", header + "content-length: 9000\r\ncontent-type: application/json\r\n\r\n" + strings.Repeat("x", 9000)},
		{"64events", header + "content-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n" + strings.Repeat(chunk, 64) + "0\r\n\r\n"},
	} {
		for _, transport := range []string{"h1", "nethttp"} {
			b.Run("answer="+c.name+"/transport="+transport, func(b *testing.B) {
				l, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					b.Fatal(err)
				}
				defer l.Close()
				go rawServer(l, []byte(c.answer))
				var rt interface {
					http.RoundTripper
					CloseIdleConnections()
				} = &Transport{}
				if transport != "h1" {
					rt = &http.Transport{DisableCompression: true}
				}
				defer rt.CloseIdleConnections()
				req, err := http.NewRequestWithContext(b.Context(), "GET", "http://"+l.Addr().String()+"/v1/models", nil)
				if err != nil {
					b.Fatal(err)
				}
				buf := make([]byte, 16<<10)
				b.ReportAllocs()
				for b.Loop() {
					resp, err := rt.RoundTrip(req)
					if err != nil {
						b.Fatal(err)
					}
					for err == nil {
						_, err = resp.Body.Read(buf)
					}
					if err != io.EOF {
						b.Fatal(err)
					}
					resp.Body.Close()
				}
			})
		}
	}
}

// The chunk decoder alone: 64 events a read, decoded in place as bodies are.
func BenchmarkChunks(b *testing.B) {
	event := "data: " + strings.Repeat("x", 250) + "\n\n"
	raw := []byte(strings.Repeat(fmt.Sprintf("%x\r\n%s\r\n", len(event), event), 64))
	buf := make([]byte, len(raw))
	for b.Loop() {
		copy(buf, raw)
		var d chunks
		if n, _, err := d.decode(buf, buf); err != nil || n != 64*len(event) {
			b.Fatal(n, err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/64, "ns/event")
}
