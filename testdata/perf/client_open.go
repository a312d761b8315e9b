package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"example.com/tokpace/pkg/client"
	"example.com/tokpace/pkg/load"
)

// openClient sends embeddings requests by a schedule.
type openClient struct {
	Client   string // ours or sleeper
	URL      string
	Rate     float64
	Poisson  bool // else constant
	Seed     uint64
	Requests int
}

// openResult is in nanoseconds.
type openResult struct {
	// LagP50 and LagP99 are of ready − scheduled, SentP99 is of send − scheduled.
	LagP50, LagP99, LagMax, SentP99 int64
	// Rate is the achieved rate: sends after the first, over the time since it.
	Rate float64
}

func (s *openClient) role() string { return "client-open" }

func (s *openClient) run() error {
	var schedule load.Schedule = load.Constant{Rate: s.Rate}
	if s.Poisson {
		schedule = load.Poisson{Rate: s.Rate}
	}
	req, err := embeddingsRequest("")
	if err != nil {
		return err
	}
	c := newClient(ours, s.URL)
	c.Warm(context.Background(), 64, "/v1/models")
	var exchanges []*client.Exchange
	switch s.Client {
	case ours:
		l := load.Open{Schedule: schedule, Seed: s.Seed}
		exchanges, _, err = l.Start(context.Background(), c.Do, oneRequest{req}, s.Requests).Wait()
	case sleeper:
		exchanges, err = sleepUntilEach(schedule, s.Seed, s.Requests, func() *client.Exchange { return c.Do(context.Background(), req) })
	default:
		err = fmt.Errorf("no client %q", s.Client)
	}
	if behind := (*load.BehindError)(nil); err != nil && !errors.As(err, &behind) { // the lag is what is measured
		return err
	}
	if err := allOK(exchanges); err != nil {
		return err
	}
	var lags, sent []int64
	first, last := exchanges[0].Sent, exchanges[0].Sent
	for _, ex := range exchanges {
		lags = append(lags, int64(ex.Ready.Sub(ex.Scheduled)))
		sent = append(sent, int64(ex.Sent.Sub(ex.Scheduled)))
		if ex.Sent.Before(first) {
			first = ex.Sent
		}
		if ex.Sent.After(last) {
			last = ex.Sent
		}
	}
	return result(openResult{
		LagP50: percentile(lags, 50), LagP99: percentile(lags, 99), LagMax: percentile(lags, 100), SentP99: percentile(sent, 99),
		Rate: float64(len(exchanges)-1) / last.Sub(first).Seconds(),
	})
}

// sleepUntilEach is the dispatcher that one would write: it sleeps until each time and starts a goroutine.
func sleepUntilEach(schedule load.Schedule, seed uint64, n int, do func() *client.Exchange) ([]*client.Exchange, error) {
	times, err := schedule.Times(seed)
	if err != nil {
		return nil, err
	}
	var wg sync.WaitGroup
	exchanges := make([]*client.Exchange, n)
	start := time.Now()
	i := 0
	for at := range times {
		if i == n {
			break
		}
		scheduled := start.Add(at)
		time.Sleep(time.Until(scheduled))
		ready := time.Now()
		slot := &exchanges[i]
		wg.Go(func() {
			ex := do()
			ex.Scheduled, ex.Ready = scheduled, ready
			*slot = ex
		})
		i++
	}
	wg.Wait()
	return exchanges, nil
}
