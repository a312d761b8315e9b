package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"example.com/tokpace/fakeserver"
)

// fakeServer is this module's fake server, as `tokpace fake` runs it.
type fakeServer struct {
	TTFT, ITL time.Duration
}

func (s *fakeServer) role() string { return "serve-fake" }

func (s *fakeServer) run() error {
	srv, err := fakeserver.New(fakeserver.Config{TTFT: s.TTFT, ITL: s.ITL})
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go func() { _ = srv.Serve(l) }()
	defer srv.Close()
	return serving("http://"+l.Addr().String(), func(u *usage) {
		for _, r := range srv.Journal() {
			late := make([]int64, 0, len(r.Events))
			for _, e := range r.Events {
				if e.Kind == fakeserver.KindToken {
					late = append(late, int64(e.Actual-e.Planned))
				}
			}
			if n := len(late); n > 0 {
				u.Late = append(u.Late, late...)
				u.Last = append(u.Last, max(late[n-1]-late[0], late[0]-late[n-1]))
			}
		}
		srv.Reset()
	})
}

// plainServer is the least that answers chat requests with net/http and encoding/json: what the fake server's cost is
// compared with. Its answers are of the size of the fake server's.
type plainServer struct{}

func (s *plainServer) role() string { return "serve-plain" }

func (s *plainServer) run() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	srv := &http.Server{Handler: http.HandlerFunc(servePlain)}
	go func() { _ = srv.Serve(l) }()
	defer srv.Close()
	return serving("http://"+l.Addr().String(), nil)
}

type plainRequest struct {
	Model    string `json:"model"`
	Messages []struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	} `json:"messages"`
	MaxTokens     int  `json:"max_tokens"`
	IgnoreEOS     bool `json:"ignore_eos"`
	Stream        bool `json:"stream"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
}

const (
	plainHead = `{"id":"chatcmpl-0123456789abcdef0123456789abcdef","object":"chat.completion","created":1764525600,"model":"tokpace-fake","choices":[{"index":0,"message":{"role":"assistant","content":"`
	plainTail = `","refusal":null,"annotations":null,"audio":null,"function_call":null,"tool_calls":[],"reasoning":null},"logprobs":null,"finish_reason":"length","stop_reason":null,"token_ids":null}],"service_tier":null,"system_fingerprint":null,"usage":{"prompt_tokens":%d,"total_tokens":%d,"completion_tokens":%d,"prompt_tokens_details":null},"prompt_logprobs":null,"prompt_token_ids":null,"kv_transfer_params":null}`

	plainEventHead = `data: {"id":"chatcmpl-0123456789abcdef0123456789abcdef","object":"chat.completion.chunk","created":1764525600,"model":"tokpace-fake","choices":[{"index":0,"delta":{"content":"`
	plainEventTail = `"},"logprobs":null,"finish_reason":null,"token_ids":null}]}` + "\n\n"
)

func servePlain(w http.ResponseWriter, r *http.Request) {
	var req plainRequest
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil || len(req.Messages) == 0 {
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}
	if !req.Stream {
		b := make([]byte, 0, 1024)
		b = append(b, plainHead...)
		for range req.MaxTokens {
			b = append(b, " word"...)
		}
		b = fmt.Appendf(b, plainTail, 32, 32+req.MaxTokens, req.MaxTokens)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(b)))
		_, _ = w.Write(b)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	flusher := w.(http.Flusher)
	flusher.Flush()
	var b []byte
	for range req.MaxTokens {
		b = append(b[:0], plainEventHead...)
		b = append(b, " word"...)
		b = append(b, plainEventTail...)
		if _, err := w.Write(b); err != nil {
			return
		}
		flusher.Flush()
	}
	_, _ = w.Write([]byte(doneEvent))
}
