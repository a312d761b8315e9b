package main

import (
	"encoding/json"
	"errors"
	"strconv"
	"time"
)

const (
	loadConns    = 64
	blastTokens  = 128
	loadFor      = time.Second
	requestsPath = "/v1/chat/completions"
)

var streams = group{
	name: "streams",
	rows: []row{
		{id: "sse-json", what: "SSE events/s, 64 events a write, ÷ net/http + encoding/json", must: 6, aim: 12},
		{id: "sse-wrk", what: "SSE events/s ÷ wrk reading the same bytes", must: 0.25, aim: 0.55},
		{id: "sse-raw", what: "SSE events/s ÷ a byte counter in Go", must: none, aim: none},
		{id: "sse-sdk", what: "SSE events/s ÷ the openai-go SDK", must: none, aim: none},
		{id: "sse-nethttp", what: "SSE events/s with transport=net/http ÷ net/http + encoding/json", must: none, aim: none},
	},
	open: func(m *machine) (*session, error) {
		req, err := chatRequest(blastTokens)
		if err != nil {
			return nil, err
		}
		sdk, err := build("openaisdk")
		if err != nil {
			return nil, err
		}
		srv, err := m.server(&blastServer{Tokens: blastTokens})
		if err != nil {
			sdk.remove()
			return nil, err
		}
		round := func(s *sheet, n int) error {
			rate := map[string]float64{}
			for _, name := range rotated([]string{ours, oursNetHTTP, naive, openAI, rawBytes, "wrk"}, n) {
				if name == "wrk" {
					answers, err := m.toolRate(name, toolLoad{srv.url + requestsPath, req.Body, loadConns, loadFor})
					if errors.Is(err, errNoTool) {
						s.lackTool("sse-wrk", name)
						continue
					}
					if err != nil {
						return err
					}
					rate[name] = answers * blastTokens
					s.bench("SSE/client=wrk", rate[name], "events/s")
					continue
				}
				var r sseResult
				var err error
				if name == openAI {
					err = sdkRate(m, sdk, srv.url, &r)
				} else {
					err = m.client(&sseClient{Client: name, URL: srv.url, Streams: loadConns, Tokens: blastTokens, For: loadFor}, &r)
				}
				if err != nil {
					return err
				}
				rate[name] = r.PerSecond
				s.bench("SSE/client="+name, r.PerSecond, "events/s", r.CPU, "cpu-ns/event")
			}
			s.add("sse-json", rate[ours]/rate[naive])
			if rate["wrk"] > 0 {
				s.add("sse-wrk", rate[ours]/rate["wrk"])
			}
			s.add("sse-raw", rate[ours]/rate[rawBytes])
			s.add("sse-sdk", rate[ours]/rate[openAI])
			s.add("sse-nethttp", rate[oursNetHTTP]/rate[naive])
			return nil
		}
		return &session{round, func() { srv.close(); sdk.remove() }}, nil
	},
}

func sdkRate(m *machine, sdk *binary, url string, r *sseResult) error {
	out, err := m.tool(sdk.exe, "-url", url, "-model", model, "-streams", strconv.Itoa(loadConns), "-tokens", strconv.Itoa(blastTokens), "-for", loadFor.String())
	if err != nil {
		return err
	}
	return json.Unmarshal(out, r)
}

var secure = group{
	name: "secure",
	rows: []row{
		{id: "tls-plain", what: "SSE events/s over TLS ÷ without", must: none, aim: none},
		{id: "tls-json", what: "SSE events/s over TLS ÷ net/http + encoding/json over TLS", must: none, aim: none},
		{id: "http2-plain", what: "SSE events/s over HTTP/2 (transport=net/http) ÷ HTTP/1.1 without TLS", must: none, aim: none},
	},
	open: func(m *machine) (*session, error) {
		servers := map[string]*server{}
		closeAll := func() {
			for _, s := range servers {
				s.close()
			}
		}
		for name, spec := range map[string]*blastServer{
			"plain": {Tokens: blastTokens}, "tls": {Tokens: blastTokens, TLS: true}, "http2": {Tokens: blastTokens, HTTP2: true},
		} {
			var err error
			if servers[name], err = m.server(spec); err != nil {
				closeAll()
				return nil, err
			}
		}
		round := func(s *sheet, n int) error {
			rate := map[string]float64{}
			for _, c := range rotated([]struct{ client, server string }{{ours, "plain"}, {ours, "tls"}, {naive, "tls"}, {oursNetHTTP, "http2"}}, n) {
				var r sseResult
				if err := m.client(&sseClient{Client: c.client, URL: servers[c.server].url, Streams: loadConns, Tokens: blastTokens, For: loadFor}, &r); err != nil {
					return err
				}
				rate[c.client+c.server] = r.PerSecond
				s.bench("Secure/server="+c.server+"/client="+c.client, r.PerSecond, "events/s", r.CPU, "cpu-ns/event")
			}
			s.add("tls-plain", rate[ours+"tls"]/rate[ours+"plain"])
			s.add("tls-json", rate[ours+"tls"]/rate[naive+"tls"])
			s.add("http2-plain", rate[oursNetHTTP+"http2"]/rate[ours+"plain"])
			return nil
		}
		return &session{round, closeAll}, nil
	},
}

var parsing = group{
	name: "parsing",
	rows: []row{
		{id: "parse-json", what: "in-memory parse ÷ encoding/json", must: 50, aim: 80},
		{id: "parse-best", what: "in-memory parse ÷ jsonparser, the best JSON library", must: 5, aim: 7},
		{id: "parse-allocs", what: "in-memory parse: allocations per event", atMost: true, must: 0, aim: 0},
	},
	open: func(m *machine) (*session, error) {
		round := func(s *sheet, n int) error {
			ns := map[string]float64{}
			for _, name := range rotated([]string{ours, encodingJSON, jsonParser, framing}, n) {
				var r parseResult
				if err := m.client(&parseClient{Parser: name, For: 300 * time.Millisecond}, &r); err != nil {
					return err
				}
				ns[name] = r.NS
				s.bench("Parse/parser="+name, r.NS, "ns/event", r.Allocs, "allocs/event")
				if name == ours {
					s.add("parse-allocs", hundredths(r.Allocs))
				}
			}
			s.add("parse-json", ns[encodingJSON]/ns[ours])
			s.add("parse-best", ns[jsonParser]/ns[ours])
			return nil
		}
		return &session{round, func() {}}, nil
	},
}
