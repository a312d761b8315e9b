package main

import (
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

// bodyClient reads answers that are no streams as fast as it can: embeddings in JSON, or 64 KB of binary vectors.
type bodyClient struct {
	Client   string
	URL      string
	Conns    int
	Encoding string // encoding_format
	For      time.Duration
}

type bodyResult struct {
	PerSecond float64 // requests
	CPU       float64 // nanoseconds per request
}

func (s *bodyClient) role() string { return "client-body" }

func (s *bodyClient) run() error {
	req, err := embeddingsRequest(s.Encoding)
	if err != nil {
		return err
	}
	var read func(time.Duration) (int, time.Duration, error)
	switch s.Client {
	case ours, oursNetHTTP:
		c := newClient(s.Client, s.URL)
		c.Warm(context.Background(), s.Conns, "/v1/models")
		read = func(d time.Duration) (int, time.Duration, error) {
			exchanges, elapsed, err := closedLoop(c, s.Conns, d, req)
			return len(exchanges), elapsed, err
		}
	case naive:
		c := &http.Client{Transport: newNetHTTP(s.Conns)}
		read = func(d time.Duration) (int, time.Duration, error) {
			return together(s.Conns, d, func() error { return postNaive(c, s.URL+"/v1/embeddings", req.Body) })
		}
	default:
		return fmt.Errorf("no client %q", s.Client)
	}
	if _, _, err := read(s.For / 8); err != nil {
		return err
	}
	before, err := processorTime()
	if err != nil {
		return err
	}
	n, elapsed, err := read(s.For)
	if err != nil {
		return err
	}
	after, err := processorTime()
	if err != nil {
		return err
	}
	return result(bodyResult{float64(n) / elapsed.Seconds(), float64(after-before) / float64(n)})
}

// together calls f again and again on n goroutines.
func together(n int, d time.Duration, f func() error) (calls int, elapsed time.Duration, err error) {
	var (
		wg     sync.WaitGroup
		count  atomic.Int64
		failed atomic.Value
	)
	start := time.Now()
	for range n {
		wg.Go(func() {
			for time.Since(start) < d {
				if err := f(); err != nil {
					failed.Store(err)
					return
				}
				count.Add(1)
			}
		})
	}
	wg.Wait()
	err, _ = failed.Load().(error)
	return int(count.Load()), time.Since(start), err
}

// postNaive decodes the whole answer, every number of it.
func postNaive(c *http.Client, url string, body []byte) error {
	resp, err := c.Post(url, "application/json", bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %s", resp.Status)
	}
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	var answer struct {
		Data []struct {
			Embedding []float64 `json:"embedding"`
		} `json:"data"`
		Usage struct {
			PromptTokens int `json:"prompt_tokens"`
		} `json:"usage"`
	}
	if err := json.Unmarshal(data, &answer); err != nil {
		return err
	}
	if answer.Usage.PromptTokens == 0 {
		return io.ErrUnexpectedEOF
	}
	return nil
}
