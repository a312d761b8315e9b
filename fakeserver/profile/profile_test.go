package profile

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.com/tokpace/fakeserver"
	"example.com/tokpace/pkg/memnet"
	"github.com/stretchr/testify/require"
)

const (
	examples = "../../testdata/profiles"
	ms       = time.Millisecond
)

func load(t *testing.T, name string) fakeserver.Config {
	t.Helper()
	cfg, err := Load(filepath.Join(examples, name))
	require.NoError(t, err)
	return cfg
}

// serve runs f with a server of an example in virtual time.
func serve(t *testing.T, name string, f func(t *testing.T, s *fakeserver.Server, post func(path, body string) (status int, text string, took time.Duration, err error))) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := memnet.Listen()
		s, err := fakeserver.New(load(t, name))
		require.NoError(t, err)
		go s.Serve(l)
		tr := &http.Transport{DialContext: l.DialContext}
		defer func() {
			tr.CloseIdleConnections()
			require.NoError(t, s.Close())
		}()
		f(t, s, func(path, body string) (int, string, time.Duration, error) {
			start := time.Now()
			c := &http.Client{Transport: tr, Timeout: time.Minute}
			res, err := c.Post("http://fake"+path, "application/json", strings.NewReader(body))
			if err != nil {
				return 0, "", time.Since(start), err
			}
			defer res.Body.Close()
			b, err := io.ReadAll(res.Body)
			synctest.Wait()
			return res.StatusCode, string(b), time.Since(start), err
		})
	})
}

const (
	chat   = "/v1/chat/completions"
	stream = `{"messages":[{"role":"user","content":"a"}],"max_tokens":8,"stream":true}`
)

func TestHealthy(t *testing.T) {
	cfg := load(t, "healthy.yaml")
	require.Equal(t, "demo", cfg.Model)
	require.Equal(t, 20*ms, cfg.TTFT)
	require.Equal(t, "qwen3-vl", cfg.Vision.String())
	require.Empty(t, cfg.Rules)
	serve(t, "healthy.yaml", func(t *testing.T, s *fakeserver.Server, post func(string, string) (int, string, time.Duration, error)) {
		status, text, took, err := post(chat, stream)
		require.NoError(t, err)
		require.Equal(t, 200, status)
		require.Equal(t, 34*ms, took)
		require.Contains(t, text, "[DONE]")
	})
}

func TestFlakyGateway(t *testing.T) {
	serve(t, "flaky-gateway.yaml", func(t *testing.T, s *fakeserver.Server, post func(string, string) (int, string, time.Duration, error)) {
		var statuses []int
		for range 10 {
			status, _, _, err := post(chat, stream)
			require.NoError(t, err)
			statuses = append(statuses, status)
		}
		require.Equal(t, []int{503, 503, 200, 200, 200, 200, 200, 200, 200, 429}, statuses)
		records := s.Journal()
		require.Equal(t, []string{"warming up"}, records[0].Rules)
		require.Equal(t, []string{"short keep-alive"}, records[2].Rules)
		require.Equal(t, []string{"limited"}, records[9].Rules)
	})
}

func TestSlowProxy(t *testing.T) {
	serve(t, "slow-proxy.yaml", func(t *testing.T, s *fakeserver.Server, post func(string, string) (int, string, time.Duration, error)) {
		_, text, took, err := post(chat, stream)
		require.NoError(t, err)
		require.Equal(t, (10+50+7*5)*ms, took)
		require.True(t, strings.HasPrefix(text, ": PROCESSING\r\n\r\n"), text)
		require.True(t, strings.HasSuffix(text, "data: [DONE]\r\n\r\n"), text)
		_, text, took, err = post("/v1/embeddings", `{"input":"a"}`)
		require.NoError(t, err)
		require.Equal(t, 50*ms+time.Duration((len(text)-1)/512)*2*ms, took)
	})
}

func TestBrokenStreams(t *testing.T) {
	serve(t, "broken-streams.yaml", func(t *testing.T, s *fakeserver.Server, post func(string, string) (int, string, time.Duration, error)) {
		for range 5 {
			post(chat, stream)
		}
		_, text, _, err := post("/v1/completions", `{"prompt":"a","stream":true}`)
		require.NoError(t, err)
		require.Equal(t, "data: {\"choices\":[{\"index\":0,\"text\":\"日本\"}]}\n\n", text)
		var ends []string
		for _, r := range s.Journal() {
			ends = append(ends, strings.Join(r.Rules, "")+" "+r.End)
		}
		require.Equal(t, []string{" complete", "no end complete", "error in the stream complete", "reset reset", "cut inside a chunk cut", "script complete"}, ends)
	})
}

func TestAllExamplesAreLoaded(t *testing.T) {
	files, err := filepath.Glob(examples + "/*.yaml")
	require.NoError(t, err)
	require.Len(t, files, 4, "a new example needs a test above")
}

func TestParse(t *testing.T) {
	for name, text := range map[string]string{"nothing": "", "a comment": "# nothing\n", "a document of nothing": "---\n# x\n...\n"} {
		cfg, err := Parse([]byte(text))
		require.NoError(t, err, name)
		require.Equal(t, fakeserver.Config{}, cfg, name)
	}
	// JSON is YAML, and all words of the header are those of the file.
	cfg, err := Parse([]byte(`{"seed": 18446744073709551615, "usage": "with-choices", "details": true,
		"rules": [{"match": {"model": "m", "header": "X", "header-value": "y", "probability": 0.25}, "continue": true,
		"fault": {"body": "", "status": 500, "header": {"X-A": "b"}, "gzip": "on", "finish": "off", "cut": 0, "role-at": "5ms"}}]}`))
	require.NoError(t, err)
	want, err := fakeserver.ParseFault(`body=""; status=500; header=X-A:b; gzip=on; finish=off; cut=0; role-at=5ms`)
	require.NoError(t, err)
	require.Equal(t, fakeserver.Config{
		Seed: 1<<64 - 1, Usage: fakeserver.UsageWithChoices, PromptTokensDetails: true,
		Rules: []fakeserver.Rule{{
			Match: fakeserver.Match{Model: "m", Header: "X", HeaderValue: "y", Probability: 0.25}, Continue: true, Fault: want,
		}},
	}, cfg)
}

func TestErrorsTellThePlace(t *testing.T) {
	for _, tc := range []struct{ text, message string }{
		{"ttft: 5ms\nspeed: 1\n", `profile: line 2, column 1: unknown field "speed"`},
		{"rules:\n  - fault:\n      statsu: 500\n", `profile: line 3, column 7: unknown field "statsu"`},
		{"ttft: 5ms\nttft: 6ms\n", `profile: line 2, column 1: mapping key "ttft" already defined at [1:1]`},
		{"ttft: 5\n", "profile: line 1, column 7: "},
		{"ttft: soon\n", `profile: line 1, column 7: time: invalid duration "soon"`},
		{"ttft: -1s\n", "profile: line 1, column 7: ttft: -1s is not between 0 and 1h0m0s"},
		{"\nitl: 2h\n", "profile: line 2, column 6: itl: 2h0m0s is not between 0 and 1h0m0s"},
		{"dim: x\n", "profile: line 1, column 6: "},
		{"dim: 99999999\n", "profile: line 1, column 6: dim: 99999999 is not between 0 and 16777216"},
		{"usage: never\n", `profile: line 1, column 8: usage: "never" is not one of own-chunk, with-choices, off`},
		{"vision: eagle\n", `profile: line 1, column 9: vision: unknown vision family "eagle"`},
		{"rules:\n  - match: {first: 1}\n    fault: {cut: -1}\n", "profile: line 3, column 18: fault: cut: -1 is not between 0 and 1048576"},
		{"rules:\n  - {}\n  - match: {probability: 2}\n", "profile: line 3, column 26: match: probability: 2 is not between 0 and 1"},
		{"rules:\n  - fault: {stall-for: 1s}\n", "profile: line 2, column 24: fault: stall-for needs stall"},
		{"rules:\n  - name: x\n    fault: {cut: 1, cut-byte: 1}\n", "profile: line 3, column 13: fault: cut and cut-byte exclude each other"},
		{"rules:\n  - fault: {vectors: null}\n", "profile: line 2, column 22: a value is missing"},
		{"rules:\n  - fault:\n      stall:\n", "profile: line 3, column 14: a value is missing"},
		{"- 1\n", "profile: line 1, column 1: not a mapping of keys to values"},
		{"ttft: [\n", "profile: line 1, column 7: "},
		{"ttft: 1ms\n---\nttft: 2ms\n", "a second document"},
		{strings.Repeat("[", 70), "profile: nested over 64 deep"},
		{"#" + strings.Repeat("x", maxSize), "profile: over 1048576 bytes"},
	} {
		_, err := Parse([]byte(tc.text))
		require.ErrorContains(t, err, tc.message)
		require.NotContains(t, err.Error(), "\n")
	}
	_, err := Load("nowhere.yaml")
	require.ErrorIs(t, err, os.ErrNotExist)
	file := filepath.Join(t.TempDir(), "bad.yaml")
	require.NoError(t, os.WriteFile(file, []byte("x: 1\n"), 0o600))
	_, err = Load(file)
	require.ErrorContains(t, err, "profile "+file+": line 1, column 1: unknown field")
}

// Whatever the text, there is a configuration that a server takes, or an error of one line.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob(examples + "/*.yaml")
	if err != nil || len(files) == 0 {
		f.Fatal("no examples", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte("a: &a [*a]\nrules: *a\n"))
	f.Add([]byte("rules: [{fault: {header: {? x : y}}}]"))
	f.Add([]byte("<<: {ttft: 1s}\nttft: !!str 2s"))
	f.Fuzz(func(t *testing.T, text []byte) {
		cfg, err := Parse(text)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\r\n") {
				t.Fatalf("more than one line: %q", err)
			}
			return
		}
		s, err := fakeserver.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
