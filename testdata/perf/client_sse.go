package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// sseClient reads streams as fast as it can.
type sseClient struct {
	Client  string
	URL     string
	Streams int
	Tokens  int // of each stream
	For     time.Duration
}

type sseResult struct {
	PerSecond float64 // output events
	CPU       float64 // nanoseconds per output event
}

func (s *sseClient) role() string { return "client-sse" }

func (s *sseClient) run() error {
	read, err := s.reader()
	if err != nil {
		return err
	}
	if _, _, err := read(s.For / 8); err != nil { // connections, and what else the first requests make
		return err
	}
	before, err := processorTime()
	if err != nil {
		return err
	}
	events, elapsed, err := read(s.For)
	if err != nil {
		return err
	}
	after, err := processorTime()
	if err != nil {
		return err
	}
	return result(sseResult{float64(events) / elapsed.Seconds(), float64(after-before) / float64(events)})
}

// reader returns what reads streams for a while.
func (s *sseClient) reader() (func(time.Duration) (events int, elapsed time.Duration, err error), error) {
	req, err := chatRequest(s.Tokens)
	if err != nil {
		return nil, err
	}
	switch s.Client {
	case ours, oursNetHTTP:
		c := newClient(s.Client, s.URL)
		c.Warm(context.Background(), s.Streams, "/v1/models")
		return func(d time.Duration) (events int, elapsed time.Duration, err error) {
			exchanges, elapsed, err := closedLoop(c, s.Streams, d, req)
			for _, ex := range exchanges {
				events += ex.Events.V
			}
			if err == nil && events != len(exchanges)*s.Tokens {
				err = fmt.Errorf("%d events in %d streams of %d", events, len(exchanges), s.Tokens)
			}
			return events, elapsed, err
		}, nil
	case naive:
		c := &http.Client{Transport: newNetHTTP(s.Streams)}
		return s.loop(func() func() (int, error) {
			stamps := make([]time.Duration, 0, s.Tokens)
			return func() (int, error) {
				_, stamps, _, err = readNaive(c, s.URL, req.Body, stamps[:0])
				return len(stamps), err
			}
		}), nil
	case rawBytes:
		request := asRequest("/v1/chat/completions", req.Body)
		return s.loop(func() func() (int, error) {
			w, err := dial(s.URL)
			return func() (int, error) {
				if err != nil {
					return 0, err
				}
				_, err := w.exchange(request)
				return s.Tokens, err
			}
		}), nil
	}
	return nil, fmt.Errorf("no client %q", s.Client)
}

// loop runs a reader of one stream on as many goroutines as there are streams.
func (s *sseClient) loop(reader func() func() (events int, err error)) func(time.Duration) (int, time.Duration, error) {
	readers := make([]func() (int, error), s.Streams)
	for i := range readers {
		readers[i] = reader()
	}
	return func(d time.Duration) (int, time.Duration, error) {
		var (
			wg     sync.WaitGroup
			events atomic.Int64
			failed atomic.Value
		)
		start := time.Now()
		for _, read := range readers {
			wg.Go(func() {
				for time.Since(start) < d {
					n, err := read()
					if err == nil && n != s.Tokens {
						err = fmt.Errorf("%d events in a stream of %d", n, s.Tokens)
					}
					if err != nil {
						failed.Store(err)
						return
					}
					events.Add(int64(n))
				}
			})
		}
		wg.Wait()
		elapsed := time.Since(start)
		err, _ := failed.Load().(error)
		return int(events.Load()), elapsed, err
	}
}

// fullChunk is all of a chat chunk, as SDKs declare it.
type fullChunk struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	Model   string `json:"model"`
	Choices []struct {
		Index int `json:"index"`
		Delta struct {
			Role      string `json:"role"`
			Content   string `json:"content"`
			ToolCalls []struct {
				Index    int    `json:"index"`
				ID       string `json:"id"`
				Function struct {
					Name      string `json:"name"`
					Arguments string `json:"arguments"`
				} `json:"function"`
			} `json:"tool_calls"`
		} `json:"delta"`
		Logprobs     json.RawMessage `json:"logprobs"`
		FinishReason *string         `json:"finish_reason"`
		TokenIDs     []int           `json:"token_ids"`
	} `json:"choices"`
	Usage *struct {
		PromptTokens     int64 `json:"prompt_tokens"`
		CompletionTokens int64 `json:"completion_tokens"`
		TotalTokens      int64 `json:"total_tokens"`
	} `json:"usage"`
}

var (
	dataPrefix = []byte("data: ")
	doneData   = []byte("[DONE]")
)

// readNaive reads one stream as most clients in Go do: net/http, lines, encoding/json. Each output event is stamped when
// its line has come, before it is decoded: later would be the client's own time.
func readNaive(c *http.Client, url string, body []byte, stamps []time.Duration) (sent time.Time, _ []time.Duration, text []byte, err error) {
	hr, err := http.NewRequest(http.MethodPost, url+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		return sent, stamps, nil, err
	}
	hr.Header.Set("Content-Type", "application/json")
	sent = time.Now()
	resp, err := c.Do(hr)
	if err != nil {
		return sent, stamps, nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return sent, stamps, nil, fmt.Errorf("status %s", resp.Status)
	}
	lines := bufio.NewScanner(resp.Body)
	var usage, done bool
	for lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), dataPrefix)
		if !ok {
			continue
		}
		at := time.Since(sent)
		if bytes.Equal(data, doneData) {
			done = true
			continue
		}
		var chunk fullChunk
		if err := json.Unmarshal(data, &chunk); err != nil {
			return sent, stamps, nil, err
		}
		usage = usage || chunk.Usage != nil
		if len(chunk.Choices) > 0 && chunk.Choices[0].Delta.Content != "" {
			stamps = append(stamps, at)
			text = append(text, chunk.Choices[0].Delta.Content...)
		}
	}
	if err := lines.Err(); err != nil {
		return sent, stamps, nil, err
	}
	if !usage || !done {
		return sent, stamps, nil, io.ErrUnexpectedEOF
	}
	return sent, stamps, text, nil
}
