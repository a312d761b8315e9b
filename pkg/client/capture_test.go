package client_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/tokpace/pkg/api"
	"example.com/tokpace/pkg/client"
	"example.com/tokpace/pkg/virtual"
)

const captures = "../../testdata/captures/ollama-0.24.0/"

// A capture is one recorded answer.
type capture struct {
	Path  string
	Reads [][2]int64
	wire  []byte
	body  []byte // of the request
}

func loadCapture(t *testing.T, name string) capture {
	t.Helper()
	var c capture
	times, err := os.ReadFile(captures + name + ".times.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(times, &c))
	c.wire, err = os.ReadFile(captures + name + ".wire")
	require.NoError(t, err)
	c.body, err = os.ReadFile(captures + name + ".req.json")
	if os.IsNotExist(err) {
		c.body = []byte(`{"stream":` + strconv.FormatBool(strings.Contains(name, "stream")) + `}`)
	} else {
		require.NoError(t, err)
	}
	return c
}

// script replays the capture: each recorded read is one write.
func (c capture) script() script {
	var s script
	rest := c.wire
	for _, r := range c.Reads {
		s.steps = append(s.steps, step{time.Duration(r[0]), string(rest[:r[1]])})
		rest = rest[r[1]:]
	}
	return s
}

// outputs finds by itself, slowly, when each event with text was there: for
// every recorded read, the events that are whole in all that had come by then.
func (c capture) outputs(t *testing.T) (at []time.Duration, text string) {
	t.Helper()
	seen, n := 0, int64(0)
	for _, r := range c.Reads {
		n += r[1]
		events := strings.SplitAfter(dechunk(c.wire[:n]), "\n\n")
		for ; seen < len(events)-1; seen++ {
			data, ok := strings.CutPrefix(strings.TrimSpace(events[seen]), "data: ")
			if !ok || data == "[DONE]" {
				continue
			}
			var ev struct {
				Choices []struct {
					Text  string
					Delta struct{ Content string }
				}
			}
			require.NoError(t, json.Unmarshal([]byte(data), &ev))
			for _, ch := range ev.Choices {
				if s := ch.Text + ch.Delta.Content; s != "" {
					at = append(at, time.Duration(r[0]))
					text += s
				}
			}
		}
	}
	return at, text
}

// dechunk takes the whole HTTP chunks out of the start of an answer.
func dechunk(wire []byte) string {
	_, body, _ := bytes.Cut(wire, []byte("\r\n\r\n"))
	var out strings.Builder
	for {
		line, rest, ok := bytes.Cut(body, []byte("\r\n"))
		size, err := strconv.ParseInt(string(line), 16, 32)
		if !ok || err != nil || int(size)+2 > len(rest) || size == 0 {
			return out.String()
		}
		out.Write(rest[:size])
		body = rest[size+2:]
	}
}

// Real answers of a real engine, with their times, through the client. What
// differs from vLLM's stream stands in the names of the groups.
func TestCaptures(t *testing.T) {
	noLeaks(t)
	type expect struct {
		name    string
		in, out int64 // -1: unknown
		events  int   // -1: no stream
		finish  string
		class   api.Class
		status  int
	}
	groups := map[string][]expect{
		"no role chunk, role in every delta, finish in an event of its own": {
			{"chat-stream", -1, -1, 24, "length", "", 0},
			{"chat-stream-usage", 19, 24, 24, "length", "", 0},
			{"chat-stream-mid", 19, 48, 48, "length", "", 0},
		},
		"usage, finish and DONE in one HTTP chunk": {
			{"chat-stream-max1", 19, 1, 1, "length", "", 0},
		},
		"continuous_usage_stats and ignore_eos are ignored": {
			{"chat-stream-continuous-usage-ignored", 12, 8, 8, "length", "", 0},
			{"chat-stream-ignore-eos-ignored", 12, 1, 0, "stop", "", 0},
		},
		"the end token counts, so a natural stop has one event fewer than tokens": {
			{"chat-stream-eos", 19, 64, 63, "stop", "", 0},
			{"chat-stream-empty", 12, 1, 0, "stop", "", 0},
		},
		"swallowed stop word counts": {
			{"chat-stream-stopword", 19, 12, 11, "stop", "", 0},
		},
		"usage of zeros in every completion event, the true one last": {
			{"completions-stream-usage", 9, 16, 16, "length", "", 0},
			{"completions-stream", -1, -1, 16, "length", "", 0},
		},
		"engine dies: clean end without finish reason": {
			{"cut-chat-runner-killed", 0, 0, 8, "", api.Truncated, 0},
			{"cut-completions-runner-killed", 0, 0, 8, "", api.Truncated, 0},
		},
		"prompt over the context is cut silently": {
			{"overflow-chat-stream", 2048, 8, 8, "length", "", 0},
			{"overflow-completions-stream", 2048, 8, 8, "length", "", 0},
			{"overflow-embeddings", 512, -1, -1, "", "", 0},
		},
		"plain answers": {
			{"chat-plain", 19, 24, -1, "length", "", 0},
			{"chat-plain-max-completion-tokens-ignored", 12, 117, -1, "stop", "", 0},
			{"chat-plain-n2-ignored", 12, 5, -1, "length", "", 0},
			{"completions-plain", 9, 16, -1, "length", "", 0},
		},
		"queueing, cold load and logprobs change nothing": {
			{"chat-stream-mid-queued", 19, 24, 24, "length", "", 0},
			{"chat-stream-coldload", 12, 6, 6, "length", "", 0},
			{"chat-stream-logprobs", 19, 8, 8, "length", "", 0},
		},
		"error bodies with code null": {
			{"err-bad-json", 0, 0, -1, "", api.HTTPStatus, 400},
			{"err-unknown-model", 0, 0, -1, "", api.HTTPStatus, 404},
			{"err-queue-full", 0, 0, -1, "", api.HTTPStatus, 503},
			{"err-no-messages", 0, 0, -1, "", api.HTTPStatus, 400},
			{"err-wrong-type", 0, 0, -1, "", api.HTTPStatus, 400},
			{"err-bad-max-tokens", 0, 0, -1, "", api.HTTPStatus, 400},
			{"err-completions-batch", 0, 0, -1, "", api.HTTPStatus, 400},
			{"err-completions-token-ids", 0, 0, -1, "", api.HTTPStatus, 400},
			{"err-chat-on-embedding-model", 0, 0, -1, "", api.HTTPStatus, 400},
			{"err-embeddings-format", 0, 0, -1, "", api.HTTPStatus, 400},
			{"err-embeddings-empty", 0, 0, -1, "", api.HTTPStatus, 400},
		},
		"embeddings": {
			{"embeddings-float", 7, -1, -1, "", "", 0},
			{"embeddings-base64", 7, -1, -1, "", "", 0},
			{"embeddings-batch3", 14, -1, -1, "", "", 0},
			{"embeddings-dimensions16", 7, -1, -1, "", "", 0},
			{"embeddings-llama", 6, -1, -1, "", "", 0},
		},
	}
	tested := map[string]bool{}
	for group, list := range groups {
		for _, e := range list {
			tested[e.name] = true
			t.Run(group+"/"+e.name, func(t *testing.T) {
				c := loadCapture(t, e.name)
				paths := map[string]*api.API{api.Chat.Path: api.Chat, api.Completions.Path: api.Completions, api.Embeddings.Path: api.Embeddings}
				req := api.NewRequest(paths[c.Path], c.body)
				s := &scriptServer{scripts: []script{c.script()}}
				virtual.Serve(t, s.serve, func(t *testing.T, cl *client.Client) {
					cl.CountTokens = nil
					ex := cl.Do(t.Context(), req)
					if e.class != "" {
						require.False(t, ex.OK)
						require.Equal(t, e.class, ex.Error.Class, "%v", ex.Error)
						require.Equal(t, e.status, ex.Error.Status)
						if e.events >= 0 {
							require.Equal(t, e.events, ex.Events.V)
						}
						return
					}
					require.True(t, ex.OK, "%v", ex.Error)
					known := func(n int64) api.Opt[int64] { return api.Opt[int64]{V: max(n, 0), Known: n >= 0} }
					require.Equal(t, known(e.in), ex.InputTokens, "input")
					require.Equal(t, known(e.out), ex.OutputTokens, "output")
					require.Equal(t, e.finish, ex.FinishReason)
					end := time.Duration(c.Reads[len(c.Reads)-1][0])
					require.Equal(t, end, ex.BodyComplete.V)
					if e.events < 0 {
						require.False(t, ex.Events.Known && ex.TTFT.Known)
						require.Equal(t, end, ex.E2E.V)
						return
					}
					at, text := c.outputs(t)
					require.Equal(t, e.events, ex.Events.V)
					require.Len(t, at, e.events)
					require.Equal(t, text, ex.Text)
					if e.events == 0 {
						require.False(t, ex.TTFT.Known || ex.E2E.Known || ex.TPOT.Known)
						return
					}
					require.Equal(t, at[0], ex.TTFT.V)
					require.Equal(t, at[len(at)-1], ex.E2E.V)
					for i, gap := range ex.ITL {
						require.Equal(t, at[i+1]-at[i], gap)
					}
				})
			})
		}
	}
	files, err := filepath.Glob(captures + "*.wire")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, f := range files {
		require.True(t, tested[strings.TrimSuffix(filepath.Base(f), ".wire")], "%s is not replayed", f)
	}
}
