package api

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// perhaps is an element of a list that may be a number.
var perhaps = regexp.MustCompile(`([\[,])[-./0-9]+`)

// requireSameVectors reads an answer by walking, if that can be done, and by decoding.
// Only where digits, points and signs stand in a number may make a difference.
func requireSameVectors(t testing.TB, body []byte, dtype string) (walked bool) {
	got, walked := walkVectors(body, dtype)
	if walked {
		want, f := decodeVectors(body, dtype)
		if f != nil {
			want, f = decodeVectors(perhaps.ReplaceAll(body, []byte("${1}1")), dtype)
		}
		require.Nil(t, f)
		require.Equal(t, want, got)
	}
	return walked
}

func b64(n int) string { return base64.StdEncoding.EncodeToString(make([]byte, n)) }

func TestWalkedVectors(t *testing.T) {
	for body, walked := range map[string]bool{
		`{"data":[{"embedding":[0.5,-1e-3,2]}],"usage":{"prompt_tokens":7,"total_tokens":7}}`:                                       true,
		`{"usage":{"total_tokens":7},"object":"list","data":[{"object":"embedding","index":0,"embedding":[ 1 , 2 ]}],"model":"m"} `: true,
		`{"data":[{"data":[[1,2],[3,4]]},{"data":[[5,6]]}]}`:                                                                        true,
		`{"data":[{"embedding":"` + b64(16) + `"},{"embedding":[1,2,3,4]}]}`:                                                        true,
		`{"data":[{"embedding":[1]}],"error":null,"usage":null}`:                                                                    true,
		// A usage inside a string is none.
		`{"model":"\"usage\":{\"prompt_tokens\":9}","data":[{"embedding":[1]}],"x":"}],\"usage\":{\"prompt_tokens\":8}}"}`: true,
		`{"data":[{"embedding":[1],"x":{"usage":{"prompt_tokens":9}}}],"y":[{"usage":1}]}`:                                 true,

		`{"data":[{"embedding":[1]}],"usage":{"prompt_tokens":1},"usage":{"prompt_tokens":2}}`: false,
		`{"data":[{"embedding":[1]}],"Usage":{"prompt_tokens":1}}`:                             false,
		`{"data":[{"embedding":[1]}],"usage":{"prompt_tokens":-1}}`:                            false,
		`{"data":[{"embedding":[1],"data":[1]}]}`:                                              false,
		`{"data":[{"embedding":[1],"Embedding":[1]}]}`:                                         false,
		`{"data":[{"embedding":[1]},{"embedding":[1,2]}]}`:                                     false,
		`{"data":[{"embedding":[[1],[1,2]]}]}`:                                                 false,
		`{"data":[{"embedding":[[[1]]]}]}`:                                                     false,
		`{"data":[{"embedding":[1,2,3,4,5]}]}`:                                                 true,
		`{"data":[{"embedding":[1,-0.25,3.5,4],"i":0}]}`:                                       true,
		`{"data":[{"embedding":[],"index":0}]}`:                                                false,
		`{"data":[{"embedding":[1,2,3,4,5,],"i":0}]}`:                                          false,
		`{"data":[{"embedding":[,1,2,3,4,5],"i":0}]}`:                                          false,
		`{"data":[{"embedding":[1,2,3,4,,5],"i":0}]}`:                                          false,
		`{"data":[{"embedding":[1,2,3,,4,5],"i":0}]}`:                                          false,
		`{"data":[{"embedding":[1,2,3,null,5],"i":0}]}`:                                        false,
		`{"data":[{"embedding":[1,2,3,"4",5],"i":0}]}`:                                         false,
		`{"data":[{"embedding":[1,2,3,[4],5],"i":0}]}`:                                         false,
		`{"data":[{"embedding":[1,2,3,{},5],"i":0}]}`:                                          false,
		`{"data":[{"embedding":[1,2,3,+4,5],"i":0}]}`:                                          false,
		`{"data":[{"embedding":[1,2,3,4/5,5],"i":0}]}`:                                         true,
		`{"data":[{"embedding":[1,2,3,4\u00e4],"i":0}]}`:                                       false,
		`{"data":[{"embedding":[1,2,3,4,5}],"i":0}]}`:                                          false,
		`{"data":[{"embedding":[1e3,2E-2,3,4,5],"i":0}]}`:                                      true,
		`{"data":[{"embedding":[1,]}]}`:                                                        false,
		`{"data":[{"embedding":[01]}]}`:                                                        false,
		`{"data":[{"embedding":[1.]}]}`:                                                        false,
		`{"data":[{"embedding":[NaN]}]}`:                                                       false,
		`{"data":[{"embedding":[null]}]}`:                                                      false,
		`{"data":[{"embedding":["1"]}]}`:                                                       false,
		`{"data":[{"embedding":[]}]}`:                                                          false,
		`{"data":[{"embedding":null}]}`:                                                        false,
		`{"data":[{"embedding":"AAAA"}]}`:                                                      false,
		`{"data":[{"embedding":"A*=="}]}`:                                                      false,
		`{"data":[{"embedding":""}]}`:                                                          false,
		`{"data":[{"embedding":[1]}],"object":"error"}`:                                        false,
		`{"data":[{"embedding":[1]}],"error":"m"}`:                                             false,
		`{"data":[{"embedding":[1]}]`:                                                          false,
		`{"data":[{"embedding":[1]}]} x`:                                                       false,
		`{"data":[{}]}`:                                                                        false,
		`{"data":[]}`:                                                                          false,
		`{}`:                                                                                   false,
		``:                                                                                     false,
	} {
		require.Equal(t, walked, requireSameVectors(t, []byte(body), ""), body)
	}
	for _, dtype := range []string{"", "float16", "fp8_e4m3", "int3"} {
		requireSameVectors(t, []byte(`{"data":[{"embedding":"`+b64(24)+`"}]}`), dtype)
	}
}

// What an answer cut short or with one byte changed is taken for does not depend on
// the way of reading it.
func TestWalkedVectorsWithAFault(t *testing.T) {
	for _, name := range []string{"embeddings-float.json", "embeddings-base64.json", "embeddings-batch3.json"} {
		body, err := os.ReadFile("testdata/ollama/" + name)
		require.NoError(t, err)
		require.True(t, requireSameVectors(t, body, ""))
		body = bytes.TrimSpace(body)
		for i := range body {
			require.False(t, requireSameVectors(t, body[:i], ""))
			bad := append([]byte{}, body...)
			bad[i] = "\x00\"\\,[]{}-.e0A:"[i%14]
			requireSameVectors(t, bad, "")
		}
	}
}

func FuzzVectors(f *testing.F) {
	for _, name := range []string{"embeddings-float.json", "embeddings-base64.json", "embeddings-batch3.json"} {
		body, err := os.ReadFile("testdata/ollama/" + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body, "")
	}
	f.Add([]byte(`{"data":[{"data":[[1,2],[3,4e-1]],"index":0}],"usage":{"total_tokens":1}}`), "float16")
	f.Add([]byte(`{"data":[{"embedding":[1]}],"Usage":{},"x":"\"usage\":{"}`), "")
	f.Fuzz(func(t *testing.T, body []byte, dtype string) { requireSameVectors(t, body, dtype) })
}

// BenchmarkVectors reads an answer of 1,024 numbers, by package api and by encoding/json.
func BenchmarkVectors(b *testing.B) {
	rnd := rand.New(rand.NewPCG(1, 1))
	numbers := make([]string, 1024)
	for i := range numbers {
		numbers[i] = fmt.Sprintf("%.5f", rnd.Float64()-0.5)
	}
	body := []byte(`{"id":"embd-1","object":"list","created":1790000000,"model":"m","data":[{"index":0,"object":"embedding","embedding":[` +
		strings.Join(numbers, ",") + `]}],"usage":{"prompt_tokens":7,"total_tokens":7,"completion_tokens":0,"prompt_tokens_details":null}}`)
	req := &Request{API: Embeddings}
	b.Run("parser=api", func(b *testing.B) {
		b.SetBytes(int64(len(body)))
		b.ReportAllocs()
		for b.Loop() {
			if a, f := Plain(req, body); f != nil || a.Dim.V != len(numbers) || a.Usage.Input.V != 7 {
				b.Fatal(a, f)
			}
		}
	})
	b.Run("parser=encodingjson", func(b *testing.B) {
		b.SetBytes(int64(len(body)))
		b.ReportAllocs()
		for b.Loop() {
			var answer struct {
				Data []struct {
					Embedding []float32 `json:"embedding"`
				} `json:"data"`
				Usage struct {
					PromptTokens int64 `json:"prompt_tokens"`
				} `json:"usage"`
			}
			if err := json.Unmarshal(body, &answer); err != nil || len(answer.Data[0].Embedding) != len(numbers) || answer.Usage.PromptTokens != 7 {
				b.Fatal(err)
			}
		}
	})
}
