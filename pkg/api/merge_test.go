package api

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func members(t *testing.T, object string) []Member {
	t.Helper()
	m, err := ParseMembers([]byte(object))
	require.NoError(t, err)
	return m
}

func TestMerge(t *testing.T) {
	for _, tt := range []struct{ body, more, want string }{
		{`{"model":"m","stream":true}`, `{}`, `{"model":"m","stream":true}`},
		{`{"model":"m","stream":true}`, `{"temperature":0,"top_k":20}`, `{"model":"m","stream":true,"temperature":0,"top_k":20}`},
		{`{"model":"m","stream":true}`, `{"model":"a/b"}`, `{"model":"a/b","stream":true}`},
		{`{}`, `{"a":1}`, `{"a":1}`},
		{` { "a" : [1, 2] } `, `{"b" : {"c":"<&>"}}`, `{"a":[1, 2],"b":{"c":"<&>"}}`},
		{`{"a":"one"}`, `{"a":null}`, `{"a":null}`},
		{`{"é":1}`, `{"\u00e9":2,"<":3}`, `{"é":2,"<":3}`},
	} {
		req := NewRequest(Chat, []byte(tt.body))
		require.NoError(t, req.Merge(members(t, tt.more)))
		require.Equal(t, tt.want, string(req.Body))
		require.True(t, json.Valid(req.Body))
	}
}

// What decides how an answer is read follows what was really asked for.
func TestMergeChangesWhatIsAskedFor(t *testing.T) {
	req, err := NewChat("m", []Message{{Role: "user", Content: "x"}}, Generation{MaxTokens: 3, Stream: true})
	require.NoError(t, err)
	require.NoError(t, req.Merge(members(t, `{"stream":false,"stream_options":null}`)))
	require.False(t, req.Stream)
	require.Contains(t, string(req.Body), `"stream":false,"stream_options":null`)

	req, err = NewPooling("m", []string{"x"}, "", "")
	require.NoError(t, err)
	require.NoError(t, req.Merge(members(t, `{"encoding_format":"bytes_only","embed_dtype":"float16"}`)))
	require.Equal(t, BytesOnly, req.Encoding)
	require.Equal(t, "float16", req.DType)
}

func TestParseMembersMistakes(t *testing.T) {
	for object, words := range map[string]string{
		``: "want a JSON object", `null`: "want a JSON object", `[1]`: "want a JSON object", `7`: "want a JSON object",
		`{"a":1,"a":2}`: `"a" is there twice`, `{"a":1`: "", `{"a":}`: "", `{a:1}`: "", `{"a":1} x`: "something follows", `{"a":1}{}`: "something follows",
	} {
		_, err := ParseMembers([]byte(object))
		require.ErrorContains(t, err, words, object)
	}
	req := NewRequest(Chat, []byte(`[1]`))
	require.ErrorContains(t, req.Merge([]Member{{"a", json.RawMessage("1")}}), "request body: want a JSON object")
	require.Equal(t, `[1]`, string(req.Body))
}
