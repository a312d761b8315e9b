package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"example.com/tokpace/pkg/pacer"
)

// blastServer answers as fast as it can, with bytes made beforehand: streams of Tokens events, 64 a write; embeddings;
// 64 KB of binary vectors.
type blastServer struct {
	Tokens int
	Delay  time.Duration // before each answer that is no stream
	TLS    bool
	HTTP2  bool // by net/http, over TLS
}

func (s *blastServer) role() string { return "serve-blast" }

const eventsPerWrite = 64

// An answer is what is written, write by write.
type answer [][]byte

func (s *blastServer) run() error {
	stream := streamAnswer(s.Tokens)
	vectors := embeddingsJSON()
	vectorsAnswer := answer{fmt.Appendf(nil, "HTTP/1.1 200 OK\r\ndate: Mon, 30 Nov 2026 18:00:00 GMT\r\nserver: uvicorn\r\ncontent-length: %d\r\ncontent-type: application/json\r\n\r\n%s", len(vectors), vectors)}
	binary := []byte("HTTP/1.1 200 OK\r\ndate: Mon, 30 Nov 2026 18:00:00 GMT\r\nserver: uvicorn\r\ncontent-type: application/octet-stream\r\ntransfer-encoding: chunked\r\n\r\n")
	binary = append(chunk(binary, bytes.Repeat([]byte{0, 0, 128, 63}, 16<<10)), lastChunk...)
	if s.HTTP2 {
		return s.serveHTTP2()
	}
	url, err := serveWires(s.TLS, func(c *wire) error {
		var p pacer.Pacer
		for {
			r, err := c.request()
			if err != nil {
				return err
			}
			if r.isGet() {
				if _, err := c.Write([]byte(modelsAnswer)); err != nil {
					return err
				}
				continue
			}
			a := vectorsAnswer
			switch {
			case bytes.Contains(r.head, []byte("/chat/")):
				a = stream
			case bytes.Contains(r.body, []byte("bytes_only")):
				a = answer{binary}
			}
			if s.Delay > 0 {
				if err := p.Until(context.Background(), time.Now().Add(s.Delay)); err != nil {
					return err
				}
			}
			for _, data := range a {
				if _, err := c.Write(data); err != nil {
					return err
				}
			}
		}
	})
	if err != nil {
		return err
	}
	return serving(url, nil)
}

// streamAnswer puts 64 events into a write, the header before the first and the end behind the last.
func streamAnswer(tokens int) answer {
	var a answer
	buf := []byte(streamHead)
	events := tokenEvents(tokens)
	for i, e := range events {
		if i > 0 && i%eventsPerWrite == 0 && len(events)-i > eventsPerWrite/2 {
			a, buf = append(a, buf), nil
		}
		buf = chunk(buf, e)
	}
	return append(a, append(buf, lastChunk...))
}

// serveHTTP2 writes the same events in the same pieces.
func (s *blastServer) serveHTTP2() error {
	var pieces [][]byte
	events := tokenEvents(s.Tokens)
	for len(events) > 0 {
		n := min(eventsPerWrite, len(events))
		pieces, events = append(pieces, bytes.Join(events[:n], nil)), events[n:]
	}
	config, err := selfSigned()
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	srv := &http.Server{TLSConfig: config, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			fmt.Fprint(w, `{"data":[{"id":"perf"}]}`)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for _, data := range pieces {
			if _, err := w.Write(data); err != nil {
				return
			}
			w.(http.Flusher).Flush()
		}
	})}
	go func() { _ = srv.ServeTLS(l, "", "") }()
	return serving("https://"+l.Addr().String(), nil)
}
