package api_test

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/tokpace/pkg/api"
)

// floats32 are values in a byte order.
func floats32(order binary.AppendByteOrder, values ...float32) []byte {
	var b []byte
	for _, v := range values {
		b = order.AppendUint32(b, math.Float32bits(v))
	}
	return b
}

func vectorRequest(fields string) *api.Request {
	return api.NewRequest(api.Embeddings, []byte(`{"model":"m",`+fields+`}`))
}

func TestCheckVectorsJSON(t *testing.T) {
	b64 := func(data []byte) string { return `"` + base64.StdEncoding.EncodeToString(data) + `"` }
	inf := float32(math.Inf(1))
	for name, c := range map[string]struct {
		fields, data, words string
	}{
		"good":                 {`"input":["a","b"]`, `{"index":0,"embedding":[1,-2.5e-1]},{"index":1,"embedding":[3,4]}`, ""},
		"one text":             {`"input":"a"`, `{"index":0,"embedding":[1]}`, ""},
		"token ids":            {`"input":[1,2,3]`, `{"index":0,"embedding":[1]}`, ""},
		"lists of ids":         {`"input":[[1,2],[3]]`, `{"index":0,"embedding":[1]},{"index":1,"embedding":[1]}`, ""},
		"a vector a token":     {`"input":"a b"`, `{"index":0,"data":[[1,2],[3,4]]}`, ""},
		"one lost":             {`"input":["a","b"]`, `{"index":0,"embedding":[1]}`, "1 vectors for 2 inputs"},
		"out of order":         {`"input":["a","b"]`, `{"index":1,"embedding":[1]},{"index":0,"embedding":[2]}`, "vector 0 has index 1"},
		"twice the same index": {`"input":["a","b"]`, `{"index":0,"embedding":[1]},{"index":0,"embedding":[2]}`, "vector 1 has index 0"},
		"dimension":            {`"input":"a","dimensions":3`, `{"index":0,"embedding":[1,2]}`, "2 elements, 3 were asked for"},
		"beyond float32":       {`"input":"a"`, `{"index":0,"embedding":[1,1e300]}`, "beyond float32"},
		"beyond float64":       {`"input":"a"`, `{"index":0,"embedding":[1,1e400]}`, "cannot be read as numbers"},
		"base64":               {`"input":"a","encoding_format":"base64"`, `{"index":0,"embedding":` + b64(floats32(binary.LittleEndian, 1, 2)) + `}`, ""},
		"base64, infinite":     {`"input":"a","encoding_format":"base64"`, `{"index":0,"embedding":` + b64(floats32(binary.LittleEndian, 1, inf)) + `}`, "element 1 is not finite"},
		"base64, wrong order":  {`"input":"a","encoding_format":"base64"`, `{"index":0,"embedding":` + b64(floats32(binary.BigEndian, 0.11, 0.22, 0.33)) + `}`, "as in a wrong byte order"},
		"base64, wrong type":   {`"input":"a","encoding_format":"base64"`, `{"index":0,"embedding":"AAAA"}`, "no elements of"},
		"base64 not asked for": {`"input":"a"`, `{"index":0,"embedding":"AACAPw=="}`, "not asked for"},
		"floats not asked for": {`"input":"a","encoding_format":"base64"`, `{"index":0,"embedding":[1]}`, "is no base64"},
	} {
		t.Run(name, func(t *testing.T) {
			f := api.CheckVectors(vectorRequest(c.fields), false, "", []byte(`{"data":[`+c.data+`]}`))
			if c.words == "" {
				require.Nil(t, f)
				return
			}
			require.NotNil(t, f)
			require.Equal(t, api.Malformed, f.Class)
			require.Contains(t, f.Message, c.words)
		})
	}
}

func TestCheckVectorsBinary(t *testing.T) {
	describe := func(dtype, endianness string, index ...int) string {
		var items []string
		for i, k := range index {
			items = append(items, fmt.Sprintf(`{"index":%d,"embed_dtype":%q,"endianness":%q,"start":%d,"end":%d,"shape":[2]}`, k, dtype, endianness, 8*i, 8*i+8))
		}
		return `{"data":[` + strings.Join(items, ",") + `]}`
	}
	little, big := floats32(binary.LittleEndian, 0.1, 0.2, 0.3, 0.4), floats32(binary.BigEndian, 0.1, 0.2, 0.3, 0.4)
	nan := floats32(binary.LittleEndian, 0.1, float32(math.NaN()), 1, 1)
	two := `"input":["a","b"]`
	for name, c := range map[string]struct {
		fields, metadata string
		body             []byte
		words            string
	}{
		"good":                 {two, describe("float32", "native", 0, 1), little, ""},
		"big":                  {two + `,"endianness":"big"`, describe("float32", "big", 0, 1), big, ""},
		"big, but little came": {two + `,"endianness":"big"`, describe("float32", "big", 0, 1), little, "as in a wrong byte order"},
		"big not obeyed":       {two + `,"endianness":"big"`, describe("float32", "little", 0, 1), little, `byte order "little"`},
		"type not obeyed":      {two + `,"embed_dtype":"float16"`, describe("float32", "native", 0, 1), little, `of type "float32"`},
		"out of order":         {two, describe("float32", "native", 1, 0), little, "vector 0 has index 1"},
		"one lost":             {two, describe("float32", "native", 0), little[:8], "1 vectors for 2 inputs"},
		"not finite":           {two, describe("float32", "native", 0, 1), nan, "vector 0: element 1 is not finite"},
		"beyond the body":      {two, describe("float32", "native", 0, 1), little[:12], "bytes 8 to 16 of 12"},
		"bare":                 {two, "", little, ""},
		"bare, odd size":       {two, "", little[:12], "not 2 vectors of float32"},
		"bare, wrong order":    {two, "", big, "as in a wrong byte order"},
		"bare, empty":          {two, "", nil, "0 bytes are not"},
		"bare, dimension":      {two + `,"dimensions":4`, "", little, "2 elements, 4 were asked for"},
	} {
		t.Run(name, func(t *testing.T) {
			f := api.CheckVectors(vectorRequest(c.fields), true, c.metadata, c.body)
			if c.words == "" {
				require.Nil(t, f)
				return
			}
			require.NotNil(t, f)
			require.Contains(t, f.Message, c.words)
		})
	}
}

// The special values of each type, by the bit patterns of their definitions.
func TestCheckVectorsNotFinite(t *testing.T) {
	for dtype, c := range map[string]struct{ good, bad [][]byte }{
		"float16":  {[][]byte{{0x00, 0x3c}, {0xff, 0x7b}, {0x01, 0x00}}, [][]byte{{0x00, 0x7c}, {0x00, 0xfc}, {0x01, 0x7c}}},
		"bfloat16": {[][]byte{{0x80, 0x3f}, {0x00, 0x00}}, [][]byte{{0x80, 0x7f}, {0x80, 0xff}, {0xc0, 0x7f}}},
		"fp8_e4m3": {[][]byte{{0x38}, {0x7e}, {0xfe}}, [][]byte{{0x7f}, {0xff}}},
		"fp8_e5m2": {[][]byte{{0x3c}, {0x7b}}, [][]byte{{0x7c}, {0xfc}, {0x7d}}},
	} {
		req := vectorRequest(`"input":"a","encoding_format":"bytes_only","embed_dtype":"` + dtype + `"`)
		for _, b := range c.good {
			require.Nil(t, api.CheckVectors(req, true, "", b), "%s %x", dtype, b)
		}
		for _, b := range c.bad {
			f := api.CheckVectors(req, true, "", b)
			require.NotNil(t, f, "%s %x", dtype, b)
			require.Contains(t, f.Message, "not finite")
		}
	}
}

func FuzzCheckVectors(f *testing.F) {
	f.Add(`{"input":["a"]}`, true, `{"data":[{"index":0,"embed_dtype":"float32","start":0,"end":4,"shape":[1]}]}`, []byte("abcd"))
	f.Add(`{"input":[[1],[2]],"embed_dtype":"float16"}`, true, "", []byte("abcd"))
	f.Add(`{"input":"a","encoding_format":"base64"}`, false, "", []byte(`{"data":[{"index":0,"embedding":"AACAPw=="}]}`))
	f.Add(`{"input":"a"}`, false, "", []byte(`{"data":[{"index":0,"data":[[1],[2,[]]]}]}`))
	f.Fuzz(func(t *testing.T, request string, binary bool, metadata string, body []byte) {
		if f := api.CheckVectors(api.NewRequest(api.Embeddings, []byte(request)), binary, metadata, body); f != nil {
			require.NotEmpty(t, f.Class)
			require.NotEmpty(t, f.Message)
			require.NotContains(t, f.Message, "\n")
		}
	})
}
