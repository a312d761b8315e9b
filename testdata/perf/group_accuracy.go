package main

import "time"

var paced = pacedServer{TTFT: 20 * time.Millisecond, ITL: 5 * time.Millisecond, Tokens: 64, Spread: 5 * time.Millisecond}

func (s *sheet) benchLag(name string, r lagResult) {
	s.bench(name, r.LagP50, "lag-p50-ns", r.LagP99, "lag-p99-ns", r.LagMax, "lag-max-ns", r.ITLP50, "itl-error-p50-ns", r.ITLP99, "itl-error-p99-ns", r.CPU, "cpu-ns/event")
}

var lag512 = group{
	name: "lag",
	rows: []row{
		{id: "lag-json", what: "p99 lag, 512 streams x 200 tok/s, net/http + encoding/json ÷ ours", must: 10, aim: 1000},
		{id: "lag-nethttp", what: "p99 lag there with transport=net/http, net/http + encoding/json ÷ ours", must: none, aim: none},
		{id: "lag-own", what: "p99 lag there, ours", unit: "µs", atMost: true, must: none, aim: none},
	},
	open: func(m *machine) (*session, error) {
		srv, err := m.server(&paced)
		if err != nil {
			return nil, err
		}
		round := func(s *sheet, n int) error {
			lag := map[string]float64{}
			for _, name := range rotated([]string{ours, oursNetHTTP, naive}, n) {
				var r lagResult
				if err := m.client(&lagClient{Client: name, URL: srv.url, Streams: 512, Waves: 2}, &r); err != nil {
					return err
				}
				lag[name] = float64(r.LagP99)
				s.benchLag("Lag/streams=512/client="+name, r)
			}
			s.add("lag-json", lag[naive]/lag[ours])
			s.add("lag-nethttp", lag[naive]/lag[oursNetHTTP])
			s.add("lag-own", lag[ours]/micro)
			return nil
		}
		return &session{round, srv.close}, nil
	},
}

var itl64 = group{
	name: "itl",
	rows: []row{
		{id: "itl-p50", what: "ITL error at 64 streams, p50", unit: "µs", atMost: true, must: 30, aim: 1},
		{id: "itl-p99", what: "ITL error at 64 streams, p99", unit: "µs", atMost: true, must: 700, aim: 20},
		{id: "itl-tls-p50", what: "ITL error at 64 streams over TLS, p50", unit: "µs", atMost: true, must: none, aim: none},
		{id: "itl-tls-p99", what: "ITL error at 64 streams over TLS, p99", unit: "µs", atMost: true, must: none, aim: none},
	},
	open: func(m *machine) (*session, error) {
		plain, err := m.server(&paced)
		if err != nil {
			return nil, err
		}
		overTLS := paced
		overTLS.TLS = true
		tls, err := m.server(&overTLS)
		if err != nil {
			plain.close()
			return nil, err
		}
		round := func(s *sheet, n int) error {
			for _, c := range rotated([]struct {
				name, id string
				srv      *server
			}{{"plain", "itl", plain}, {"tls", "itl-tls", tls}}, n) {
				var r lagResult
				if err := m.client(&lagClient{Client: ours, URL: c.srv.url, Streams: 64, Waves: 4}, &r); err != nil {
					return err
				}
				s.benchLag("ITL/streams=64/server="+c.name, r)
				s.add(c.id+"-p50", float64(r.ITLP50)/micro)
				s.add(c.id+"-p99", float64(r.ITLP99)/micro)
			}
			return nil
		}
		return &session{round, func() { plain.close(); tls.close() }}, nil
	},
}

var openLoop = group{
	name: "open",
	rows: []row{
		{id: "open-sleep", what: "open loop, 1,000 req/s Poisson: send-lag p99, `time.Sleep` dispatcher ÷ ours", must: 8, aim: 25},
		{id: "open-sent", what: "the same for send − scheduled", must: none, aim: none},
		{id: "open-rate", what: "open loop, 2,000 req/s for 10 s: error of the rate", unit: "%", atMost: true, must: 0.5, aim: none},
		{id: "open-lag", what: "open loop, 2,000 req/s for 10 s: send-lag p99", unit: "ms", atMost: true, must: 2, aim: none},
	},
	open: func(m *machine) (*session, error) {
		srv, err := m.server(&blastServer{Delay: 2 * time.Millisecond})
		if err != nil {
			return nil, err
		}
		round := func(s *sheet, n int) error {
			found := map[string]openResult{}
			for _, name := range rotated([]string{ours, sleeper}, n) {
				var r openResult
				if err := m.client(&openClient{Client: name, URL: srv.url, Rate: 1000, Poisson: true, Seed: uint64(n), Requests: 2000}, &r); err != nil {
					return err
				}
				found[name] = r
				s.benchOpen("OpenLoop/rate=1000/schedule=poisson/client="+name, r)
			}
			s.add("open-sleep", float64(found[sleeper].LagP99)/float64(found[ours].LagP99))
			s.add("open-sent", float64(found[sleeper].SentP99)/float64(found[ours].SentP99))
			const rate = 2000
			var r openResult
			if err := m.client(&openClient{Client: ours, URL: srv.url, Rate: rate, Requests: 10*rate + 1}, &r); err != nil {
				return err
			}
			s.benchOpen("OpenLoop/rate=2000/schedule=constant/client="+ours, r)
			off := r.Rate/rate - 1
			s.add("open-rate", 100*max(off, -off))
			s.add("open-lag", float64(r.LagP99)/milli)
			return nil
		}
		return &session{round, srv.close}, nil
	},
}

func (s *sheet) benchOpen(name string, r openResult) {
	s.bench(name, r.LagP50, "send-lag-p50-ns", r.LagP99, "send-lag-p99-ns", r.LagMax, "send-lag-max-ns", r.SentP99, "queue-p99-ns", r.Rate, "req/s")
}
