package main

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"example.com/tokpace/pkg/client"
)

// neutralClient loads a server and costs as little as it can.
type neutralClient struct {
	URL    string
	Path   string
	Body   string
	Conns  int
	For    time.Duration
	Leaves bool // goes away after that time, in the middle of its answers
	// Nap is how long it sleeps before each read, so that the server's writes do not wake it: waking costs as much as
	// writing, and how often it is needed depends on how far behind the client is.
	Nap time.Duration
}

type neutralResult struct {
	Requests int
	Bytes    int // of all answers
}

func (s *neutralClient) role() string { return "client-neutral" }

func (s *neutralClient) run() error {
	request := asRequest(s.Path, []byte(s.Body))
	wires := make([]*wire, s.Conns)
	for i := range wires {
		var err error
		if wires[i], err = dial(s.URL); err != nil {
			return err
		}
	}
	var (
		mu     sync.Mutex
		wg     sync.WaitGroup
		all    neutralResult
		failed error
	)
	start := time.Now()
	for _, w := range wires {
		w.nap = s.Nap
		if s.Leaves {
			_ = w.SetDeadline(start.Add(s.For))
		}
		wg.Go(func() {
			var own neutralResult
			var err error
			for time.Since(start) < s.For && err == nil {
				var n int
				if n, err = w.exchange(request); err == nil {
					own.Requests++
					own.Bytes += n
				}
			}
			mu.Lock()
			defer mu.Unlock()
			all.Requests += own.Requests
			all.Bytes += own.Bytes
			if err != nil && !s.Leaves {
				failed = err
			}
		})
	}
	wg.Wait()
	if failed != nil {
		return failed
	}
	return result(all)
}

// lastTokenClient looks how exact the fake server is, seen from outside: by how much the time from the first to the last
// token is wrong.
type lastTokenClient struct {
	URL     string
	Streams int // at once
	Times   int // of each
	Tokens  int
	Planned time.Duration // from the first token to the last
}

type lastTokenResult struct{ P50, P99 int64 } // nanoseconds, without sign

func (s *lastTokenClient) role() string { return "client-last-token" }

func (s *lastTokenClient) run() error {
	req, err := chatRequest(s.Tokens)
	if err != nil {
		return err
	}
	req.Body, err = fakeBody(s.Tokens, true)
	if err != nil {
		return err
	}
	c := newClient(ours, s.URL)
	c.Warm(context.Background(), s.Streams, "/v1/models")
	var (
		mu    sync.Mutex
		wg    sync.WaitGroup
		all   []*client.Exchange
		wrong []int64
	)
	for range s.Streams {
		wg.Go(func() {
			for range s.Times {
				ex := c.Do(context.Background(), req)
				mu.Lock()
				all = append(all, ex)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if err := allOK(all); err != nil {
		return err
	}
	for _, ex := range all {
		by := int64(ex.E2E.V - ex.TTFT.V - s.Planned)
		wrong = append(wrong, max(by, -by))
	}
	return result(lastTokenResult{percentile(wrong, 50), percentile(wrong, 99)})
}

// fakeBody is a chat request that the fake server and the plain one both take; it has 226 bytes when it is no stream.
func fakeBody(tokens int, stream bool) ([]byte, error) {
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	type options struct {
		IncludeUsage bool `json:"include_usage"`
	}
	body := struct {
		Model         string    `json:"model"`
		Messages      []message `json:"messages"`
		MaxTokens     int       `json:"max_tokens"`
		IgnoreEOS     bool      `json:"ignore_eos"`
		Stream        bool      `json:"stream"`
		StreamOptions *options  `json:"stream_options,omitempty"`
	}{Model: "tokpace-fake", Messages: []message{{"user", "Say some words, please, as many as you like and in any order: it will be counted, and nobody is going to read them."}}, MaxTokens: tokens, IgnoreEOS: true, Stream: stream}
	if stream {
		body.StreamOptions = &options{true}
	}
	return json.Marshal(body)
}
