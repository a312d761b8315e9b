package api_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"example.com/tokpace/pkg/api"
)

func captured(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "ollama", name))
	require.NoError(t, err)
	return data
}

// requireFailure holds what is true of every failure: it has a class and one
// short line of text that no terminal can stumble over.
func requireFailure(t testing.TB, f *api.Failure) {
	t.Helper()
	require.NotEmpty(t, f.Class)
	requireOneLine(t, f.Message)
	require.NotEmpty(t, f.Message)
	require.LessOrEqual(t, len(f.Message), 500)
	require.Contains(t, f.Error(), string(f.Class))
}

func requireOneLine(t testing.TB, s string) {
	t.Helper()
	require.True(t, utf8.ValidString(s), "%q", s)
	for _, r := range s {
		if r < ' ' || 0x7f <= r && r < 0xa0 || r == '\u2028' || r == '\u2029' || 0x202a <= r && r <= 0x202e {
			t.Fatalf("%q in %q", r, s)
		}
	}
	require.Equal(t, strings.TrimSpace(s), s)
}

func TestPlainGenerate(t *testing.T) {
	usage := api.Usage{Input: api.Some[int64](7), Output: api.Some[int64](2)}
	const u = `"usage":{"prompt_tokens":7,"completion_tokens":2,"total_tokens":9}`
	for _, tt := range []struct {
		name, body string
		want       api.Answer
	}{
		{"chat", `{"choices":[{"index":0,"message":{"role":"assistant","content":"ab"},"finish_reason":"stop"}],` + u + `}`,
			api.Answer{Text: "ab", FinishReason: "stop", Usage: usage}},
		{"completion", `{"choices":[{"text":"ab","finish_reason":"length"}],` + u + `}`,
			api.Answer{Text: "ab", FinishReason: "length", Usage: usage}},
		{"no usage", `{"choices":[{"message":{"content":"ab"}}]}`, api.Answer{Text: "ab"}},
		{"null usage, null content", `{"choices":[{"message":{"content":null},"finish_reason":null}],"usage":null,"error":null}`, api.Answer{}},
		{"list of parts", `{"choices":[{"message":{"content":[{"type":"text","text":"a"},{"type":"refusal"},{"type":"text","text":"b"},{"text":null}]}}]}`,
			api.Answer{Text: "ab"}},
		{"reasoning", `{"choices":[{"message":{"content":"a","reasoning_content":"hm"}}]}`, api.Answer{Text: "a", Reasoning: "hm"}},
		{"reasoning by its other name", `{"choices":[{"message":{"content":"a","reasoning":"hm"}}]}`, api.Answer{Text: "a", Reasoning: "hm"}},
		{"both names of one reasoning", `{"choices":[{"message":{"reasoning":"hm","reasoning_content":"hm"}}]}`, api.Answer{Reasoning: "hm"}},
		{"tool calls", `{"choices":[{"message":{"content":null,"tool_calls":[{"id":"t1","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"t2","function":{"name":"g","arguments":"[1]"}}]},"finish_reason":"tool_calls"}]}`,
			api.Answer{FinishReason: "tool_calls", ToolCalls: []api.ToolCall{{ID: "t1", Name: "f", Arguments: "{}"}, {ID: "t2", Name: "g", Arguments: "[1]"}}}},
		{"arguments that are no string", `{"choices":[{"message":{"tool_calls":[{"function":{"name":"f","arguments":{"x": 1}}},{"id":"t2","function":{"name":"g","arguments":null}}]}}]}`,
			api.Answer{ToolCalls: []api.ToolCall{{Name: "f", Arguments: `{"x": 1}`}, {ID: "t2", Name: "g"}}}},
		{"n = 2 in any order", `{"choices":[{"index":1,"text":"b"},{"index":0,"text":"a","finish_reason":"stop"}],` + u + `}`,
			api.Answer{Text: "a", FinishReason: "stop", Usage: usage}},
		{"error fields that tell none", `{"error":"","choices":[{"text":"a","error":null}]}`, api.Answer{Text: "a"}},
		{"zero usage beside text", `{"choices":[{"text":"a"}],"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}}`,
			api.Answer{Text: "a", Warnings: []string{"the usage says 0 output tokens beside output: left out"}}},
		{"zero output beside text", `{"choices":[{"text":"a"}],"usage":{"prompt_tokens":5,"completion_tokens":0}}`,
			api.Answer{Text: "a", Usage: api.Usage{Input: api.Some[int64](5)}, Warnings: []string{"the usage says 0 output tokens beside output: left out"}}},
		{"zero output and no text", `{"choices":[{"text":""}],"usage":{"prompt_tokens":5,"completion_tokens":0}}`,
			api.Answer{Usage: api.Usage{Input: api.Some[int64](5), Output: api.Some[int64](0)}}},
		{"white space around", " \n{\"choices\":[{\"text\":\"a\"}]}\r\n", api.Answer{Text: "a"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, f := api.Plain(&api.Request{API: api.Chat}, []byte(tt.body))
			got.Generated = nil // TestGenerated looks at it
			require.Nil(t, f)
			require.Equal(t, tt.want, got)
		})
	}
}

func TestPlainOfARealServer(t *testing.T) {
	a, f := api.Plain(&api.Request{API: api.Chat}, captured(t, "chat-plain.json"))
	require.Nil(t, f)
	require.Equal(t, "length", a.FinishReason)
	require.True(t, strings.HasPrefix(a.Text, "! up in before! when"))
	a, f = api.Plain(&api.Request{API: api.Completions}, captured(t, "completions-plain.json"))
	require.Nil(t, f)
	require.Equal(t, api.Usage{Input: api.Some[int64](9), Output: api.Some[int64](16)}, a.Usage)
	require.True(t, strings.HasSuffix(a.Text, "people before"))
}

func TestPlainFailures(t *testing.T) {
	generate, embed, rerank := api.Chat, api.Embeddings, api.Rerank
	for _, tt := range []struct {
		name   string
		api    *api.API
		body   string
		class  api.Class
		status int
		text   string // part of the message
	}{
		{"nothing", generate, "", api.Malformed, 0, "empty"},
		{"white space", embed, " \n", api.Malformed, 0, "empty"},
		{"HTML", generate, "<html><h1>hi</h1>", api.Malformed, 0, "<html><h1>hi</h1>"},
		{"cut", generate, `{"choices":[{"text":"a"`, api.Malformed, 0, "unexpected end"},
		{"more behind it", generate, `{"choices":[{"text":"a"}]} x`, api.Malformed, 0, "after top-level value"},
		{"list", generate, `[]`, api.Malformed, 0, "unexpected JSON"},
		{"null", generate, `null`, api.Malformed, 0, "no choices"},
		{"no choices", generate, `{"object":"chat.completion"}`, api.Malformed, 0, "no choices"},
		{"text is a number", generate, `{"choices":[{"text":5}]}`, api.Malformed, 0, "text is neither"},
		{"text is an object", generate, `{"choices":[{"message":{"content":{"a":1}}}]}`, api.Malformed, 0, "text is neither"},
		{"finish reason is a number", generate, `{"choices":[{"text":"a","finish_reason":3}]}`, api.Malformed, 0, "unexpected JSON"},
		{"negative index", generate, `{"choices":[{"index":-1,"text":"a"}]}`, api.Malformed, 0, "choice index -1"},
		{"tool call index", generate, `{"choices":[{"message":{"tool_calls":[{"index":99999999}]}}]}`, api.Malformed, 0, "tool call index 99999999"},
		{"error object", generate, `{"error":{"message":"it fell\nover","type":"x","code":500}}`, api.ServerError, 500, "it fell over"},
		{"error beside choices", generate, `{"choices":[{"text":"a"}],"error":{"message":"no","code":null}}`, api.ServerError, 0, "no"},
		{"error string", generate, `{"error":"overloaded"}`, api.ServerError, 0, "overloaded"},
		{"error without a message", generate, `{"error":{"code":"rate_limit"}}`, api.ServerError, 0, `{"code":"rate_limit"}`},
		{"error with digits as its code", generate, `{"error":{"message":"m","code":"429"}}`, api.ServerError, 429, "m"},
		{"error with an absurd code", generate, `{"error":{"message":"m","code":9223372036854775808}}`, api.ServerError, 0, "m"},
		{"error with a broken code", generate, `{"error":{"message":"m","code":4.5}}`, api.ServerError, 0, "m"},
		{"error is true", generate, `{"error":true,"choices":[{"text":"a"}]}`, api.ServerError, 0, "true"},
		{"error is empty", generate, `{"error":{},"choices":[{"text":"a"}]}`, api.ServerError, 0, "{}"},
		{"error with a blank message", generate, `{"error":" \n"}`, api.ServerError, 0, "without a message"},
		{"error of SGLang", generate, `{"object":"error","message":"bad","type":"BadRequest","param":null,"code":400}`, api.ServerError, 400, "bad"},
		{"error in a choice", generate, `{"choices":[{"text":"a","finish_reason":"error","error":{"code":502,"message":"upstream"}}]}`, api.ServerError, 502, "upstream"},
		{"a choice that failed", generate, `{"choices":[{"text":"a","finish_reason":"error"}]}`, api.ServerError, 0, "finish reason is error"},
		{"error instead of vectors", embed, `{"error":{"message":"m","code":503},"data":[{"embedding":[1]}]}`, api.ServerError, 503, "m"},
		{"error instead of results", rerank, `{"object":"error","message":"m"}`, api.ServerError, 0, "m"},
		{"usage is no object", generate, `{"choices":[{"text":"a"}],"usage":[1]}`, api.Malformed, 0, "usage is not an object"},

		{"H40 nulls", embed, `{"data":[{"index":0,"embedding":[null,null,null]}],"usage":{"total_tokens":2}}`, api.Malformed, 0, "non-numeric vector element"},
		{"H40 NaN", embed, `{"data":[{"index":0,"embedding":[NaN,1]}]}`, api.Malformed, 0, "not valid JSON"},
		{"string elements", embed, `{"data":[{"embedding":["1","2"]}]}`, api.Malformed, 0, "non-numeric vector element"},
		{"true", embed, `{"data":[{"embedding":[1,true]}]}`, api.Malformed, 0, "non-numeric vector element"},
		{"object elements", embed, `{"data":[{"embedding":[{"a":1}]}]}`, api.Malformed, 0, "non-numeric vector element"},
		{"null instead of a vector", embed, `{"data":[{"embedding":null}]}`, api.Malformed, 0, "neither a list nor base64"},
		{"number instead of a vector", embed, `{"data":[{"embedding":5}]}`, api.Malformed, 0, "neither a list nor base64"},
		{"empty vector", embed, `{"data":[{"embedding":[]}]}`, api.Malformed, 0, "empty"},
		{"empty rows", embed, `{"data":[{"data":[[],[]]}]}`, api.Malformed, 0, "empty"},
		{"an empty row first", embed, `{"data":[{"data":[[],[1,2]]}]}`, api.Malformed, 0, "empty"},
		{"an empty row last", embed, `{"data":[{"data":[[1,2],[ ]]}]}`, api.Malformed, 0, "empty"},
		{"ragged rows", embed, `{"data":[{"data":[[1,2],[3]]}]}`, api.Malformed, 0, "rows have 2 and 1"},
		{"numbers before lists", embed, `{"data":[{"data":[1,[2,3]]}]}`, api.Malformed, 0, "side by side"},
		{"numbers after lists", embed, `{"data":[{"data":[[2,3],1]}]}`, api.Malformed, 0, "side by side"},
		{"ragged batch", embed, `{"data":[{"embedding":[1,2]},{"embedding":[1,2,3]}]}`, api.Malformed, 0, "vector 1 has 3 elements, those before it 2"},
		{"no vector in an item", embed, `{"data":[{"embedding":[1]},{"index":1}]}`, api.Malformed, 0, "vector 1: it has no embedding"},
		{"no vectors", embed, `{"data":[]}`, api.Malformed, 0, "no vectors"},
		{"no data", embed, `{"object":"list"}`, api.Malformed, 0, "no vectors"},
		{"data is an object", embed, `{"data":{"embedding":[1]}}`, api.Malformed, 0, "unexpected JSON"},
		{"bad base64", embed, `{"data":[{"embedding":"AAAA*A=="}]}`, api.Malformed, 0, "base64 cannot be read"},
		{"base64 of no whole number", embed, `{"data":[{"embedding":"AAAA"}]}`, api.Malformed, 0, "3 base64 bytes"},
		{"empty base64", embed, `{"data":[{"embedding":""}]}`, api.Malformed, 0, "0 base64 bytes"},

		{"no results", rerank, `{"id":"r"}`, api.Malformed, 0, "no results"},
		{"empty results", rerank, `{"results":[]}`, api.Malformed, 0, "no results"},
		{"empty list", rerank, `[]`, api.Malformed, 0, "no results"},
		{"no score", rerank, `{"results":[{"index":0,"relevance_score":1},{"index":1}]}`, api.Malformed, 0, "result 1 has no relevance_score"},
		{"null score", rerank, `[{"index":0,"score":null}]`, api.Malformed, 0, "result 0 has no relevance_score"},
		{"string score", rerank, `{"results":[{"relevance_score":"1"}]}`, api.Malformed, 0, "unexpected JSON"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, f := api.Plain(&api.Request{API: tt.api}, []byte(tt.body))
			require.NotNil(t, f)
			requireFailure(t, f)
			require.Equal(t, tt.class, f.Class)
			require.Equal(t, tt.status, f.Status)
			require.Contains(t, f.Message, tt.text)
		})
	}
}

// Deep nesting must not cost more than its length.
func TestPlainOfDeepJSON(t *testing.T) {
	for _, unit := range []string{`[`, `{"choices":[{"message":{"content":`, `{"data":[{"embedding":`, `{"choices":[{"text":[{"text":`} {
		body := []byte(strings.Repeat(unit, 200_000))
		for _, a := range []*api.API{api.Chat, api.Pooling, api.Rerank} {
			_, f := api.Plain(&api.Request{API: a}, body)
			requireFailure(t, f)
			require.Equal(t, api.Malformed, f.Class)
		}
	}
	for _, body := range []string{
		`{"data":[{"data":` + strings.Repeat("[", 9000) + "1" + strings.Repeat("]", 9000) + `}]}`,
		`{"data":[{"data":` + strings.Repeat("[", 5) + "1, 2" + strings.Repeat("]", 5) + `}]}`,
	} {
		a, f := api.Plain(&api.Request{API: api.Pooling}, []byte(body))
		require.Nil(t, f)
		require.Equal(t, api.Some(1), a.Vectors)
	}
}

func TestErrorMessage(t *testing.T) {
	for _, tt := range []struct{ name, body, want string }{
		{"OpenAI", `{"error":{"message":"no such model","type":"x"}}`, "no such model"},
		{"string", `{"error":"no such model"}`, "no such model"},
		{"FastAPI", `{"detail":"Not Found"}`, "Not Found"},
		{"message", `{"message":"denied"}`, "denied"},
		{"detail that is a list", `{"detail":[{"loc":["body"]}]}`, `{"detail":[{"loc":["body"]}]}`},
		{"SGLang", `{"object":"error","message":"bad"}`, "bad"},
		{"wrapped in a list", `[{"error":{"code":400,"message":"API key not valid"}}]`, "API key not valid"},
		{"HTML", "<html>\r\n<h1>503</h1>\x1b[31m</html>", "<html> <h1>503</h1>\uFFFD[31m</html>"},
		{"nothing", "", ""},
		{"empty error", `{"error":""}`, `{"error":""}`},
		{"Ollama, queue full", string(captured(t, "err-queue-full.json")), "server busy, please try again. maximum pending requests exceeded"},
		{"Ollama, unknown model", string(captured(t, "err-unknown-model.json")), "model 'nope' not found"},
		{"Ollama, wrong type", string(captured(t, "err-wrong-type.json")), "json: cannot unmarshal string into Go struct field ChatCompletionRequest.messages of type []openai.Message"},
		{"Ollama, bad JSON", string(captured(t, "err-bad-json.json")), "unexpected EOF"},
		{"Ollama, 404", string(captured(t, "err-404.json")), "404 page not found"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.want, api.ErrorMessage([]byte(tt.body)))
		})
	}
}

func TestSnippet(t *testing.T) {
	long := strings.Repeat("a", 300)
	for _, tt := range []struct{ name, in, want string }{
		{"nothing", "", ""},
		{"as it is", `{"a": "b"}`, `{"a": "b"}`},
		{"white space", "\n a\t\t b\r\n\v\fc\u00a0d\u2028e ", "a b c d e"},
		{"terminal", "\x1b]0;title\x07x\x00\x7f\u0085\u009b1m", "\uFFFD]0;title\uFFFDx\uFFFD\uFFFD \uFFFD1m"},
		{"direction of writing", "abc\u202egnp.exe\u2066\ufeff", "abc\uFFFDgnp.exe\uFFFD\uFFFD"},
		{"no UTF-8", "a\xff\xfeb\xc3", "a\uFFFDb\uFFFD"},
		{"other writing", "日本語 ümläut 🙂", "日本語 ümläut 🙂"},
		{"just fits", long[:200], long[:200]},
		{"too long", long, long[:200] + "…"},
		{"cut before a character", long[:199] + "日本", long[:199] + "…"},
		{"cut far inside white space", "a" + strings.Repeat(" ", 10_000) + "b", "a…"},
		{"cut inside a character by the first cut", strings.Repeat(" ", 798) + "日本", "…"},
		{"only continuation bytes", strings.Repeat("\x80", 5000), "\uFFFD…"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := api.Snippet([]byte(tt.in))
			require.Equal(t, tt.want, got)
			requireOneLine(t, got)
		})
	}
}

// FuzzPlain holds that no body can do more than fail properly.
func FuzzPlain(f *testing.F) {
	for _, name := range []string{"chat-plain.json", "completions-plain.json", "embeddings-float.json", "embeddings-base64.json", "embeddings-batch3.json", "err-queue-full.json"} {
		f.Add(captured(f, name), "")
	}
	f.Add([]byte(`[{"index":0,"score":0.5}]`), "float16")
	f.Add([]byte(`{"results":[{"index":2,"relevance_score":0.9}],"usage":{"total_tokens":57}}`), "")
	f.Add([]byte(`{"data":[{"data":[[1,2],[3,4e-1]]}]}`), "")
	f.Fuzz(func(t *testing.T, body []byte, dtype string) {
		for _, a := range []*api.API{api.Completions, api.Chat, api.Embeddings, api.Pooling, api.Rerank} {
			answer, fail := api.Plain(&api.Request{API: a, DType: dtype}, body)
			if fail != nil {
				requireFailure(t, fail)
				continue
			}
			requireUsage(t, answer.Usage)
			if answer.Vectors.Known {
				require.Positive(t, answer.Vectors.V)
				require.Positive(t, answer.Dim.V)
			}
			if answer.Results.Known {
				require.Positive(t, answer.Results.V)
			}
		}
		requireOneLine(t, api.Snippet(body))
		requireOneLine(t, api.ErrorMessage(body))
	})
}

func requireUsage(t testing.TB, u api.Usage) {
	t.Helper()
	for _, c := range []api.Opt[int64]{u.Input, u.Output, u.Cached, u.Image, u.Audio, u.Reasoning} {
		require.GreaterOrEqual(t, c.V, int64(0))
		require.True(t, c.Known || c.V == 0)
	}
}
