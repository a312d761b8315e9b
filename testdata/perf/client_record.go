package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"runtime"

	"example.com/tokpace/pkg/client"
)

// recordClient looks how much memory an exchange keeps for each event: that of long streams over that of short ones.
// They come out of memory, without a socket.
type recordClient struct{}

type recordResult struct{ PerEvent float64 } // bytes

func (s *recordClient) role() string { return "record" }

func (s *recordClient) run() error {
	// 1024 and 4096 gaps, so that what the allocator rounds up to is nothing.
	const short, long, times = 1025, 4097, 64
	keep := func(tokens int) (float64, error) {
		req, err := chatRequest(tokens)
		if err != nil {
			return 0, err
		}
		data := bytes.Join(tokenEvents(tokens), nil)
		c := &client.Client{BaseURL: "http://fake.invalid", Transport: fromMemory(data), DiscardText: true}
		exchanges := []*client.Exchange{c.Do(context.Background(), req)}
		before := liveHeap()
		for range times {
			exchanges = append(exchanges, c.Do(context.Background(), req))
		}
		after := liveHeap()
		runtime.KeepAlive(c) // and with it the data
		return float64(after-before) / times, allOK(exchanges)
	}
	few, err := keep(short)
	if err != nil {
		return err
	}
	many, err := keep(long)
	if err != nil {
		return err
	}
	return result(recordResult{(many - few) / (long - short)})
}

func liveHeap() int64 {
	runtime.GC()
	runtime.GC() // pools are emptied by the second
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// fromMemory is a transport that answers every request with the same stream.
type fromMemory []byte

func (data fromMemory) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusOK, ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"text/event-stream"}},
		Body:   io.NopCloser(pieces{bytes.NewReader(data)}),
	}, nil
}
