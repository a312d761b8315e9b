package main

import (
	"errors"
	"time"
)

var bodies = group{
	name: "bodies",
	rows: []row{
		{id: "emb-wrk", what: "embeddings 8.9 KB: req/s ÷ wrk", must: 0.33, aim: 0.8},
		{id: "emb-hey", what: "embeddings 8.9 KB: req/s ÷ hey", must: 1, aim: 2},
		{id: "emb-vegeta", what: "embeddings 8.9 KB: req/s ÷ vegeta", must: none, aim: none},
		{id: "emb-json", what: "embeddings 8.9 KB: req/s ÷ net/http + encoding/json", must: none, aim: none},
		{id: "bytes-wrk", what: "bytes_only 64 KB: req/s ÷ wrk", must: 0.6, aim: 0.9},
		{id: "bytes-hey", what: "bytes_only 64 KB: req/s ÷ hey", must: none, aim: none},
	},
	open: func(m *machine) (*session, error) {
		srv, err := m.server(&blastServer{Tokens: 1})
		if err != nil {
			return nil, err
		}
		type contestant struct{ name, encoding, id string }
		all := []contestant{
			{ours, "", ""}, {"wrk", "", "emb-wrk"}, {"hey", "", "emb-hey"}, {"vegeta", "", "emb-vegeta"}, {naive, "", "emb-json"},
			{ours, "bytes_only", ""}, {"wrk", "bytes_only", "bytes-wrk"}, {"hey", "bytes_only", "bytes-hey"},
		}
		round := func(s *sheet, n int) error {
			own := map[string]float64{}
			rate := map[string]float64{}
			for _, c := range rotated(all, n) {
				r, err := bodyRate(m, srv.url, c.name, c.encoding)
				if errors.Is(err, errNoTool) {
					s.lackTool(c.id, c.name)
					continue
				}
				if err != nil {
					return err
				}
				body := "embeddings"
				if c.encoding != "" {
					body = "bytes"
				}
				if r.CPU > 0 {
					s.bench("Body/body="+body+"/client="+c.name, r.PerSecond, "req/s", r.CPU, "cpu-ns/req")
				} else {
					s.bench("Body/body="+body+"/client="+c.name, r.PerSecond, "req/s")
				}
				if c.id == "" {
					own[c.encoding] = r.PerSecond
				} else {
					rate[c.id] = r.PerSecond
				}
			}
			for _, c := range all {
				if v := rate[c.id]; v > 0 {
					s.add(c.id, own[c.encoding]/v)
				}
			}
			return nil
		}
		return &session{round, srv.close}, nil
	},
}

func bodyRate(m *machine, url, name, encoding string) (r bodyResult, err error) {
	if name == ours || name == naive {
		return r, m.client(&bodyClient{Client: name, URL: url, Conns: loadConns, Encoding: encoding, For: loadFor}, &r)
	}
	req, err := embeddingsRequest(encoding)
	if err != nil {
		return r, err
	}
	r.PerSecond, err = m.toolRate(name, toolLoad{url + "/v1/embeddings", req.Body, loadConns, loadFor})
	return r, err
}

var memory = group{
	name: "memory",
	rows: []row{
		{id: "idle-stream", what: "client memory per idle stream (2,000, waiting for the first byte)", unit: "KiB", atMost: true, must: 20, aim: 4},
		{id: "slow-stream", what: "client memory per slow stream (5,000 at once, all counted)", unit: "KiB", atMost: true, must: 64, aim: none},
	},
	open: func(m *machine) (*session, error) {
		const slowTokens = 4
		hold, err := m.server(&pacedServer{Hold: true})
		if err != nil {
			return nil, err
		}
		slow, err := m.server(&pacedServer{TTFT: 4 * time.Second, ITL: 250 * time.Millisecond, Tokens: slowTokens, Spread: 500 * time.Millisecond})
		if err != nil {
			hold.close()
			return nil, err
		}
		round := func(s *sheet, n int) error {
			var r memoryResult
			if err := m.client(&memoryClient{URL: hold.url, Streams: 2000}, &r); err != nil {
				return err
			}
			s.bench("Memory/streams=2000/state=idle", r.PerStream, "B/stream", r.Stack, "stack-B/stream", r.Heap, "heap-B/stream")
			s.add("idle-stream", r.PerStream/kib)
			if err := m.client(&memoryClient{URL: slow.url, Streams: 5000, Finish: true, Tokens: slowTokens}, &r); err != nil {
				return err
			}
			s.bench("Memory/streams=5000/state=slow", r.PerStream, "B/stream", r.Stack, "stack-B/stream", r.Heap, "heap-B/stream")
			s.add("slow-stream", r.PerStream/kib)
			return nil
		}
		return &session{round, func() { hold.close(); slow.close() }}, nil
	},
}
