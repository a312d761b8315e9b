package fakeserver

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	"image/jpeg"
	"strings"
	"testing"

	"example.com/tokpace/pkg/tokens"
	"github.com/stretchr/testify/require"
)

// answer plans a request that must succeed and decodes its JSON.
func answer(t *testing.T, s *Server, path, body string) map[string]any {
	t.Helper()
	p := planOf(s, path, body)
	require.Equal(t, 200, p.Status, "%s", bodyOf(t, p))
	return obj(t, bodyOf(t, p))
}

func TestPromptTokens(t *testing.T) {
	noLeaks(t)
	s := newServer(t, Config{MaxModelLen: 4096})
	image := func(url string) string { return `{"type":"image_url","image_url":{"url":"` + url + `"}}` }
	text512 := words(512)
	for _, tc := range []struct {
		name, path, body string
		want             int
	}{
		{"chat", chat, userMessage(text512, ""), 512 + 19},
		{"own system message", chat, `{"messages":[{"role":"system","content":" able acid"},{"role":"user","content":" able"}]}`, 5 + 2 + 5 + 1 + 3},
		{"empty content", chat, `{"messages":[{"role":"user","content":""},{"role":"assistant","content":null}]}`, 11 + 5 + 5 + 3},
		{"text and image", chat, `{"messages":[{"role":"user","content":[{"type":"text","text":"` + text512 + `"},` + image(pngURL(t, 1024, 800)) + `]}]}`, 1606},
		{"two images", chat, `{"messages":[{"role":"user","content":[` + image(pngURL(t, 336, 336)) + `,` + image(pngURL(t, 512, 512)) + `]}]}`, 19 + 144 + 2 + 324 + 2},
		{"completion", "/v1/completions", `{"prompt":"` + text512 + `"}`, 512},
		{"completion of ids", "/v1/completions", `{"prompt":[1,2,3]}`, 3},
		{"completion batch", "/v1/completions", `{"prompt":[" able"," able acid"]}`, 3},
		{"completion batch of ids", "/v1/completions", `{"prompt":[[1],[2,3,4]]}`, 4},
		{"truncated", "/v1/completions", `{"prompt":"` + text512 + `","truncate_prompt_tokens":100}`, 100},
		{"embeddings", "/v1/embeddings", `{"input":" able acid"}`, 2},
		{"embeddings batch", "/v1/embeddings", `{"input":[" able"," able acid"],"truncate_prompt_tokens":1}`, 2},
		{"embeddings of ids", "/v1/embeddings", `{"input":[5,6,7]}`, 3},
		{"embeddings of messages", "/v1/embeddings", userMessage(" able", ""), 1 + 16},
		{"pooling over the context", "/pooling", `{"input":"` + words(5000) + `","truncate_prompt_tokens":-1}`, 4096},
		{"rerank", "/v1/rerank", `{"query":" able acid","documents":[" able","` + words(3) + `"]}`, 2 + 1 + 2 + 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			require.EqualValues(t, tc.want, dig(answer(t, s, tc.path, tc.body), "usage", "prompt_tokens"))
			require.Equal(t, tc.want, planOf(s, tc.path, tc.body).InputTokens)
		})
	}
}

// A JPEG whose frame header stands far behind a preview needs more of the data than the first look.
func TestImageHeaderFarBehind(t *testing.T) {
	noLeaks(t)
	var b bytes.Buffer
	require.NoError(t, jpeg.Encode(&b, image.NewGray(image.Rect(0, 0, 336, 336)), nil))
	app := append([]byte{0xff, 0xe1, 0xea, 0x60}, make([]byte, 60000-2)...) // an APP1 segment of 60,000 bytes
	data := append(append([]byte{0xff, 0xd8}, app...), b.Bytes()[2:]...)
	w, h, err := imageURLSize("data:image/jpeg;base64," + base64.StdEncoding.EncodeToString(data))
	require.NoError(t, err)
	require.Equal(t, [2]int{336, 336}, [2]int{w, h})
}

func TestOutputLength(t *testing.T) {
	noLeaks(t)
	for _, tc := range []struct {
		natural int
		more    string
		n       int
		finish  string
	}{
		{0, ``, 16, "stop"},
		{0, `,"max_tokens":3`, 3, "length"},
		{0, `,"max_completion_tokens":4,"max_tokens":3`, 4, "length"},
		{0, `,"min_tokens":20`, 20, "stop"},
		{0, `,"ignore_eos":true`, 16, "length"},
		{5, ``, 5, "stop"},
		{5, `,"max_tokens":9`, 5, "stop"},
		{5, `,"max_tokens":5`, 5, "length"},
		{5, `,"max_tokens":3`, 3, "length"},
		{5, `,"max_tokens":9,"ignore_eos":true`, 9, "length"},
		{5, `,"max_tokens":9,"min_tokens":7`, 7, "stop"},
		{5, `,"max_tokens":7,"min_tokens":7`, 7, "length"},
		{900, ``, 100 - 20, "length"}, // the context is full
	} {
		s := newServer(t, Config{OutputTokens: tc.natural, MaxModelLen: 100})
		a := answer(t, s, chat, userMessage(" able", tc.more))
		text := dig(a, "choices", 0, "message", "content").(string)
		require.Equal(t, tc.n, tokens.Count(text), "%d%s", tc.natural, tc.more)
		require.EqualValues(t, tc.n, dig(a, "usage", "completion_tokens"))
		require.Equal(t, tc.finish, dig(a, "choices", 0, "finish_reason"), "%d%s", tc.natural, tc.more)
	}
}

// A stream says what the plan says it says, choice by choice, and its usage adds up.
func TestStreamContent(t *testing.T) {
	noLeaks(t)
	s := newServer(t, Config{})
	body := `{"prompt":[" able"," able acid"],"n":2,"max_tokens":3,"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}}`
	events := chunks(t, bodyOf(t, planOf(s, "/v1/completions", body)))
	said := map[float64]string{}
	count := map[float64]float64{}
	finished := map[float64]any{}
	for _, e := range events[:len(events)-1] {
		index := dig(e, "choices", 0, "index").(float64)
		said[index] += dig(e, "choices", 0, "text").(string)
		count[index]++
		require.Equal(t, count[index], dig(e, "usage", "completion_tokens"), "running usage of a choice")
		require.Equal(t, float64(1+int(index)/2), dig(e, "usage", "prompt_tokens"), "of its prompt")
		if f := dig(e, "choices", 0, "finish_reason"); f != nil {
			finished[index] = f
		}
	}
	require.Len(t, said, 4)
	distinct := map[string]bool{}
	for index, text := range said {
		require.Equal(t, 3, tokens.Count(text))
		require.Equal(t, "length", finished[index])
		distinct[text] = true
	}
	require.Len(t, distinct, 4)
	last := events[len(events)-1]
	require.Empty(t, last["choices"])
	require.Equal(t, map[string]any{"prompt_tokens": 3.0, "completion_tokens": 12.0, "total_tokens": 15.0}, last["usage"])
}

func TestUsageModes(t *testing.T) {
	noLeaks(t)
	const ask = `,"max_tokens":2,"stream":true,"stream_options":{"include_usage":true}`
	want := map[string]any{"prompt_tokens": 20.0, "completion_tokens": 2.0, "total_tokens": 22.0}
	for _, tc := range []struct {
		mode  UsageMode
		more  string
		where func(events []map[string]any) int // index of the one event with usage; -1 = none
	}{
		{UsageOwnChunk, ask, func(e []map[string]any) int { return len(e) - 1 }},
		{UsageOwnChunk, `,"max_tokens":2,"stream":true`, func([]map[string]any) int { return -1 }},
		{UsageOwnChunk, `,"max_tokens":2,"stream":true,"stream_options":{"continuous_usage_stats":true}`, func([]map[string]any) int { return -1 }},
		{UsageWithChoices, ask, func(e []map[string]any) int { return 2 }},
		{UsageWithChoices, `,"max_tokens":2,"stream":true`, func([]map[string]any) int { return -1 }},
		{UsageOff, ask, func([]map[string]any) int { return -1 }},
	} {
		s := newServer(t, Config{Usage: tc.mode})
		events := chunks(t, bodyOf(t, planOf(s, chat, userMessage(" able", tc.more))))
		at := tc.where(events)
		for i, e := range events {
			if i == at {
				require.Equal(t, want, e["usage"], "%v%s", tc.mode, tc.more)
			} else {
				require.NotContains(t, e, "usage", "%v%s", tc.mode, tc.more)
			}
		}
		if tc.mode == UsageOwnChunk && at >= 0 {
			require.Empty(t, events[at]["choices"])
		} else if at >= 0 {
			require.NotEmpty(t, events[at]["choices"])
		}
	}
	for _, mode := range []UsageMode{UsageOwnChunk, UsageWithChoices, UsageOff} {
		s := newServer(t, Config{Usage: mode})
		for path, body := range map[string]string{
			chat: userMessage("a", ""), "/v1/completions": `{"prompt":"a"}`, "/v1/embeddings": `{"input":"a"}`,
			"/pooling": `{"input":"a"}`, "/v1/rerank": `{"query":"a","documents":["b"]}`,
		} {
			_, has := answer(t, s, path, body)["usage"]
			require.Equal(t, mode != UsageOff, has, "%v %s", mode, path)
		}
		p := planOf(s, "/pooling", `{"input":"a","encoding_format":"bytes"}`)
		require.Equal(t, mode != UsageOff, strings.Contains(p.Header.Get("metadata"), "usage"))
	}
	require.Equal(t, "UsageMode(9)", UsageMode(9).String())
}

func TestRerank(t *testing.T) {
	noLeaks(t)
	s := newServer(t, Config{Seed: 3})
	docs, err := json.Marshal(strings.Split("abcdefghijklmnopqrstuvwxyz", ""))
	require.NoError(t, err)
	for _, top := range []int{0, -1, 5, 99} {
		a := answer(t, s, "/v2/rerank", fmt.Sprintf(`{"query":"q","documents":%s,"top_n":%d}`, docs, top))
		results := a["results"].([]any)
		want := 26
		if top == 5 {
			want = 5
		}
		require.Len(t, results, want)
		seen := map[float64]bool{}
		for i, r := range results {
			index := dig(r, "index").(float64)
			require.False(t, seen[index])
			seen[index] = true
			require.Equal(t, string(rune('a'+int(index))), dig(r, "document", "text"))
			score := dig(r, "relevance_score").(float64)
			require.True(t, score >= 0 && score < 1)
			if i > 0 {
				require.LessOrEqual(t, score, dig(results[i-1], "relevance_score"))
			}
		}
	}
}

// The ids of a chat are as many as the prompt tokens of the same chat, and can be turned back.
func TestTokenizeChat(t *testing.T) {
	noLeaks(t)
	s := newServer(t, Config{})
	for _, messages := range []string{
		`[{"role":"user","content":" able acid"}]`,
		`[{"role":"system","content":"Be short."},{"role":"user","content":[{"type":"text","text":"hé"}]},{"role":"tool","content":"x"}]`,
	} {
		body := `{"messages":` + messages + `}`
		ids := answer(t, s, "/tokenize", body)
		require.Equal(t, dig(answer(t, s, chat, body), "usage", "prompt_tokens"), ids["count"])
		require.Len(t, ids["tokens"], int(ids["count"].(float64)))

		list, err := json.Marshal(ids["tokens"])
		require.NoError(t, err)
		text := answer(t, s, "/detokenize", `{"tokens":`+string(list)+`}`)["prompt"].(string)
		require.True(t, strings.HasPrefix(text, "<|im_start|>system\n"), text)
		require.True(t, strings.HasSuffix(text, "<|im_end|>\n<|im_start|>assistant\n"), text)
		require.EqualValues(t, ids["count"], dig(answer(t, s, "/v1/completions", `{"prompt":`+string(list)+`}`), "usage", "prompt_tokens"))
	}
	none := answer(t, s, "/tokenize", userMessage("", `,"add_generation_prompt":false`))
	require.EqualValues(t, 16, none["count"])
	picture := answer(t, s, "/tokenize", `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"`+pngURL(t, 512, 512)+`"}}]}]}`)
	require.EqualValues(t, 19+3, picture["count"], "one placeholder between its markers")

	plain := answer(t, s, "/tokenize", `{"prompt":" able b","return_token_strs":true}`)
	require.EqualValues(t, tokens.Count(" able b"), plain["count"])
	require.Equal(t, " able", dig(plain, "token_strs", 0))
}
