package fakeserver

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestErrors(t *testing.T) {
	noLeaks(t)
	const completions, embeddings, rerank = "/v1/completions", "/v1/embeddings", "/v1/rerank"
	image := func(url string) string {
		return `{"stream":true,"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"` + url + `"}}]}]}`
	}
	for _, tc := range []struct {
		name, method, path, body string
		status                   int
		kind, message            string
	}{
		{"path", "POST", "/v1/none", "{}", 404, "Not Found", "Not Found"},
		{"method", "GET", chat, "", 405, "Method Not Allowed", "Method Not Allowed"},
		{"method of a list", "POST", "/v1/models", "{}", 405, "Method Not Allowed", "Method Not Allowed"},
		{"model", "POST", chat, userMessage("a", `,"model":"gpt-x","stream":true`), 404, "NotFoundError", "The model `gpt-x` does not exist."},
		{"no body", "POST", chat, "", 400, "Bad Request", "JSON decode error"},
		{"bad JSON", "POST", chat, `{"messages":[`, 400, "Bad Request", "JSON decode error"},
		{"two values", "POST", chat, `{} {}`, 400, "Bad Request", "JSON decode error"},
		{"not an object", "POST", chat, `[1]`, 400, "Bad Request", "JSON decode error"},
		{"type of a number", "POST", chat, userMessage("a", `,"max_tokens":"many"`), 400, "Bad Request", "max_tokens: a string is not allowed here"},
		{"fraction", "POST", chat, userMessage("a", `,"max_tokens":1.5`), 400, "Bad Request", "max_tokens: a number 1.5 is not allowed here"},
		{"type of a flag", "POST", chat, userMessage("a", `,"stream":"yes"`), 400, "Bad Request", "stream: a string is not allowed here"},
		{"no messages", "POST", chat, `{"stream":true}`, 400, "BadRequestError", "messages must hold at least one message"},
		{"empty messages", "POST", chat, `{"messages":[]}`, 400, "BadRequestError", "messages must hold at least one message"},
		{"role", "POST", chat, `{"messages":[{"role":"pope","content":"x"}]}`, 400, "BadRequestError", `messages[0].role: "pope"`},
		{"content", "POST", chat, `{"messages":[{"role":"user","content":{}}]}`, 400, "BadRequestError", "content is a text or a list of parts"},
		{"part", "POST", chat, `{"messages":[{"role":"user","content":[{"type":"video_url"}]}]}`, 400, "BadRequestError", `unknown part type "video_url"`},
		{"type in a part", "POST", chat, `{"messages":[{"role":"user","content":[{"type":"text","text":1}]}]}`, 400, "Bad Request", "text: a number is not allowed here"},
		{"image without URL", "POST", chat, image(""), 400, "BadRequestError", "needs image_url.url"},
		{"image by http", "POST", chat, image("https://host/a.png"), 400, "BadRequestError", "this server fetches nothing"},
		{"image not base64", "POST", chat, image("data:image/png,abc"), 400, "BadRequestError", "must be base64"},
		{"image with broken base64", "POST", chat, image("data:image/png;base64,!!!!"), 400, "BadRequestError", "broken base64"},
		{"broken image", "POST", chat, image("data:image/png;base64,aGVsbG8gd29ybGQ="), 400, "BadRequestError", "cannot read the image"},
		{"cut image", "POST", chat, image(pngURL(t, 64, 64)[:42]), 400, "BadRequestError", "cannot read the image"},
		{"impossible image", "POST", chat, image(pngURL(t, 3000, 2)), 400, "BadRequestError", "200 to 1"},
		{"max_tokens 0", "POST", chat, userMessage("a", `,"max_tokens":0`), 400, "BadRequestError", "max_tokens must be at least 1, got 0."},
		{"negative max_tokens", "POST", completions, `{"prompt":"a","max_tokens":-1,"stream":true}`, 400, "BadRequestError", "max_tokens must be at least 1, got -1."},
		{"max_tokens over the context", "POST", completions, `{"prompt":" able","max_tokens":100}`, 400, "BadRequestError", "is too large: 100"},
		{"prompt over the context", "POST", completions, `{"stream":true,"prompt":"` + words(100) + `"}`, 400, "BadRequestError", "This model's maximum context length is 100 tokens. However, your request has 100 input tokens."},
		{"chat over the context", "POST", chat, userMessage(words(90), ""), 400, "BadRequestError", "has 109 input tokens"},
		{"min_tokens", "POST", completions, `{"prompt":"a","min_tokens":-1}`, 400, "BadRequestError", "min_tokens must be greater"},
		{"min over max", "POST", completions, `{"prompt":"a","min_tokens":5,"max_tokens":4}`, 400, "BadRequestError", "min_tokens must be less"},
		{"n", "POST", completions, `{"prompt":"a","n":0}`, 400, "BadRequestError", "n must be at least 1"},
		{"too much output", "POST", completions, `{"prompt":["a","b"],"n":1000,"max_tokens":9}`, 400, "BadRequestError", "at most 1048576 tokens"},
		{"stream options", "POST", completions, `{"prompt":"a","stream_options":{"include_usage":true}}`, 400, "BadRequestError", "Stream options can only be defined"},
		{"truncation", "POST", completions, `{"prompt":"a","truncate_prompt_tokens":-2}`, 400, "BadRequestError", "truncate_prompt_tokens must be between -1 and 100"},
		{"no prompt", "POST", completions, `{}`, 400, "BadRequestError", "prompt is missing"},
		{"empty prompt", "POST", completions, `{"prompt":""}`, 400, "BadRequestError", "The prompt cannot be empty"},
		{"empty list", "POST", completions, `{"prompt":[]}`, 400, "BadRequestError", "the list of prompts is empty"},
		{"prompt of a wrong type", "POST", completions, `{"prompt":{"a":1}}`, 400, "BadRequestError", "a prompt is a text"},
		{"mixed prompt", "POST", completions, `{"prompt":[1,"a"]}`, 400, "BadRequestError", "a prompt is a text"},
		{"token id", "POST", completions, `{"prompt":[1,99999999]}`, 400, "BadRequestError", "Token id 99999999 is out of vocabulary"},
		{"no input", "POST", embeddings, `{}`, 400, "BadRequestError", "input is missing"},
		{"input and messages", "POST", embeddings, userMessage("a", `,"input":"a"`), 400, "BadRequestError", "exclude each other"},
		{"input over the context", "POST", embeddings, `{"input":"` + words(101) + `"}`, 400, "BadRequestError", "has 101 input tokens"},
		{"encoding_format", "POST", embeddings, `{"input":"a","encoding_format":"hex"}`, 400, "Bad Request", `got "hex"`},
		{"embed_dtype", "POST", embeddings, `{"input":"a","embed_dtype":"int8"}`, 400, "BadRequestError", `"int8" is not one of`},
		{"endianness", "POST", embeddings, `{"input":"a","endianness":"middle"}`, 400, "BadRequestError", `"middle" is not one of`},
		{"dimensions", "POST", embeddings, `{"input":"a","dimensions":65}`, 400, "BadRequestError", "between 1 and 64"},
		{"dimensions of pooling", "POST", "/pooling", `{"input":"a","dimensions":8}`, 400, "BadRequestError", "currently not supported"},
		{"no query", "POST", rerank, `{"documents":["a"]}`, 400, "BadRequestError", "query is missing"},
		{"no documents", "POST", rerank, `{"query":"a","documents":[]}`, 400, "BadRequestError", "at least one document"},
		{"document", "POST", rerank, `{"query":"a","documents":[{"image":1}]}`, 400, "BadRequestError", "a document is a text"},
		{"nothing to detokenize", "POST", "/detokenize", `{}`, 400, "BadRequestError", "tokens is missing"},
		{"nothing to tokenize", "POST", "/tokenize", `{}`, 400, "BadRequestError", "messages must hold"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newServer(t, Config{MaxModelLen: 100, TTFT: time.Second})
			p := s.Plan(Request{Method: tc.method, Path: tc.path, Body: []byte(tc.body)})
			require.Equal(t, tc.status, p.Status, "%s", bodyOf(t, p))
			require.Equal(t, "application/json", p.Header.Get("Content-Type"))
			require.Len(t, p.Events, 1)
			require.Zero(t, p.Events[0].At)
			e := obj(t, bodyOf(t, p))
			require.Len(t, e, 1)
			require.Contains(t, dig(e, "error", "message"), tc.message)
			require.Equal(t, tc.kind, dig(e, "error", "type"))
			require.EqualValues(t, tc.status, dig(e, "error", "code"))
			require.Contains(t, e["error"], "param")
			if tc.status == 405 {
				require.NotEmpty(t, p.Header.Get("Allow"))
			}
		})
	}
}

func TestJSONAnswerTooLarge(t *testing.T) {
	noLeaks(t)
	s := newServer(t, Config{Dim: maxDim})
	body := `{"input":["a","b"],"encoding_format":"base64"}`
	require.Equal(t, 200, planOf(s, "/pooling", strings.Replace(body, "base64", "bytes", 1)).Status)
	s = newServer(t, Config{Dim: maxDim})
	p := planOf(s, "/pooling", strings.Replace(body, `"b"`, `"b","c","d"`, 1))
	require.Equal(t, 400, p.Status)
	require.Contains(t, bodyOf(t, p), "ask for bytes")
}

func TestRequestTooLarge(t *testing.T) {
	noLeaks(t)
	virtual(t, Config{}, func(t *testing.T, s *Server, c *http.Client) {
		res, err := c.Post(s.URL+chat, "application/json", bytes.NewReader(make([]byte, maxBody+1)))
		require.NoError(t, err)
		res.Body.Close()
		require.Equal(t, http.StatusRequestEntityTooLarge, res.StatusCode)
		synctest.Wait()
		require.Equal(t, 413, s.Journal()[0].Status)
	})
}

func TestConfigErrorsNameTheField(t *testing.T) {
	noLeaks(t)
	for name, cfg := range map[string]Config{
		"Headers": {Headers: -1}, "TTFT": {TTFT: 2 * time.Hour}, "ITL": {ITL: -time.Second}, "PieceDelay": {PieceDelay: -1},
		"Pieces": {Pieces: -1}, "MaxModelLen": {MaxModelLen: -1}, "Dim": {Dim: 1<<24 + 1}, "OutputTokens": {OutputTokens: -5},
		"CachedTokens": {CachedTokens: -1}, "Usage": {Usage: 7},
	} {
		_, err := New(cfg)
		require.ErrorContains(t, err, "fakeserver: Config."+name+": ")
	}
	bad := Config{}
	bad.Vision.Family = "eagle"
	_, err := New(bad)
	require.ErrorContains(t, err, "fakeserver: Config.Vision: ")
}

// Errors name the request's own fields, not this package's types.
func TestErrorsNameFields(t *testing.T) {
	noLeaks(t)
	for body, want := range map[string]string{
		`{"max_tokens":"many"}`: `"param":"max_tokens"`,
		`{"n":1.5}`:             `"param":"n"`,
		`{"stream":"yes"}`:      `"param":"stream"`,
		`[]`:                    `the body must be an object, not array`,
		`7`:                     `the body must be an object, not number`,
	} {
		s, err := New(Config{})
		require.NoError(t, err)
		p := s.Plan(Request{Method: http.MethodPost, Path: "/v1/completions", Body: []byte(body)})
		require.Equal(t, http.StatusBadRequest, p.Status, body)
		text := string(p.Events[0].Data)
		require.NotContains(t, text, "generateRequest")
		require.NotContains(t, text, "Go value")
		require.NotContains(t, text, "fakeserver.")
		require.Contains(t, text, want)
	}
}
