package api_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/tokpace/pkg/api"
)

// The bodies are what goes over the wire: any change of theirs is a change of
// what is measured.
func TestBodies(t *testing.T) {
	user := []api.Message{{Role: "user", Content: "Hi <&>\n\"日\""}}
	image := api.Image{MIME: "image/png", Data: []byte{1, 2, 3}}
	for _, tt := range []struct {
		name  string
		build func() (*api.Request, error)
		want  string
		req   api.Request // without the body
	}{
		{"chat", func() (*api.Request, error) { return api.NewChat("m", user, api.Generation{}) },
			`{"model":"m","messages":[{"role":"user","content":"Hi <&>\n\"日\""}],"stream":false}`,
			api.Request{API: api.Chat}},
		{"chat stream", func() (*api.Request, error) {
			return api.NewChat("m", user, api.Generation{MaxTokens: 9, Stream: true, IgnoreEOS: true, N: 2})
		},
			`{"model":"m","messages":[{"role":"user","content":"Hi <&>\n\"日\""}],"max_completion_tokens":9,"n":2,"stream":true,"stream_options":{"include_usage":true},"ignore_eos":true}`,
			api.Request{API: api.Chat, Stream: true}},
		{"chat with images", func() (*api.Request, error) {
			return api.NewChat("m", []api.Message{{Role: "system", Content: "s"}, {Role: "user", Content: "c", Images: []api.Image{image, image}}}, api.Generation{N: 1})
		},
			`{"model":"m","messages":[{"role":"system","content":"s"},{"role":"user","content":[{"type":"text","text":"c"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AQID"}},{"type":"image_url","image_url":{"url":"data:image/png;base64,AQID"}}]}],"stream":false}`,
			api.Request{API: api.Chat}},
		{"completion", func() (*api.Request, error) {
			return api.NewCompletion("m", "p", api.Generation{MaxTokens: 3, Stream: true})
		},
			`{"model":"m","prompt":"p","max_tokens":3,"stream":true,"stream_options":{"include_usage":true}}`,
			api.Request{API: api.Completions, Stream: true}},
		{"embeddings", func() (*api.Request, error) { return api.NewEmbeddings("m", []string{"a", "b"}, "", "") },
			`{"model":"m","input":["a","b"]}`, api.Request{API: api.Embeddings}},
		{"pooling", func() (*api.Request, error) { return api.NewPooling("m", []string{"a"}, api.Bytes, "float16") },
			`{"model":"m","input":["a"],"encoding_format":"bytes","embed_dtype":"float16"}`,
			api.Request{API: api.Pooling, Encoding: "bytes", DType: "float16"}},
		{"rerank", func() (*api.Request, error) { return api.NewRerank("m", "q", []string{"a", "b"}) },
			`{"model":"m","query":"q","documents":["a","b"]}`, api.Request{API: api.Rerank}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			req, err := tt.build()
			require.NoError(t, err)
			require.Equal(t, tt.want, string(req.Body))
			tt.req.Body = req.Body
			require.Equal(t, tt.req, *req)
			require.Equal(t, tt.req, *api.NewRequest(tt.req.API, req.Body), "read back")
			require.Equal(t, tt.req.API.Path, req.Target())
			req.Endpoint = "/other"
			require.Equal(t, "/other", req.Target())
		})
	}
}

func TestNewRequest(t *testing.T) {
	for body, want := range map[string]api.Request{
		`{"stream":true}`:                                  {Stream: true},
		`{"stream":false,"stream_options":{}}`:             {},
		`{"stream":"yes","encoding_format":7}`:             {},
		`{"stream":null}`:                                  {},
		`{"encoding_format":"base64","embed_dtype":"fp8"}`: {Encoding: "base64", DType: "fp8"},
		`{"stream":true`:                                   {},
		`[{"stream":true}]`:                                {},
		``:                                                 {},
		`{"messages":[{"stream":true}],"input":{"a":"b"}} `: {},
	} {
		want.API, want.Body = api.Chat, []byte(body)
		require.Equal(t, want, *api.NewRequest(api.Chat, []byte(body)), "%s", body)
	}
}

func TestOpt(t *testing.T) {
	type record struct {
		A api.Opt[int64] `json:"a,omitzero"`
		B api.Opt[int]   `json:"b"`
	}
	for _, tt := range []struct {
		in   record
		want string
	}{
		{record{}, `{"b":null}`},
		{record{A: api.Some[int64](0), B: api.Some(-3)}, `{"a":0,"b":-3}`},
	} {
		data, err := json.Marshal(tt.in)
		require.NoError(t, err)
		require.Equal(t, tt.want, string(data))
		back := record{A: api.Some[int64](9), B: api.Some(9)}
		require.NoError(t, json.Unmarshal([]byte(`{"a":null}`), &back))
		require.False(t, back.A.Known)
		require.NoError(t, json.Unmarshal(data, &back))
		require.Equal(t, tt.in, back)
	}
	bad := api.Some[int64](5)
	require.Error(t, json.Unmarshal([]byte(`"x"`), &bad))
	require.Equal(t, api.Opt[int64]{}, bad, "what cannot be read is absent")
}
