package fakeserver

import (
	"encoding/hex"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite the golden files")

var goldens = []struct {
	name, method, path, fake, body string
}{
	{"chat_plain", "POST", "/v1/chat/completions", "", `{"messages":[{"role":"user","content":" able"}],"max_tokens":3}`},
	{"chat_stream", "POST", "/v1/chat/completions", "", `{"messages":[{"role":"user","content":" able"}],"max_tokens":3,"stream":true,"stream_options":{"include_usage":true}}`},
	{"chat_stream_continuous_n2", "POST", "/v1/chat/completions", "", `{"messages":[{"role":"user","content":" able"}],"max_tokens":2,"n":2,"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}}`},
	{"chat_stream_usage_with_choices", "POST", "/v1/chat/completions", "usage=with-choices; details=true; cached-tokens=3", `{"messages":[{"role":"user","content":" able"}],"max_tokens":2,"stream":true,"stream_options":{"include_usage":true}}`},
	{"chat_plain_usage_off_n2", "POST", "/v1/chat/completions", "usage=off; output-tokens=2", `{"messages":[{"role":"user","content":" able"}],"n":2}`},
	{"completions_plain", "POST", "/v1/completions", "output-tokens=2", `{"prompt":[" able"," acid"],"max_tokens":4}`},
	{"completions_stream", "POST", "/v1/completions", "", `{"prompt":" able","max_tokens":2,"stream":true,"stream_options":{"include_usage":true}}`},
	{"embeddings_float", "POST", "/v1/embeddings", "dim=4", `{"input":[" able"," acid"]}`},
	{"embeddings_base64", "POST", "/v1/embeddings", "dim=4", `{"input":" able","encoding_format":"base64","embed_dtype":"float16","endianness":"big"}`},
	{"embeddings_bytes", "POST", "/v1/embeddings", "dim=4", `{"input":[" able"," acid"],"encoding_format":"bytes"}`},
	{"embeddings_bytes_only_slow", "POST", "/v1/embeddings", "dim=4; headers=2ms; pieces=3; piece-delay=10ms", `{"input":" able","encoding_format":"bytes_only"}`},
	{"pooling_float", "POST", "/pooling", "dim=4", `{"messages":[{"role":"user","content":" able"}]}`},
	{"pooling_bytes_usage_off", "POST", "/pooling", "dim=4; usage=off", `{"input":" able","encoding_format":"bytes","embed_dtype":"bfloat16"}`},
	{"rerank", "POST", "/v1/rerank", "", `{"query":" able","documents":[" acid",{"text":" aged also"}," away"],"top_n":2}`},
	{"tokenize", "POST", "/tokenize", "", `{"prompt":" able x","return_token_strs":true}`},
	{"tokenize_chat", "POST", "/tokenize", "", `{"messages":[{"role":"user","content":" able"}]}`},
	{"detokenize", "POST", "/detokenize", "", `{"tokens":[97,98]}`},
	{"models", "GET", "/v1/models", "", ""},
	{"health", "GET", "/health", "", ""},
	{"version", "GET", "/version", "", ""},
	{"start_profile", "POST", "/start_profile", "", ""},
	{"error_model", "POST", "/v1/completions", "", `{"model":"other","prompt":"x"}`},
	{"error_path", "GET", "/v1/nothing", "", ""},
	{"error_method", "GET", "/v1/completions", "", ""},
	{"error_json", "POST", "/v1/completions", "", `{"prompt":`},
}

var goldenConfig = Config{Seed: 7, TTFT: 20 * ms, ITL: 5 * ms}

// dump writes a plan as text: status, headers in order, then each event under its time.
func dump(t *testing.T, p *Plan) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d, headers at %v, content length %d, input %d, output %d\n", p.Status, p.HeadersAt, p.ContentLength, p.InputTokens, p.OutputTokens)
	names := make([]string, 0, len(p.Header))
	for name := range p.Header {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(&b, "%s: %s\n", name, strings.Join(p.Header[name], ", "))
	}
	for _, e := range p.Events {
		fmt.Fprintf(&b, "@%v\n", e.At)
		if e.Section == nil {
			fmt.Fprintf(&b, "%s\n", strings.TrimSuffix(string(e.Data), "\n\n"))
			continue
		}
		data, err := io.ReadAll(io.NewSectionReader(e.Section, 0, e.Size()))
		require.NoError(t, err)
		b.WriteString(hex.Dump(data))
	}
	return b.String()
}

func TestGoldenPlans(t *testing.T) {
	noLeaks(t)
	s := newServer(t, goldenConfig)
	for _, g := range goldens {
		t.Run(g.name, func(t *testing.T) {
			got := dump(t, s.Plan(Request{Method: g.method, Path: g.path, Fake: g.fake, Body: []byte(g.body)}))
			file := filepath.Join("testdata", g.name+".txt")
			if *update {
				require.NoError(t, os.MkdirAll("testdata", 0o755))
				require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
			}
			want, err := os.ReadFile(file)
			require.NoError(t, err)
			require.Equal(t, string(want), got)
		})
	}
}

// What goes over the wire is the plan: status, headers, bytes and framing.
func TestWireIsThePlan(t *testing.T) {
	noLeaks(t)
	virtual(t, goldenConfig, func(t *testing.T, s *Server, c *http.Client) {
		for _, g := range goldens {
			req, err := http.NewRequest(g.method, s.URL+g.path, strings.NewReader(g.body))
			require.NoError(t, err)
			if g.fake != "" {
				req.Header.Set(PlanHeader, g.fake)
			}
			res, err := c.Do(req)
			require.NoError(t, err)
			body, err := io.ReadAll(res.Body)
			require.NoError(t, err)
			res.Body.Close()

			p := s.Plan(Request{Method: g.method, Path: g.path, Fake: g.fake, Body: []byte(g.body)})
			require.Equal(t, p.Status, res.StatusCode, g.name)
			require.Equal(t, bodyOf(t, p), string(body), g.name)
			require.Equal(t, p.ContentLength, res.ContentLength, g.name)
			for name, values := range p.Header {
				require.Equal(t, values, res.Header[name], g.name)
			}
		}
	})
}
