package main

import (
	"fmt"
	"time"
)

var fakeCost = group{
	name: "fake-cost",
	rows: []row{
		{id: "fake-request", what: "fake: CPU per plain request ÷ minimal net/http server", atMost: true, must: 1.5, aim: none},
		{id: "fake-event", what: "fake: CPU per event ÷ minimal net/http server", atMost: true, must: 1.25, aim: none},
	},
	open: func(m *machine) (*session, error) {
		fake, err := m.server(&fakeServer{})
		if err != nil {
			return nil, err
		}
		plain, err := m.server(&plainServer{})
		if err != nil {
			fake.close()
			return nil, err
		}
		round := func(s *sheet, n int) error {
			for _, kind := range []struct {
				name, unit, id string
				tokens         int
				stream         bool
			}{{"plain", "cpu-ns/req", "fake-request", 16, false}, {"stream", "cpu-ns/event", "fake-event", 256, true}} {
				cost := map[string]float64{}
				for _, c := range rotated([]struct {
					name string
					srv  *server
				}{{"fake", fake}, {"minimal", plain}}, n) {
					requests, cpu, err := costOf(m, c.srv, kind.tokens, kind.stream)
					if err != nil {
						return err
					}
					units := float64(requests)
					if kind.stream {
						units *= float64(kind.tokens)
					}
					cost[c.name] = float64(cpu) / units
					s.bench("Fake/answer="+kind.name+"/server="+c.name, cost[c.name], kind.unit)
				}
				s.add(kind.id, cost["fake"]/cost["minimal"])
			}
			return nil
		}
		return &session{round, func() { fake.close(); plain.close() }}, nil
	},
}

// costOf loads a server and says what it used. The client never waits for a write: see neutralClient.Nap.
func costOf(m *machine, srv *server, tokens int, stream bool) (requests int, cpu time.Duration, err error) {
	body, err := fakeBody(tokens, stream)
	if err != nil {
		return 0, 0, err
	}
	before, err := srv.usage()
	if err != nil {
		return 0, 0, err
	}
	load := neutralClient{URL: srv.url, Path: requestsPath, Body: string(body), Conns: 64, For: loadFor, Nap: time.Millisecond}
	if stream {
		load.Conns = 16
	}
	var r neutralResult
	if err := m.client(&load, &r); err != nil {
		return 0, 0, err
	}
	after, err := srv.usage()
	if err == nil && r.Requests == 0 {
		err = fmt.Errorf("no answers")
	}
	return r.Requests, after.CPU - before.CPU, err
}

var fakeTime = group{
	name: "fake-time",
	rows: []row{
		{id: "fake-last-1-p50", what: "fake: last-token error, 10 ms + 63 x 2 ms, 1 stream, p50", unit: "ms", atMost: true, must: 0.2, aim: none},
		{id: "fake-last-1-p99", what: "fake: last-token error, 10 ms + 63 x 2 ms, 1 stream, p99", unit: "ms", atMost: true, must: 2, aim: none},
		{id: "fake-last-64-p50", what: "fake: last-token error, 10 ms + 63 x 2 ms, 64 streams, p50", unit: "ms", atMost: true, must: 0.2, aim: none},
		{id: "fake-last-64-p99", what: "fake: last-token error, 10 ms + 63 x 2 ms, 64 streams, p99", unit: "ms", atMost: true, must: 2, aim: none},
		{id: "fake-late", what: "fake: server-side actual − planned there, p50", unit: "ms", atMost: true, must: 0.1, aim: none},
	},
	open: func(m *machine) (*session, error) {
		const (
			tokens = 64
			itl    = 2 * time.Millisecond
		)
		fake, err := m.server(&fakeServer{TTFT: 10 * time.Millisecond, ITL: itl})
		if err != nil {
			return nil, err
		}
		round := func(s *sheet, n int) error {
			if _, err := fake.usage(); err != nil { // empties the journal
				return err
			}
			var late []int64
			for _, c := range rotated([]struct{ streams, times int }{{1, 25}, {64, 4}}, n) {
				var r lastTokenResult
				spec := lastTokenClient{URL: fake.url, Streams: c.streams, Times: c.times, Tokens: tokens, Planned: (tokens - 1) * itl}
				if err := m.client(&spec, &r); err != nil {
					return err
				}
				u, err := fake.usage()
				if err != nil {
					return err
				}
				late = append(late, u.Late...)
				s.bench(fmt.Sprintf("FakeTime/streams=%d", c.streams), r.P50, "last-token-error-p50-ns", r.P99, "last-token-error-p99-ns",
					percentile(u.Late, 50), "late-p50-ns", percentile(u.Late, 99), "late-p99-ns", percentile(u.Last, 50), "server-last-token-error-p50-ns", percentile(u.Last, 99), "server-last-token-error-p99-ns")
				s.add(fmt.Sprintf("fake-last-%d-p50", c.streams), float64(r.P50)/milli)
				s.add(fmt.Sprintf("fake-last-%d-p99", c.streams), float64(r.P99)/milli)
			}
			s.add("fake-late", float64(percentile(late, 50))/milli)
			return nil
		}
		return &session{round, fake.close}, nil
	},
}

var fakeMemory = group{
	name: "fake-memory",
	rows: []row{{id: "fake-memory", what: "fake: memory per slow stream (1,000)", unit: "KiB", atMost: true, must: 40, aim: none}},
	open: func(m *machine) (*session, error) {
		round := func(s *sheet, n int) error {
			// A new one each time: what it keeps of the streams before would be what the next ones have.
			fake, err := m.server(&fakeServer{TTFT: 100 * time.Millisecond, ITL: 100 * time.Millisecond})
			if err != nil {
				return err
			}
			defer fake.close()
			per, err := slowStreams(m, fake)
			if err != nil {
				return err
			}
			s.bench("FakeMemory/streams=1000", per, "B/stream")
			s.add("fake-memory", per/kib)
			return nil
		}
		return &session{round, func() {}}, nil
	},
}

// slowStreams returns a server's memory per stream while it has 1,000, at most.
func slowStreams(m *machine, srv *server) (perStream float64, err error) {
	const streams = 1000
	body, err := fakeBody(256, true)
	if err != nil {
		return 0, err
	}
	before, err := srv.usage()
	if err != nil {
		return 0, err
	}
	done := make(chan error, 1)
	go func() {
		var r neutralResult
		done <- m.client(&neutralClient{URL: srv.url, Path: requestsPath, Body: string(body), Conns: streams, For: 4 * time.Second, Leaves: true}, &r)
	}()
	most := before.Resident
	for {
		select {
		case err := <-done:
			return float64(most-before.Resident) / streams, err
		case <-time.After(100 * time.Millisecond):
		}
		u, err := srv.usage()
		if err != nil {
			return 0, err
		}
		most = max(most, u.Resident)
	}
}
