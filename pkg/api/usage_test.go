package api_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/tokpace/pkg/api"
)

func n(v int64) api.Opt[int64] { return api.Some(v) }

func TestUsage(t *testing.T) {
	for _, tt := range []struct {
		name, usage string
		generate    api.Usage // what a chat answer makes of it
		vectors     api.Usage // what an embeddings answer makes of it
	}{
		{name: "absent", usage: ``},
		{name: "null", usage: `null`},
		{name: "empty", usage: `{}`},
		{name: "nulls", usage: `{"prompt_tokens":null,"completion_tokens":null,"total_tokens":null,"prompt_tokens_details":null}`},
		{"plain", `{"prompt_tokens":7,"completion_tokens":2,"total_tokens":9}`,
			api.Usage{Input: n(7), Output: n(2)}, api.Usage{Input: n(7), Output: n(2)}},
		{"prompt alone", `{"prompt_tokens":7,"total_tokens":7}`, api.Usage{Input: n(7)}, api.Usage{Input: n(7)}},
		{"total alone", `{"total_tokens":57}`, api.Usage{}, api.Usage{Input: n(57)}},
		{"total beside zeros", `{"prompt_tokens":0,"completion_tokens":0,"total_tokens":57}`,
			api.Usage{Input: n(0), Output: n(0)}, api.Usage{Input: n(57)}},
		{"zeros", `{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}`,
			api.Usage{Input: n(0), Output: n(0)}, api.Usage{Input: n(0)}},
		{"details", `{"prompt_tokens":1606,"completion_tokens":9,"prompt_tokens_details":{"cached_tokens":16,"image_tokens":1073,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":4,"x":"y"}}`,
			api.Usage{Input: n(1606), Output: n(9), Cached: n(16), Image: n(1073), Audio: n(0), Reasoning: n(4)},
			api.Usage{Input: n(1606), Output: n(9), Cached: n(16), Image: n(1073), Audio: n(0), Reasoning: n(4)}},
		{"details that are none", `{"prompt_tokens":1,"prompt_tokens_details":[],"completion_tokens_details":"none"}`,
			api.Usage{Input: n(1)}, api.Usage{Input: n(1)}},
		{"whole numbers with a point", `{"prompt_tokens":12.0,"completion_tokens":1.2e1}`,
			api.Usage{Input: n(12), Output: n(12)}, api.Usage{Input: n(12), Output: n(12)}},
		{"large", `{"prompt_tokens":9223372036854775807}`, api.Usage{Input: n(9223372036854775807)}, api.Usage{Input: n(9223372036854775807)}},
		{"keys count as they are written", `{"prompt_tokens":7,"Prompt_Tokens":8,"PROMPT_TOKENS":9,"completionTokens":3}`,
			api.Usage{Input: n(7)}, api.Usage{Input: n(7)}},
		{"the last of equal keys counts, as a whole", `{"prompt_tokens":7,"prompt_tokens":8,"prompt_tokens_details":{"cached_tokens":1},"prompt_tokens_details":{"image_tokens":2}}`,
			api.Usage{Input: n(8), Image: n(2)}, api.Usage{Input: n(8), Image: n(2)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			field := ""
			if tt.usage != "" {
				field = `,"usage":` + tt.usage
			}
			a, f := api.Plain(&api.Request{API: api.Chat}, []byte(`{"choices":[{"message":{"content":""}}]`+field+`}`))
			require.Nil(t, f)
			require.Equal(t, tt.generate, a.Usage)
			for kind, body := range map[*api.API]string{
				api.Embeddings: `{"data":[{"embedding":[1]}]`,
				api.Rerank:     `{"results":[{"relevance_score":1}]`,
			} {
				a, f = api.Plain(&api.Request{API: kind}, []byte(body+field+`}`))
				require.Nil(t, f)
				require.Equal(t, tt.vectors, a.Usage, kind.Name)
			}
		})
	}
}

// A count that is none fails the exchange: a wrong number would pass for a
// measurement, and no number for a server that reports none.
func TestUsageThatCannotBe(t *testing.T) {
	for _, bad := range []string{`-1`, `-0.5`, `12.5`, `"12"`, `true`, `[]`, `{}`, `1e300`, `1e400`, `9223372036854775808`, `-9223372036854775809`} {
		for _, usage := range []string{
			`{"prompt_tokens":%s}`, `{"completion_tokens":%s}`, `{"total_tokens":%s}`,
			`{"prompt_tokens":5,"prompt_tokens_details":{"image_tokens":%s}}`,
			`{"completion_tokens_details":{"reasoning_tokens":%s}}`,
		} {
			body := fmt.Sprintf(`{"choices":[{"text":"a"}],"usage":`+usage+`}`, bad)
			_, f := api.Plain(&api.Request{API: api.Chat}, []byte(body))
			require.NotNil(t, f, body)
			requireFailure(t, f)
			require.Equal(t, api.Malformed, f.Class)
			require.Contains(t, f.Message, "_tokens is no count")
		}
	}
}

func FuzzUsage(f *testing.F) {
	f.Add(`{"prompt_tokens":7,"completion_tokens":2,"total_tokens":9}`)
	f.Add(`{"prompt_tokens":12.0,"prompt_tokens_details":{"cached_tokens":1e2,"image_tokens":null},"completion_tokens_details":[]}`)
	f.Add(`{"total_tokens":57,"prompt_tokens":0,"completion_tokens":-0}`)
	f.Add(`{"prompt_tokens":1e-400,"completion_tokens":1e400}`)
	f.Fuzz(func(t *testing.T, usage string) {
		var got []api.Usage
		for range 2 {
			a, fail := api.Plain(&api.Request{API: api.Completions}, []byte(`{"choices":[{"text":""}],"usage":`+usage+`}`))
			if fail != nil {
				requireFailure(t, fail)
				return
			}
			requireUsage(t, a.Usage)
			got = append(got, a.Usage)
		}
		require.Equal(t, got[0], got[1])

		// The same usage in a stream, twice: a running total is not summed.
		s := api.NewStream(api.Completions)
		for range 2 {
			_, fail := s.Event([]byte(`{"choices":[],"usage":`+usage+`}`), "")
			if fail != nil {
				requireFailure(t, fail) // the fuzzer closed the object and opened another
				return
			}
		}
		requireUsage(t, s.Answer().Usage)
	})
}
