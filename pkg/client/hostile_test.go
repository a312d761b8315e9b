package client_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/tokpace/pkg/api"
	"example.com/tokpace/pkg/client"
	"example.com/tokpace/pkg/virtual"
)

// A flood is a server that answers each request with a start and then the same
// piece again and again: so many times, or until the client goes away.
type flood struct {
	start, piece string
	times        int // 0: for ever
	end          string

	written int64
	peak    uint64 // of the live heap, looked at on the way
}

func (f *flood) serve(l net.Listener) error {
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		f.answer(conn)
		conn.Close()
	}
}

// look is how many bytes are written between two looks at the heap.
const look = 8 << 20

func (f *flood) answer(conn net.Conn) {
	r := make([]byte, 64<<10)
	if _, err := conn.Read(r); err != nil { // the requests of these tests fit
		return
	}
	if _, err := io.WriteString(conn, f.start); err != nil {
		return
	}
	if f.piece == "" {
		return
	}
	block := strings.Repeat(f.piece, max(1, (64<<10)/len(f.piece)))
	pieces := len(block) / len(f.piece)
	next := int64(look)
	for sent := 0; f.times == 0 || sent < f.times; sent += pieces {
		n, err := io.WriteString(conn, block)
		f.written += int64(n)
		if err != nil {
			return
		}
		if f.written >= next {
			next += look
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			f.peak = max(f.peak, m.HeapAlloc)
		}
	}
	_, _ = io.WriteString(conn, f.end)
}

// Hostile servers end in a failure that is named, in memory that is bounded by
// the documented limits, through both transports.
func TestHostileServers(t *testing.T) {
	noLeaks(t)
	const (
		json    = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"
		events  = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
		octets  = "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n"
		mega    = 1 << 20
		comment = ": OPENROUTER PROCESSING\n\n"
	)
	plainRequest, err := api.NewChat("m", nil, api.Generation{})
	require.NoError(t, err)
	embeddings, err := api.NewEmbeddings("m", []string{"a"}, api.Bytes, "")
	require.NoError(t, err)
	for name, c := range map[string]struct {
		flood    flood
		req      *api.Request
		limit    func(*client.Client)
		class    api.Class
		words    string
		maxBytes int64  // that may have been written
		maxHeap  uint64 // live heap above that before
	}{
		"endless header lines": {
			flood: flood{start: "HTTP/1.1 200 OK\r\n", piece: "X-Line: " + strings.Repeat("x", 1000) + "\r\n"},
			class: api.Malformed, words: "header", maxBytes: 12 * mega, maxHeap: 64 * mega,
		},
		"endless header line": {
			flood: flood{start: "HTTP/1.1 200 OK\r\nX: ", piece: "x"},
			class: api.Malformed, words: "header", maxBytes: 12 * mega, maxHeap: 64 * mega,
		},
		"12 MiB of metadata": {
			flood: flood{start: octets + "metadata: ", piece: "x", times: 12 * mega, end: "\r\n\r\n"},
			req:   embeddings, class: api.Malformed, words: "header", maxBytes: 13 * mega, maxHeap: 64 * mega,
		},
		"endless event without newline": {
			flood: flood{start: events + "data: ", piece: "x"},
			class: api.Malformed, words: "event longer than the limit of 33554432 bytes", maxBytes: 34 * mega, maxHeap: 160 * mega,
		},
		"endless event of many lines": {
			flood: flood{start: events, piece: "data: x\n"},
			class: api.Malformed, words: "event longer than the limit of 33554432 bytes", maxBytes: 50 * mega, maxHeap: 160 * mega,
		},
		"1 GiB of comments": {
			flood: flood{start: events, piece: comment, times: 1 << 30 / len(comment)},
			class: api.Malformed, words: "body longer than the limit of 268435456 bytes", maxBytes: 258 * mega, maxHeap: 8 * mega,
		},
		"endless JSON": {
			flood: flood{start: json + `{"choices":["`, piece: "x"}, req: plainRequest,
			limit: func(c *client.Client) { c.MaxBody = 4 * mega },
			class: api.Malformed, words: "body longer than the limit of 4194304 bytes", maxBytes: 6 * mega, maxHeap: 32 * mega,
		},
		"tiny events": {
			// Of the 10 million that the default limit cuts short, as many as
			// a smaller one does: each costs a gap and a character.
			flood: flood{start: events, piece: "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n", times: 10_000_000},
			limit: func(c *client.Client) { c.MaxBody = 16 * mega },
			class: api.Malformed, words: "body longer than the limit of 16777216 bytes", maxBytes: 18 * mega, maxHeap: 32 * mega,
		},
		"gzip bomb": {
			flood: flood{start: strings.TrimSuffix(json, "\r\n") + "Content-Encoding: gzip\r\n\r\n\x1f\x8b\x08", piece: "\x00"}, req: plainRequest,
			class: api.Malformed, words: "encoded as gzip, which was not asked for", maxBytes: 2 * mega, maxHeap: 8 * mega,
		},
		"endless error body": {
			flood: flood{start: "HTTP/1.1 500 Sorry\r\n\r\n", piece: "sorry "},
			class: api.HTTPStatus, words: "sorry sorry", maxBytes: 6 * mega, maxHeap: 8 * mega,
		},
		"redirect loop": {
			flood: flood{start: "HTTP/1.1 308 Again\r\nLocation: /v1/chat/completions\r\nContent-Length: 0\r\n\r\n"},
			class: api.HTTPStatus, words: "redirected to", maxBytes: mega, maxHeap: 8 * mega,
		},
	} {
		for _, transport := range client.TransportNames() {
			t.Run(fmt.Sprintf("%s, %s", name, transport), func(t *testing.T) {
				if raceEnabled && c.maxBytes > 40*mega {
					t.Skip("too many bytes for the race detector")
				}
				f := c.flood
				req := c.req
				if req == nil {
					req = chatRequest(t)
				}
				var before runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&before)
				virtual.Serve(t, f.serve, func(t *testing.T, cl *client.Client) {
					useTransport(t, cl, transport)
					cl.DiscardText = true
					if c.limit != nil {
						c.limit(cl)
					}
					ex := cl.Do(t.Context(), req)
					require.False(t, ex.OK)
					require.Equal(t, c.class, ex.Error.Class, "%v", ex.Error)
					require.Contains(t, ex.Error.Message, c.words)
				})
				require.LessOrEqual(t, f.written, c.maxBytes)
				if f.peak > 0 {
					require.Less(t, int64(f.peak)-int64(before.HeapAlloc), int64(c.maxHeap))
				}
			})
		}
	}
}

// A server that answers gzip without being asked fails with its reason, also
// where the body is small and good.
func TestContentEncoding(t *testing.T) {
	noLeaks(t)
	body := `{"choices":[{"index":0,"message":{"content":"hi"},"finish_reason":"stop"}]}`
	for coding, class := range map[string]api.Class{"gzip": api.Malformed, "br": api.Malformed, "identity": "", "": ""} {
		cl, _ := mocked(t, chatURL, answer(http.StatusOK, "application/json", body, "Content-Encoding", coding))
		ex := cl.Do(t.Context(), &api.Request{API: api.Chat})
		if class == "" {
			require.True(t, ex.OK, "%v", ex.Error)
			continue
		}
		require.Equal(t, class, ex.Error.Class)
		require.Contains(t, ex.Error.Message, coding)
	}
}

// Vectors are looked at only on request.
func TestCheckVectorsOnRequest(t *testing.T) {
	noLeaks(t)
	swapped := `{"data":[{"index":1,"embedding":[1,2]},{"index":0,"embedding":[3,4]}],"usage":{"prompt_tokens":2}}`
	inf := "\x00\x00\x80\x7f"
	for name, c := range map[string]struct {
		encoding  string
		responder func() (string, string)
		words     string
	}{
		"JSON out of order": {"", func() (string, string) { return "application/json", swapped }, "vector 0 has index 1"},
		"infinite bytes":    {api.BytesOnly, func() (string, string) { return "application/octet-stream", inf + inf }, "element 0 is not finite"},
	} {
		t.Run(name, func(t *testing.T) {
			req, err := api.NewEmbeddings("m", []string{"a", "b"}, c.encoding, "")
			require.NoError(t, err)
			contentType, body := c.responder()
			cl, _ := mocked(t, embedURL, answer(http.StatusOK, contentType, body))
			require.True(t, cl.Do(t.Context(), req).OK)

			cl, _ = mocked(t, embedURL, answer(http.StatusOK, contentType, body))
			cl.CheckVectors = true
			ex := cl.Do(t.Context(), req)
			require.False(t, ex.OK)
			require.Equal(t, api.Malformed, ex.Error.Class)
			require.Contains(t, ex.Error.Message, c.words)

			// A limit holds for what is kept.
			cl, _ = mocked(t, embedURL, answer(http.StatusOK, contentType, body))
			cl.CheckVectors, cl.MaxBody = true, 7
			require.Contains(t, cl.Do(t.Context(), req).Error.Message, "limit of 7 bytes")
		})
	}
}
