package api_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/tokpace/pkg/api"
)

// feed gives a stream its events and returns, for each, the choices that had
// output.
func feed(t *testing.T, s *api.Stream, events ...string) [][]int {
	t.Helper()
	var outputs [][]int
	for _, ev := range events {
		out, f := s.Event([]byte(ev), "")
		require.Nil(t, f, "%s", ev)
		outputs = append(outputs, append([]int(nil), out.Choices...))
	}
	return outputs
}

func delta(d string) string {
	return `{"id":"c1","choices":[{"index":0,"delta":` + d + `,"finish_reason":null}]}`
}
func tok(s string) string { return delta(`{"content":"` + s + `"}`) }

func usage(in, out int) string {
	return fmt.Sprintf(`{"choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}}`, in, out, in+out)
}

const (
	role = `{"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`
	fin  = `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
	done = "[DONE]"
)

func TestStreams(t *testing.T) {
	zero := []int{0}
	for _, tt := range []struct {
		name    string
		events  []string
		outputs [][]int // nil: no output event
		answer  api.Answer
		first   api.Opt[int64]
		end     api.Class // "" is success
	}{
		{"H11 role first", []string{role, tok("a"), tok("b"), fin, usage(9, 2), done},
			[][]int{nil, zero, zero, nil, nil, nil},
			api.Answer{Text: "ab", FinishReason: "stop", Usage: api.Usage{Input: n(9), Output: n(2)}}, api.Opt[int64]{}, ""},
		{"H11 role with null content", []string{delta(`{"role":"assistant","content":null}`), tok("a"), fin},
			[][]int{nil, zero, nil}, api.Answer{Text: "a", FinishReason: "stop"}, api.Opt[int64]{}, ""},
		{"H12 reasoning only", []string{delta(`{"reasoning_content":"mm"}`), delta(`{"reasoning_content":"hm","content":null}`), fin, usage(6, 2)},
			[][]int{zero, zero, nil, nil},
			api.Answer{Reasoning: "mmhm", FinishReason: "stop", Usage: api.Usage{Input: n(6), Output: n(2)}}, api.Opt[int64]{}, ""},
		{"H13 tool call by index", []string{
			delta(`{"role":"assistant","content":null}`),
			delta(`{"tool_calls":[{"index":0,"id":"t1","type":"function","function":{"name":"f","arguments":""}}]}`),
			delta(`{"tool_calls":[{"index":0,"function":{"arguments":"{\"x\":1}"}}]}`),
			`{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`, usage(30, 8)},
			[][]int{nil, zero, zero, nil, nil},
			api.Answer{FinishReason: "tool_calls", ToolCalls: []api.ToolCall{{ID: "t1", Name: "f", Arguments: `{"x":1}`}},
				Usage: api.Usage{Input: n(30), Output: n(8)}}, api.Opt[int64]{}, ""},
		{"tool calls without an index", []string{
			delta(`{"tool_calls":[{"id":"t1","function":{"name":"f","arguments":"{"}}]}`),
			delta(`{"tool_calls":[{"function":{"arguments":"}"}}]}`),
			delta(`{"tool_calls":[{"id":"t2","function":{"name":"g","arguments":"["}}]}`),
			delta(`{"tool_calls":[{"id":"t2","function":{"arguments":"]"}}]}`), fin},
			[][]int{zero, zero, zero, zero, nil},
			api.Answer{FinishReason: "stop", ToolCalls: []api.ToolCall{{ID: "t1", Name: "f", Arguments: "{}"}, {ID: "t2", Name: "g", Arguments: "[]"}}},
			api.Opt[int64]{}, ""},
		{"tool calls mixed", []string{
			delta(`{"tool_calls":[{"index":1,"id":"b","function":{"name":"g"}},{"index":0,"id":"a","function":{"name":"f"}}]}`),
			delta(`{"tool_calls":[{"index":0,"function":{"arguments":"1"}},{"index":1,"function":{"arguments":"2"}}]}`), fin},
			[][]int{zero, zero, nil},
			api.Answer{FinishReason: "stop", ToolCalls: []api.ToolCall{{ID: "a", Name: "f", Arguments: "1"}, {ID: "b", Name: "g", Arguments: "2"}}},
			api.Opt[int64]{}, ""},
		{"no tool calls", []string{delta(`{"tool_calls":[]}`), delta(`{"tool_calls":null}`), tok("a"), fin},
			[][]int{nil, nil, zero, nil}, api.Answer{Text: "a", FinishReason: "stop"}, api.Opt[int64]{}, ""},
		{"H16 usage beside empty text", []string{`{"choices":[{"index":0,"text":"a"}]}`, `{"choices":[{"index":0,"text":"","finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":2}}`, done},
			[][]int{zero, nil, nil}, api.Answer{Text: "a", FinishReason: "stop", Usage: api.Usage{Input: n(7), Output: n(2)}}, api.Opt[int64]{}, ""},
		{"H17 running usage", []string{
			`{"choices":[{"index":0,"delta":{"content":"ab"}}],"usage":{"prompt_tokens":12,"completion_tokens":2}}`,
			`{"choices":[{"index":0,"delta":{"content":"c"}}],"usage":{"prompt_tokens":12,"completion_tokens":3}}`,
			fin, usage(12, 3)},
			[][]int{zero, zero, nil, nil}, api.Answer{Text: "abc", FinishReason: "stop", Usage: api.Usage{Input: n(12), Output: n(3)}}, n(2), ""},
		{"zeros that run along, the true usage last", []string{
			`{"choices":[{"text":"a","index":0}],"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}}`, fin, usage(9, 1), done},
			[][]int{zero, nil, nil, nil}, api.Answer{Text: "a", FinishReason: "stop", Usage: api.Usage{Input: n(9), Output: n(1)}}, api.Opt[int64]{}, ""},
		{"zeros after the true usage", []string{tok("a"), usage(9, 1), fin, usage(0, 0), done},
			[][]int{zero, nil, nil, nil, nil}, api.Answer{Text: "a", FinishReason: "stop", Usage: api.Usage{Input: n(9), Output: n(1)}}, api.Opt[int64]{}, ""},
		{"zeros and never more", []string{tok("a"), fin, usage(0, 0), done},
			[][]int{zero, nil, nil, nil}, api.Answer{Text: "a", FinishReason: "stop",
				Warnings: []string{"the usage says 0 output tokens beside output: left out"}}, api.Opt[int64]{}, ""},
		{"null usage", []string{`{"choices":[{"index":0,"delta":{"content":"a"}}],"usage":null}`, fin},
			[][]int{zero, nil}, api.Answer{Text: "a", FinishReason: "stop"}, api.Opt[int64]{}, ""},
		{"H20 two choices", []string{
			`{"choices":[{"index":0,"delta":{"content":"a"}}]}`, `{"choices":[{"index":1,"delta":{"content":"b"}}]}`,
			`{"choices":[{"index":1,"delta":{"content":"d"}},{"index":0,"delta":{"content":"c"}}]}`,
			`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"},{"index":1,"delta":{},"finish_reason":"length"}]}`, usage(5, 4)},
			[][]int{{0}, {1}, {1, 0}, nil, nil},
			api.Answer{Text: "ac", FinishReason: "stop", Usage: api.Usage{Input: n(5), Output: n(4)}}, api.Opt[int64]{}, ""},
		{"a choice twice in an event", []string{`{"choices":[{"delta":{"content":"a"}},{"delta":{"content":"b"}}]}`, fin},
			[][]int{zero, nil}, api.Answer{Text: "ab", FinishReason: "stop"}, api.Opt[int64]{}, ""},
		{"whole messages as events", []string{`{"choices":[{"message":{"content":"a"},"delta":{"content":""}}]}`, fin},
			[][]int{zero, nil}, api.Answer{Text: "a", FinishReason: "stop"}, api.Opt[int64]{}, ""},
		{"parts", []string{delta(`{"content":[{"type":"text","text":"a"}]}`), fin},
			[][]int{zero, nil}, api.Answer{Text: "a", FinishReason: "stop"}, api.Opt[int64]{}, ""},
		{"[DONE] alone is a terminal mark", []string{tok("a"), " [DONE]\n"},
			[][]int{zero, nil}, api.Answer{Text: "a"}, api.Opt[int64]{}, ""},
		{"empty and unknown events", []string{"", " \n", `{}`, `{"type":"ping"}`, `{"choices":null}`, tok("a"), fin},
			[][]int{nil, nil, nil, nil, nil, zero, nil}, api.Answer{Text: "a", FinishReason: "stop"}, api.Opt[int64]{}, ""},
		{"H25 no terminal mark", []string{tok("a"), tok("b"), usage(1, 2)},
			[][]int{zero, zero, nil}, api.Answer{Text: "ab", Usage: api.Usage{Input: n(1), Output: n(2)}}, api.Opt[int64]{}, api.Truncated},
		{"empty finish reason is none", []string{`{"choices":[{"delta":{"content":"a"},"finish_reason":""}]}`},
			[][]int{zero}, api.Answer{Text: "a"}, api.Opt[int64]{}, api.Truncated},
		{"nothing at all", nil, nil, api.Answer{}, api.Opt[int64]{}, api.Truncated},
		{"H22 no output", []string{role, fin, done}, [][]int{nil, nil, nil}, api.Answer{FinishReason: "stop"}, api.Opt[int64]{}, api.Empty},
		{"H22 no output, usage of 0", []string{role, fin, usage(5, 0), done}, [][]int{nil, nil, nil, nil},
			api.Answer{FinishReason: "stop", Usage: api.Usage{Input: n(5), Output: n(0)}}, api.Opt[int64]{}, api.Empty},
		{"the end token came first", []string{fin, usage(5, 1), done}, [][]int{nil, nil, nil},
			api.Answer{FinishReason: "stop", Usage: api.Usage{Input: n(5), Output: n(1)}}, api.Opt[int64]{}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := api.NewStream(api.Chat)
			require.Equal(t, tt.outputs, feed(t, s, tt.events...))
			answer := s.Answer()
			answer.Generated = nil // TestGenerated looks at it
			require.Equal(t, tt.answer, answer)
			require.Equal(t, tt.first, s.FirstTokens())
			count := 0
			for _, o := range tt.outputs {
				if o != nil {
					count++
				}
			}
			require.Equal(t, count, s.Outputs())
			f := s.End()
			if tt.end == "" {
				require.Nil(t, f)
				return
			}
			require.NotNil(t, f)
			requireFailure(t, f)
			require.Equal(t, tt.end, f.Class)
		})
	}
}

func TestAnswerIsNotReasoning(t *testing.T) {
	for d, want := range map[string]bool{
		`{"reasoning":"hm"}`:                   false,
		`{"reasoning_content":"hm"}`:           false,
		`{"reasoning":"hm","content":"a"}`:     true,
		`{"content":"a"}`:                      true,
		`{"tool_calls":[{"index":0}]}`:         true,
		`{"reasoning":"hm","tool_calls":[{}]}`: true,
	} {
		out, f := api.NewStream(api.Chat).Event([]byte(delta(d)), "")
		require.Nil(t, f)
		require.Equal(t, []int{0}, out.Choices, d)
		require.Equal(t, want, out.Answer, d)
	}
}

func TestGenerated(t *testing.T) {
	s := api.NewStream(api.Chat)
	feed(t, s, `{"choices":[{"index":0,"delta":{"content":"a","reasoning":"r"}},{"index":1,"delta":{"content":"b"}}]}`,
		delta(`{"tool_calls":[{"function":{"name":"f","arguments":"{}"}}]}`))
	require.Equal(t, "ra{}b", strings.Join(s.Answer().Generated, ""))

	plain, f := api.Plain(&api.Request{API: api.Chat}, []byte(`{"choices":[`+
		`{"index":0,"message":{"content":"a","reasoning":"r","tool_calls":[{"function":{"name":"f","arguments":"{}"}}]}},`+
		`{"index":1,"message":{"content":"b"}}]}`))
	require.Nil(t, f)
	require.Equal(t, "ra{}b", strings.Join(plain.Generated, ""))
}

func TestStreamFailures(t *testing.T) {
	for _, tt := range []struct {
		name, event, typ string
		class            api.Class
		status           int
		text             string
	}{
		{"H21", `{"error":{"message":"EngineCore fell over","type":"InternalServerError","code":500}}`, "", api.ServerError, 500, "EngineCore fell over"},
		{"SGLang", `{"object":"error","message":"m","code":400}`, "", api.ServerError, 400, "m"},
		{"error in a choice", `{"choices":[{"delta":{"content":""},"error":{"message":"m","code":502}}]}`, "", api.ServerError, 502, "m"},
		{"error finish", `{"choices":[{"delta":{"content":"x"},"finish_reason":"error"}]}`, "", api.ServerError, 0, "finish reason"},
		{"error event", `{"message":"m","code":503}`, "error", api.ServerError, 503, "m"},
		{"error event, wrapped", `{"error":{"message":"m","code":503}}`, "error", api.ServerError, 503, "m"},
		{"error event, text", "it fell over", "error", api.ServerError, 0, "it fell over"},
		{"error event, nothing", "", "error", api.ServerError, 0, "without a message"},
		{"error event, [DONE]", done, "error", api.ServerError, 0, done},
		{"not JSON", `{"choices":[`, "", api.Malformed, 0, "unexpected end"},
		{"HTML", `<html>`, "", api.Malformed, 0, "<html>"},
		{"bad usage", usage(-1, 2), "", api.Malformed, 0, "prompt_tokens is no count"},
		{"bad index", `{"choices":[{"index":-5}]}`, "", api.Malformed, 0, "choice index -5"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, before := range [][]string{nil, {role}, {tok("a"), tok("b")}, {tok("a"), fin}, {tok("a"), fin, usage(1, 1), done}} {
				s := api.NewStream(api.Chat)
				feed(t, s, before...)
				out, f := s.Event([]byte(tt.event), tt.typ)
				require.NotNil(t, f)
				requireFailure(t, f)
				require.Empty(t, out.Choices)
				require.Equal(t, tt.class, f.Class)
				require.Equal(t, tt.status, f.Status)
				require.Contains(t, f.Message, tt.text)
				for _, after := range []string{tok("c"), fin, done} {
					_, again := s.Event([]byte(after), "")
					require.Same(t, f, again, "a failure is final")
				}
				require.Same(t, f, s.End())
			}
		})
	}
}

func TestManyChoices(t *testing.T) {
	s := api.NewStream(api.Completions)
	for i := range 1024 {
		feed(t, s, fmt.Sprintf(`{"choices":[{"index":%d,"text":"a"}]}`, 7*i))
	}
	_, f := s.Event([]byte(`{"choices":[{"index":5,"text":"a"}]}`), "")
	require.NotNil(t, f)
	requireFailure(t, f)
}

func TestNoStreamsOfOtherAPIs(t *testing.T) {
	for _, a := range []*api.API{api.Embeddings, api.Pooling, api.Rerank} {
		s := api.NewStream(a)
		_, f := s.Event([]byte(tok("a")), "")
		require.NotNil(t, f)
		requireFailure(t, f)
		require.Equal(t, api.Malformed, s.End().Class)
	}
}

// events are those of a captured stream, whose lines all end in LF.
func events(t testing.TB, name string) []string {
	var all []string
	for _, ev := range strings.Split(strings.TrimSpace(string(captured(t, name))), "\n\n") {
		data, ok := strings.CutPrefix(ev, "data: ")
		require.True(t, ok)
		all = append(all, data)
	}
	return all
}

func TestStreamsOfARealServer(t *testing.T) {
	for _, tt := range []struct {
		name    string
		api     *api.API
		usage   api.Usage
		outputs int
		finish  string
		end     api.Class
	}{
		{"chat-stream-max1.sse", api.Chat, api.Usage{Input: n(19), Output: n(1)}, 1, "length", ""},
		{"chat-stream-empty.sse", api.Chat, api.Usage{Input: n(12), Output: n(1)}, 0, "stop", ""},
		{"chat-stream-stopword.sse", api.Chat, api.Usage{Input: n(19), Output: n(12)}, 11, "stop", ""},
		{"completions-stream-usage.sse", api.Completions, api.Usage{Input: n(9), Output: n(16)}, 16, "length", ""},
		{"cut-chat-runner-killed.sse", api.Chat, api.Usage{}, 8, "", api.Truncated},
		{"cut-completions-runner-killed.sse", api.Completions, api.Usage{}, 8, "", api.Truncated},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := api.NewStream(tt.api)
			feed(t, s, events(t, tt.name)...)
			require.Equal(t, tt.usage, s.Answer().Usage)
			require.Equal(t, tt.outputs, s.Outputs())
			require.Equal(t, tt.finish, s.Answer().FinishReason)
			require.False(t, s.FirstTokens().Known)
			if tt.end == "" {
				require.Nil(t, s.End())
			} else {
				require.Equal(t, tt.end, s.End().Class)
			}
		})
	}
}

func FuzzStream(f *testing.F) {
	join := func(events ...string) []byte { return []byte(strings.Join(events, "\n")) }
	for _, name := range []string{"chat-stream-empty.sse", "completions-stream-usage.sse", "cut-chat-runner-killed.sse"} {
		f.Add(join(events(f, name)...), "")
	}
	f.Add(join(tok("a"), `{"error":{"message":"\u001b[2J","code":1e99}}`, done), "")
	f.Add(join("nothing"), "error")
	f.Add(join(delta(`{"tool_calls":[{"index":3},{"id":"x"}]}`), fin), "")
	f.Fuzz(func(t *testing.T, lines []byte, typ string) {
		s := api.NewStream(api.Chat)
		var failed *api.Failure
		outputs := 0
		for _, data := range bytes.Split(lines, []byte{'\n'}) {
			out, fail := s.Event(data, typ)
			if failed != nil {
				require.Same(t, failed, fail)
			}
			if fail != nil {
				requireFailure(t, fail)
				require.Empty(t, out.Choices)
				failed = fail
				continue
			}
			seen := map[int]bool{}
			for _, c := range out.Choices {
				require.GreaterOrEqual(t, c, 0)
				require.False(t, seen[c], "a choice once an event")
				seen[c] = true
			}
			require.False(t, out.Answer && len(out.Choices) == 0)
			if len(out.Choices) > 0 {
				outputs++
			}
		}
		require.Equal(t, outputs, s.Outputs())
		a := s.Answer()
		requireUsage(t, a.Usage)
		if outputs == 0 {
			require.Empty(t, a.Text+a.Reasoning)
		}
		if end := s.End(); end != nil {
			requireFailure(t, end)
		} else {
			require.True(t, outputs > 0 || a.Usage.Output.V > 0)
		}
	})
}
