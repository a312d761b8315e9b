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
	req := NewRequest(Chat, []byte(`{"a":1}`))
	require.NoError(t, req.Merge([]Member{{"b", json.RawMessage("1")}, {"a", json.RawMessage("2")}, {"b", json.RawMessage("3")}}))
	require.Equal(t, `{"a":2,"b":3}`, string(req.Body), "the last of a name wins")
	req = NewRequest(Chat, []byte(`[1]`))
	require.ErrorContains(t, req.Merge([]Member{{"a", json.RawMessage("1")}}), "request body: want a JSON object")
	require.Equal(t, `[1]`, string(req.Body))
}

// Merging changes the members that it is given and nothing else.
func FuzzMerge(f *testing.F) {
	f.Add([]byte(`{"model":"m","stream":true}`), []byte(`{"stream":false,"x":[1,{"y":null}]}`))
	f.Add([]byte(` { "\u00e9" : "<&>\u2028" } `), []byte(`{"é":1e5}`))
	f.Fuzz(func(t *testing.T, body, more []byte) {
		was, err := ParseMembers(body)
		if err != nil {
			return
		}
		add, err := ParseMembers(more)
		if err != nil {
			return
		}
		req := NewRequest(Chat, body)
		require.NoError(t, req.Merge(add))
		require.True(t, json.Valid(req.Body))
		want := map[string]string{}
		for _, m := range append(was, add...) {
			want[m.Name] = string(m.Value)
		}
		now, err := ParseMembers(req.Body)
		require.NoError(t, err)
		require.Len(t, now, len(want))
		for _, m := range now {
			require.Equal(t, want[m.Name], string(m.Value))
		}
	})
}
