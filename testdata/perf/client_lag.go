package main

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"sync"
	"time"

	"example.com/tokpace/pkg/client"
)

// lagClient reads paced streams and compares its times with the stamps of the server in their text.
type lagClient struct {
	Client  string
	URL     string
	Streams int
	Waves   int // streams that each connection reads, one after the other; one before them does not count
}

// lagResult is in nanoseconds.
type lagResult struct {
	Events int
	// Lag is client − server of each token; ITL is what a gap is wrong by, TTFT what the first is later than the send.
	LagP50, LagP99, LagMax int64
	ITLP50, ITLP99         int64
	CPU                    float64 // of the client, per event
}

func (s *lagClient) role() string { return "client-lag" }

// A timed stream is one answer: when each token came, on CLOCK_MONOTONIC, and when it was sent.
type timedStream struct{ came, sent []int64 }

func (s *lagClient) run() error {
	req, err := chatRequest(0)
	if err != nil {
		return err
	}
	zero := newZero()
	var read func() (timedStream, error)
	switch s.Client {
	case ours, oursNetHTTP:
		c := newClient(s.Client, s.URL)
		c.DiscardText = false // the stamps are in it
		c.Warm(context.Background(), s.Streams, "/v1/models")
		read = func() (timedStream, error) { return timesOf(c.Do(context.Background(), req), zero) }
	case naive:
		c := &http.Client{Transport: newNetHTTP(s.Streams)}
		read = func() (timedStream, error) {
			sent, stamps, text, err := readNaive(c, s.URL, req.Body, nil)
			if err != nil {
				return timedStream{}, err
			}
			t := timedStream{came: make([]int64, len(stamps))}
			for i, at := range stamps {
				t.came[i] = zero.of(sent.Add(at))
			}
			t.sent, err = stampsOf(string(text), len(stamps))
			return t, err
		}
	default:
		return fmt.Errorf("no client %q", s.Client)
	}
	streams, cpu, err := s.waves(read)
	if err != nil {
		return err
	}
	return result(summary(streams, cpu))
}

func (s *lagClient) waves(read func() (timedStream, error)) (streams []timedStream, cpu time.Duration, err error) {
	var (
		mu    sync.Mutex
		wg    sync.WaitGroup
		warm  sync.WaitGroup
		begun sync.Once
		start time.Duration
	)
	warm.Add(s.Streams)
	for range s.Streams {
		wg.Go(func() {
			_, failed := read()
			warm.Done()
			warm.Wait()
			begun.Do(func() { start, _ = processorTime() })
			for range s.Waves {
				t, err := read()
				if failed == nil {
					failed = err
				}
				mu.Lock()
				streams = append(streams, t)
				mu.Unlock()
			}
			if failed != nil {
				mu.Lock()
				err = failed
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	end, _ := processorTime()
	return streams, end - start, err
}

func timesOf(ex *client.Exchange, z zero) (t timedStream, err error) {
	if !ex.OK {
		return t, ex.Error
	}
	t.came = make([]int64, ex.Events.V)
	at := z.of(ex.Sent) + int64(ex.TTFT.V)
	for i := range t.came {
		if i > 0 {
			at += int64(ex.ITL[i-1])
		}
		t.came[i] = at
	}
	t.sent, err = stampsOf(ex.Text, len(t.came))
	return t, err
}

func summary(streams []timedStream, cpu time.Duration) lagResult {
	var lags, gaps []int64
	for _, t := range streams {
		for i := range t.came {
			lags = append(lags, t.came[i]-t.sent[i])
			if i > 0 {
				wrong := (t.came[i] - t.came[i-1]) - (t.sent[i] - t.sent[i-1])
				gaps = append(gaps, max(wrong, -wrong))
			}
		}
	}
	return lagResult{
		Events: len(lags),
		LagP50: percentile(lags, 50), LagP99: percentile(lags, 99), LagMax: percentile(lags, 100),
		ITLP50: percentile(gaps, 50), ITLP99: percentile(gaps, 99),
		CPU: float64(cpu) / float64(len(lags)),
	}
}

// A zero turns times of package time into CLOCK_MONOTONIC. Both are the same clock but for where they count from.
type zero struct {
	t  time.Time
	at int64
}

func newZero() zero {
	var best zero
	width := time.Duration(math.MaxInt64)
	for range 1000 {
		before := time.Now()
		at := clock()
		after := time.Now()
		if w := after.Sub(before); w < width {
			width, best = w, zero{before.Add(w / 2), at}
		}
	}
	return best
}

func (z zero) of(t time.Time) int64 { return z.at + int64(t.Sub(z.t)) }
