package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"example.com/tokpace/pkg/client"
)

// memoryClient opens many streams at once and looks at its own memory.
type memoryClient struct {
	URL     string
	Streams int
	// Finish says that the streams are read to their end; else they wait for their first byte, for ever.
	Finish bool
	Tokens int // of each
}

type memoryResult struct {
	PerStream float64 // bytes, at most at any time
	// Stack and Heap are what of it Go says was for goroutines' stacks and for values.
	Stack, Heap float64
}

func (s *memoryClient) role() string { return "client-memory" }

func (s *memoryClient) run() error {
	req, err := chatRequest(s.Tokens)
	if err != nil {
		return err
	}
	c := newClient(ours, s.URL)
	c.Warm(context.Background(), 1, "/v1/models")
	asking, err := dial(s.URL)
	if err != nil {
		return err
	}
	debug.FreeOSMemory()
	before, err := resident()
	if err != nil {
		return err
	}
	var memBefore, memAfter runtime.MemStats
	runtime.ReadMemStats(&memBefore)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var wg sync.WaitGroup
	exchanges := make([]*client.Exchange, s.Streams)
	for i := range exchanges {
		wg.Go(func() { exchanges[i] = c.Do(ctx, req) })
	}
	done := make(chan struct{})
	go func() {
		wg.Wait()
		close(done)
	}()
	most, err := s.watch(asking, done, func() { runtime.ReadMemStats(&memAfter) })
	if err != nil {
		return err
	}
	if s.Finish {
		for _, ex := range exchanges {
			if !ex.OK {
				return ex.Error
			}
			if ex.Events.V != s.Tokens {
				return fmt.Errorf("%d events in a stream of %d", ex.Events.V, s.Tokens)
			}
		}
	}
	per := func(after, before uint64) float64 { return (float64(after) - float64(before)) / float64(s.Streams) }
	return result(memoryResult{
		PerStream: float64(most-before) / float64(s.Streams),
		Stack:     per(memAfter.StackInuse, memBefore.StackInuse), Heap: per(memAfter.HeapInuse, memBefore.HeapInuse),
	})
}

// watch returns the largest memory until the streams have ended or, if they never end, until a while after the server
// has them all, and calls once when it has.
func (s *memoryClient) watch(asking *wire, done chan struct{}, once func()) (most int64, err error) {
	const every = 20 * time.Millisecond
	all, seen := false, 0
	for more := 10; more > 0; {
		select {
		case <-done:
			if !s.Finish {
				return 0, fmt.Errorf("streams ended that should wait")
			}
			if !all {
				return 0, fmt.Errorf("the server had only %d of %d streams at once", seen, s.Streams)
			}
			return most, nil
		case <-time.After(every):
		}
		now, err := resident()
		if err != nil {
			return 0, err
		}
		most = max(most, now)
		if all {
			if !s.Finish {
				more--
			}
			continue
		}
		n, err := activeStreams(asking)
		if err != nil {
			return 0, err
		}
		seen = max(seen, n)
		if all = n == s.Streams; all {
			once()
		}
	}
	return most, nil
}

// activeStreams asks a paced server how many streams it has.
func activeStreams(c *wire) (int, error) {
	if _, err := c.Write([]byte("GET /active HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")); err != nil {
		return 0, err
	}
	head, err := c.head()
	if err != nil {
		return 0, err
	}
	n, err := contentLength(head)
	if err != nil {
		return 0, err
	}
	text, err := c.take(n)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(string(text))
}
