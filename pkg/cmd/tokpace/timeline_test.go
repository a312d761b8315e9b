package main

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"example.com/tokpace/fakeserver"
	"example.com/tokpace/pkg/api"
	"example.com/tokpace/pkg/client"
	"example.com/tokpace/pkg/virtual"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite testdata/timeline")

func requireTimeline(t *testing.T, ex *client.Exchange) {
	t.Helper()
	got := timeline(sent{url: virtual.BaseURL + "/path", what: "the body given", bytes: 42}, ex)
	_, name, _ := strings.Cut(t.Name(), "/")
	file := filepath.Join("testdata", "timeline", name+".txt")
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

// Real exchanges with the fake in virtual time: the timelines are exact.
func TestTimelineOfExchange(t *testing.T) {
	times := fakeserver.Config{Headers: time.Millisecond, TTFT: 50 * time.Millisecond, ITL: 10 * time.Millisecond}
	with := func(edit func(*fakeserver.Config)) fakeserver.Config {
		c := times
		edit(&c)
		return c
	}
	for _, c := range []struct {
		name string
		api  *api.API
		body string
		cfg  fakeserver.Config
	}{
		{"stream", api.Chat, `{"messages":[{"role":"user","content":"Hello"}],"max_tokens":5,"stream":true,"stream_options":{"include_usage":true}}`,
			with(func(c *fakeserver.Config) { c.PromptTokensDetails, c.CachedTokens = true, 3 })},
		{"one-event", api.Completions, `{"prompt":"Hello","max_tokens":1,"stream":true}`, times},
		{"plain", api.Completions, `{"prompt":"Hello","max_tokens":5}`, times},
		{"no-usage", api.Completions, `{"prompt":"Hello","max_tokens":5}`,
			with(func(c *fakeserver.Config) { c.Usage = fakeserver.UsageOff })},
		{"vectors", api.Embeddings, `{"input":["a","b"],"encoding_format":"bytes"}`,
			with(func(c *fakeserver.Config) { c.PieceDelay = 50 * time.Millisecond })},
		{"vectors-unknown", api.Pooling, `{"input":["a"],"encoding_format":"bytes_only"}`, times},
		{"rerank", api.Rerank, `{"query":"a","documents":["b","c"]}`, times},
		{"status", api.Chat, `{"model":"nope","messages":[{"role":"user","content":"Hello"}]}`, times},
		{"truncated", api.Completions, `{"prompt":"Hello","max_tokens":5,"stream":true}`,
			with(func(c *fakeserver.Config) {
				c.Edit = func(_ fakeserver.Request, p *fakeserver.Plan) {
					p.Events, p.End = p.Events[:3], fakeserver.EndCut
				}
			})},
	} {
		t.Run(c.name, func(t *testing.T) {
			var ex *client.Exchange
			virtual.Run(t, c.cfg, func(t *testing.T, cl *client.Client) {
				cl.CountTokens = nil // as in the command
				ex = cl.Do(t.Context(), api.NewRequest(c.api, []byte(c.body)))
			})
			requireTimeline(t, ex)
		})
	}
}

// What the fake does not say.
func TestTimelineOfOddities(t *testing.T) {
	at := func(ms int) client.Dur { return api.Some(time.Duration(ms) * time.Millisecond) }
	for _, c := range []struct {
		name string
		ex   client.Exchange
	}{
		{"reasoning", client.Exchange{
			API: "openai-chat", Stream: true, OK: true, Status: 200, Headers: at(1), TTFT: at(10), FirstAnswer: at(30), E2E: at(40),
			BodyComplete: at(41), ITL: []time.Duration{20e6, 0, 10e6}, Events: api.Some(4), MergedReads: 1, ConnReused: true, Attempts: 2,
			OutputTokens: api.Some[int64](9), OutputSource: client.FromClient, ReasoningTokens: api.Some[int64](4),
			InputTokens: api.Some[int64](100), InputSource: client.FromServer,
			ImageTokens: api.Some[int64](60), AudioTokens: api.Some[int64](0),
			FinishReason: "tool_calls", Reasoning: "because " + strings.Repeat("é", 200), Text: "let me see\n",
			ToolCalls: []api.ToolCall{{ID: "1", Name: "lookup", Arguments: `{"q":"x"}`}, {Name: "a\x1bb"}},
			Warnings:  []string{"odd\nthings"},
		}},
		{"only-reasoning", client.Exchange{
			API: "openai-chat", Stream: true, OK: true, Status: 200, Headers: at(1), TTFT: at(10), E2E: at(10), BodyComplete: at(11),
			Events: api.Some(1), Attempts: 1, FinishReason: "length", Reasoning: "hm",
		}},
		{"no-output", client.Exchange{
			API: "openai", Stream: true, OK: true, Status: 200, Connect: at(1), Headers: at(2), BodyComplete: at(3), Events: api.Some(0),
			BodyBytes: api.Some[int64](99), OutputTokens: api.Some[int64](1), OutputSource: client.FromServer, FinishReason: "stop", Attempts: 1,
		}},
		{"connect", client.Exchange{
			API: "openai", Stream: true, Error: &api.Failure{Class: api.Connect, Message: "connection refused"}, Attempts: 2,
		}},
		{"in-band", client.Exchange{
			API: "openai", Stream: true, Status: 200, Error: &api.Failure{Class: api.ServerError, Status: 500, Message: "out of memory\x1b"},
			Events: api.Some(2), BodyBytes: api.Some[int64](300), Text: "so far", Attempts: 1,
		}},
	} {
		t.Run(c.name, func(t *testing.T) { requireTimeline(t, &c.ex) })
	}
}
