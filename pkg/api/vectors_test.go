package api_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/tokpace/pkg/api"
)

func TestVectorAnswers(t *testing.T) {
	b64 := func(bytes int) string { return base64.StdEncoding.EncodeToString(make([]byte, bytes)) }
	for _, tt := range []struct {
		name, dtype, body string
		vectors, dim      int
	}{
		{"floats", "", `{"data":[{"embedding":[0.5,-1e-3,2]}]}`, 1, 3},
		{"white space", "", "{\"data\":[{\"embedding\":[ 1 ,\n\t2.5E+3 ]}]}", 1, 2},
		{"batch", "", `{"data":[{"embedding":[1,2]},{"embedding":[3,4]}]}`, 2, 2},
		{"pooling", "", `{"data":[{"data":[1,2]}]}`, 1, 2},
		{"nested, rows of different number", "", `{"data":[{"data":[[1,2],[3,4]]},{"data":[[5,6]]}]}`, 2, 2},
		{"deeper", "", `{"data":[{"data":[[[1,2,3]]]}]}`, 1, 3},
		{"base64 float32", "", `{"data":[{"embedding":"` + b64(16) + `"}]}`, 1, 4},
		{"base64 float16", "float16", `{"data":[{"embedding":"` + b64(16) + `"}]}`, 1, 8},
		{"base64 bfloat16", "bfloat16", `{"data":[{"data":"` + b64(16) + `"}]}`, 1, 8},
		{"base64 fp8", "fp8_e4m3", `{"data":[{"data":"` + b64(16) + `"}]}`, 1, 16},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a, f := api.Plain(&api.Request{API: api.Pooling, DType: tt.dtype}, []byte(tt.body))
			require.Nil(t, f)
			require.Equal(t, api.Answer{Vectors: api.Some(tt.vectors), Dim: api.Some(tt.dim)}, a)
		})
	}
}

func TestVectorAnswersOfARealServer(t *testing.T) {
	for name, vectors := range map[string]int{"embeddings-float.json": 1, "embeddings-base64.json": 1, "embeddings-batch3.json": 3} {
		a, f := api.Plain(&api.Request{API: api.Embeddings}, captured(t, name))
		require.Nil(t, f)
		require.Equal(t, api.Some(vectors), a.Vectors, name)
		require.Equal(t, api.Some(64), a.Dim, name)
		require.True(t, a.Usage.Input.Known)
		require.False(t, a.Usage.Output.Known)
	}
}

func TestRerankAnswers(t *testing.T) {
	for name, body := range map[string]string{
		"H36":        `{"id":"r","model":"m","usage":{"total_tokens":57},"results":[{"index":2,"document":{"text":"c"},"relevance_score":0.9},{"index":0,"relevance_score":0.2},{"index":1,"relevance_score":0}]}`,
		"bare array": ` [{"index":2,"score":0.9},{"index":0,"score":-3},{"index":1,"score":1e-9}]`,
	} {
		a, f := api.Plain(&api.Request{API: api.Rerank}, []byte(body))
		require.Nil(t, f)
		require.Equal(t, api.Some(3), a.Results, name)
	}
}

// h38 is the metadata header of the case.
const h38 = `{"id":"e","created":1,"model":"m","data":[{"index":0,"embed_dtype":"float32","endianness":"little","start":0,"end":8,"shape":[2]},{"index":1,"embed_dtype":"float32","endianness":"little","start":8,"end":16,"shape":[2]}],"usage":{"prompt_tokens":6,"total_tokens":6}}`

func TestCaseH38Binary(t *testing.T) {
	one := func(dtype, start, end, shape string) string {
		return fmt.Sprintf(`{"data":[{"embed_dtype":%q,"start":%s,"end":%s,"shape":%s}]}`, dtype, start, end, shape)
	}
	six := api.Usage{Input: n(6)}
	for _, tt := range []struct {
		name, metadata string
		bytes          int64
		want           api.Answer
		failure        string
	}{
		{name: "two vectors", metadata: h38, bytes: 16, want: api.Answer{Vectors: api.Some(2), Dim: api.Some(2), Usage: six}},
		{name: "bytes_only", bytes: 16},
		{name: "bytes_only, nothing came", failure: "empty"},
		{name: "end beyond the body", metadata: strings.Replace(h38, `"end":16`, `"end":24`, 1), bytes: 16, failure: "in 16 bytes"},
		{name: "body too short", metadata: h38, bytes: 15, failure: "describes 16 bytes of vectors, the body has 15"},
		{name: "body too long", metadata: h38, bytes: 17, failure: "the body has 17"},
		{name: "no usage", metadata: one("float16", "0", "8", "[4]"), bytes: 8, want: api.Answer{Vectors: api.Some(1), Dim: api.Some(4)}},
		{name: "one vector a token", metadata: one("bfloat16", "0", "24", "[3,4]"), bytes: 24, want: api.Answer{Vectors: api.Some(1), Dim: api.Some(4)}},
		{name: "fp8", metadata: one("fp8_e5m2", "0", "4", "[4]"), bytes: 4, want: api.Answer{Vectors: api.Some(1), Dim: api.Some(4)}},
		{name: "end and shape beyond the body", metadata: strings.Replace(h38, `"end":16,"shape":[2]`, `"end":24,"shape":[2,2]`, 1), bytes: 16, failure: "describes 24 bytes of vectors, the body has 16"},
		{name: "dimensions differ", metadata: strings.Replace(h38, `"end":16,"shape":[2]`, `"end":20,"shape":[3]`, 1), bytes: 20, failure: "vector 1 has 3 elements, those before it 2"},
		{name: "gap", metadata: strings.Replace(h38, `"start":8`, `"start":9`, 1), bytes: 16, failure: "expected to start at 8"},
		{name: "overlap", metadata: strings.Replace(h38, `"start":8`, `"start":4`, 1), bytes: 16, failure: "expected to start at 8"},
		{name: "backwards", metadata: one("float32", "0", "-8", "[2]"), bytes: 8, failure: "lies at bytes 0 to -8"},
		{name: "unknown type", metadata: one("int3", "0", "8", "[2]"), bytes: 8, failure: "int3"},
		{name: "no shape", metadata: one("float32", "0", "8", "[]"), bytes: 8, failure: "shape []"},
		{name: "shape of nothing", metadata: one("float32", "0", "0", "[0]"), bytes: 0, failure: "shape [0]"},
		{name: "negative shape", metadata: one("float32", "0", "8", "[-1,-2]"), bytes: 8, failure: "shape [-1 -2]"},
		{name: "shape that overflows", metadata: one("float32", "0", "8", "[4294967296,4294967296,4294967298]"), bytes: 8, failure: "shape"},
		{name: "offsets that overflow", metadata: one("float32", "0", "9223372036854775807", "[2]"), bytes: math.MaxInt64, failure: "shape"},
		{name: "offsets beyond int64", metadata: one("float32", "0", "9223372036854775808", "[2]"), bytes: 8, failure: "not readable"},
		{name: "no vectors", metadata: `{"data":[]}`, bytes: 0, failure: "no vectors"},
		{name: "no data", metadata: `{"usage":{"prompt_tokens":1}}`, bytes: 8, failure: "no vectors"},
		{name: "null", metadata: `null`, bytes: 8, failure: "no vectors"},
		{name: "not JSON", metadata: `<html>`, bytes: 8, failure: "not readable"},
		{name: "bad usage", metadata: strings.Replace(h38, `"prompt_tokens":6`, `"prompt_tokens":-6`, 1), bytes: 16, failure: "prompt_tokens is no count"},
		{name: "total only", metadata: strings.Replace(h38, `"prompt_tokens":6,`, ``, 1), bytes: 16, want: api.Answer{Vectors: api.Some(2), Dim: api.Some(2), Usage: six}},
		{name: "a very long type", metadata: one(strings.Repeat("\x1b", 10_000), "0", "8", "[2]"), bytes: 8, failure: "metadata"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a, f := api.Binary(tt.metadata, tt.bytes)
			if tt.failure == "" {
				require.Nil(t, f)
				require.Equal(t, tt.want, a)
				return
			}
			require.NotNil(t, f)
			requireFailure(t, f)
			require.Equal(t, api.Malformed, f.Class)
			require.Contains(t, f.Message, tt.failure)
		})
	}
	require.True(t, api.IsBinary(api.Bytes) && api.IsBinary(api.BytesOnly))
	require.False(t, api.IsBinary(api.Float) || api.IsBinary(api.Base64) || api.IsBinary(""))
}

// What a large answer costs is one look at each byte.
func TestLargeVector(t *testing.T) {
	var body bytes.Buffer
	body.WriteString(`{"data":[{"embedding":[0.5`)
	for range 1<<18 - 1 {
		body.WriteString(`,-1.25e-3`)
	}
	body.WriteString(`]}]}`)
	a, f := api.Plain(&api.Request{API: api.Embeddings}, body.Bytes())
	require.Nil(t, f)
	require.Equal(t, api.Some(1<<18), a.Dim)
}

func FuzzBinary(f *testing.F) {
	f.Add(h38, int64(16))
	f.Add(h38, int64(24))
	f.Add("", int64(0))
	f.Add(`{"data":[{"embed_dtype":"float16","start":0,"end":8,"shape":[2,2]}]}`, int64(8))
	f.Add(`{"data":[{"embed_dtype":"float32","start":0,"end":9223372036854775807,"shape":[4294967296,4294967296]}]}`, int64(math.MaxInt64))
	f.Fuzz(func(t *testing.T, metadata string, n int64) {
		a, fail := api.Binary(metadata, n)
		if fail != nil {
			requireFailure(t, fail)
			return
		}
		requireUsage(t, a.Usage)
		require.Equal(t, metadata != "", a.Vectors.Known)
		if metadata != "" {
			require.Positive(t, a.Vectors.V)
			require.Positive(t, a.Dim.V)
			require.LessOrEqual(t, int64(a.Vectors.V), n, "a vector has at least a byte")
		}
	})
}
