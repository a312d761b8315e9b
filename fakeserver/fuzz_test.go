package fakeserver

import (
	"encoding/json"
	"io"
	"strings"
	"testing"
)

// Any bytes on any endpoint give a plan whose times never fall, whose body has the length it states, and whose JSON is
// JSON; planned twice it is the same.
func FuzzRequest(f *testing.F) {
	paths := []string{chat, "/v1/completions", "/v1/embeddings", "/pooling", "/v1/rerank", "/tokenize", "/detokenize", "/v1/models", "/x"}
	for _, g := range goldens {
		for i, path := range paths {
			if path == g.path {
				f.Add(uint8(i), g.fake, []byte(g.body))
			}
		}
	}
	f.Add(uint8(0), "", []byte(`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}}]}]}`))
	f.Add(uint8(1), "", []byte(`{"prompt":[[1],"\ud800",null]}`))
	f.Add(uint8(1), "", []byte(`{"PROMPT":[" a\n"],"prompt":"x", "a":{},"b":[ ],"c":1e3}`))
	f.Add(uint8(2), "dim=3", []byte(`{"input":[[] ],"messages":null}`))
	f.Add(uint8(4), "", []byte(`{"query":"","documents":[null]}`))
	s, err := New(Config{MaxModelLen: 256, TTFT: 5 * ms, ITL: ms})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, which uint8, fake string, body []byte) {
		if strings.Contains(fake, "dim") {
			fake = "dim=3" // large ones are slow, and tested elsewhere
		}
		r := Request{Method: "POST", Path: paths[int(which)%len(paths)], Fake: fake, Body: body}
		p, again := s.Plan(r), s.Plan(r)
		text := bodyOf(t, p)
		if text != bodyOf(t, again) {
			t.Fatal("two plans of one request differ")
		}
		if p.ContentLength >= 0 && p.ContentLength != int64(len(text)) {
			t.Fatalf("content length %d, body %d", p.ContentLength, len(text))
		}
		last := p.HeadersAt
		for _, e := range p.Events {
			if e.At < last {
				t.Fatalf("event at %v after %v", e.At, last)
			}
			last = e.At
		}
		switch p.Header.Get("Content-Type") {
		case "application/json":
			if !json.Valid([]byte(text)) {
				t.Fatalf("not JSON: %s", text)
			}
		case "text/event-stream; charset=utf-8":
			chunks(t, text)
		case "application/octet-stream":
			if _, err := io.Copy(io.Discard, strings.NewReader(text)); err != nil || len(text) == 0 {
				t.Fatal("no bytes")
			}
		}
	})
}
