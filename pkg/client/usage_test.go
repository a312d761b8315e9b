package client_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/tokpace/pkg/api"
	"example.com/tokpace/pkg/client"
)

// tokenCounts are the counts of an exchange; -1 is unknown.
type tokenCounts struct {
	in, out, cached, image, audio, reasoning int64
}

func counts(in, out int64) tokenCounts { return tokenCounts{in, out, -1, -1, -1, -1} }

func countsOf(ex *client.Exchange) tokenCounts {
	n := func(o api.Opt[int64]) int64 {
		if !o.Known {
			return -1
		}
		return o.V
	}
	return tokenCounts{n(ex.InputTokens), n(ex.OutputTokens), n(ex.CachedTokens), n(ex.ImageTokens), n(ex.AudioTokens), n(ex.ReasoningTokens)}
}

// lines makes a stream's events of their data, one a line.
func lines(data string) string {
	var b strings.Builder
	for line := range strings.Lines(data) {
		if line = strings.TrimSpace(line); line != "" {
			b.WriteString(line + "\n\n")
		}
	}
	return b.String()
}

// The usage of the servers that people run, in the places where each has it. The
// bytes are made up; their shape is that of the servers.
func TestUsageOfServers(t *testing.T) {
	noLeaks(t)
	completion := completionRequest(t)
	chat := chatRequest(t)
	plainChat, err := api.NewChat("m", []api.Message{{Role: "user", Content: "hi"}}, api.Generation{})
	require.NoError(t, err)
	for name, c := range map[string]struct {
		req    *api.Request
		stream string // one event a line
		tokens tokenCounts
		events int
		text   string
		finish string
		warns  int
	}{
		"vLLM, chat": {chat, `
			data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"prompt_token_ids":null}
			data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"one"},"logprobs":null,"finish_reason":null,"token_ids":null}]}
			data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":" two"},"logprobs":null,"finish_reason":"length","stop_reason":null,"token_ids":null}]}
			data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":{"prompt_tokens":31,"total_tokens":33,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":16}}}
			data: [DONE]`,
			tokenCounts{31, 2, 16, -1, -1, -1}, 2, "one two", "length", 0},
		"vLLM, details null": {chat, `
			data: {"choices":[{"index":0,"delta":{"content":"one"},"finish_reason":"stop"}],"usage":null}
			data: {"choices":[],"usage":{"prompt_tokens":31,"total_tokens":32,"completion_tokens":1,"prompt_tokens_details":null}}
			data: [DONE]`,
			counts(31, 1), 1, "one", "stop", 0},
		"vLLM, continuous usage": {completion, `
			data: {"id":"cmpl-1","object":"text_completion","created":1,"model":"m","choices":[{"index":0,"text":"one","logprobs":null,"finish_reason":null,"stop_reason":null}],"usage":{"prompt_tokens":5,"total_tokens":6,"completion_tokens":1}}
			data: {"id":"cmpl-1","object":"text_completion","created":1,"model":"m","choices":[{"index":0,"text":" two","logprobs":null,"finish_reason":"length","stop_reason":null}],"usage":{"prompt_tokens":5,"total_tokens":7,"completion_tokens":2}}
			data: {"id":"cmpl-1","object":"text_completion","created":1,"model":"m","choices":[],"usage":{"prompt_tokens":5,"total_tokens":7,"completion_tokens":2}}
			data: [DONE]`,
			counts(5, 2), 2, "one two", "length", 0},
		"Azure OpenAI": {chat, `
			data: {"choices":[],"created":0,"id":"","model":"","object":"","prompt_filter_results":[{"prompt_index":0,"content_filter_results":{"hate":{"filtered":false,"severity":"safe"},"jailbreak":{"filtered":false,"detected":false}}}]}
			data: {"choices":[{"content_filter_results":{},"delta":{"content":"","refusal":null,"role":"assistant"},"finish_reason":null,"index":0,"logprobs":null}],"created":1,"id":"chatcmpl-a","model":"gpt-z-2026","object":"chat.completion.chunk","system_fingerprint":"fp_1","usage":null}
			data: {"choices":[{"content_filter_results":{"hate":{"filtered":false,"severity":"safe"},"protected_material_code":{"filtered":false,"detected":false}},"delta":{"content":"one"},"finish_reason":null,"index":0,"logprobs":null}],"created":1,"id":"chatcmpl-a","model":"gpt-z-2026","object":"chat.completion.chunk","usage":null}
			data: {"choices":[{"content_filter_results":{},"delta":{"content":" two"},"finish_reason":null,"index":0,"logprobs":null}],"created":1,"id":"chatcmpl-a","model":"gpt-z-2026","object":"chat.completion.chunk","usage":null}
			data: {"choices":[{"content_filter_results":{},"delta":{},"finish_reason":"stop","index":0,"logprobs":null}],"created":1,"id":"chatcmpl-a","model":"gpt-z-2026","object":"chat.completion.chunk","usage":null}
			data: {"choices":[],"created":1,"id":"chatcmpl-a","model":"gpt-z-2026","object":"chat.completion.chunk","usage":{"completion_tokens":9,"completion_tokens_details":{"accepted_prediction_tokens":0,"audio_tokens":0,"reasoning_tokens":7,"rejected_prediction_tokens":0},"prompt_tokens":20,"prompt_tokens_details":{"audio_tokens":0,"cached_tokens":0},"total_tokens":29}}
			data: [DONE]`,
			tokenCounts{20, 9, 0, -1, 0, 7}, 2, "one two", "stop", 0},
		"Azure OpenAI, filter in chunks of its own": {chat, `
			data: {"choices":[{"delta":{"content":"one"},"finish_reason":null,"index":0}],"id":"chatcmpl-a","object":"chat.completion.chunk","usage":null}
			data: {"choices":[{"content_filter_offsets":{"check_offset":44,"start_offset":44,"end_offset":47},"content_filter_results":{"hate":{"filtered":false,"severity":"safe"}},"finish_reason":null,"index":0}],"created":0,"id":"","model":"","object":""}
			data: {"choices":[{"delta":{},"finish_reason":"content_filter","index":0}],"id":"chatcmpl-a","object":"chat.completion.chunk","usage":null}
			data: {"choices":[{"content_filter_offsets":{"check_offset":47,"start_offset":47,"end_offset":47},"content_filter_results":{},"finish_reason":null,"index":0}],"created":0,"id":"","model":"","object":""}
			data: [DONE]`,
			counts(-1, -1), 1, "one", "content_filter", 0},
		"llama.cpp, usage in the finish chunk": {chat, `
			data: {"choices":[{"finish_reason":null,"index":0,"delta":{"role":"assistant","content":null}}],"created":1,"id":"chatcmpl-l","model":"m","system_fingerprint":"b1-x","object":"chat.completion.chunk"}
			data: {"choices":[{"finish_reason":null,"index":0,"delta":{"content":"one"}}],"created":1,"id":"chatcmpl-l","model":"m","object":"chat.completion.chunk"}
			data: {"choices":[{"finish_reason":null,"index":0,"delta":{"content":" two"}}],"created":1,"id":"chatcmpl-l","model":"m","object":"chat.completion.chunk"}
			data: {"choices":[{"finish_reason":"length","index":0,"delta":{}}],"created":1,"id":"chatcmpl-l","model":"m","object":"chat.completion.chunk","usage":{"completion_tokens":2,"prompt_tokens":11,"total_tokens":13},"timings":{"prompt_n":11,"prompt_ms":41.5,"prompt_per_token_ms":3.77,"predicted_n":2,"predicted_ms":20.1,"predicted_per_second":99.5}}
			data: [DONE]`,
			counts(11, 2), 2, "one two", "length", 0},
		"llama.cpp, usage and timings behind it": {chat, `
			data: {"choices":[{"finish_reason":null,"index":0,"delta":{"reasoning_content":"hm"}}],"object":"chat.completion.chunk"}
			data: {"choices":[{"finish_reason":"stop","index":0,"delta":{}}],"object":"chat.completion.chunk"}
			data: {"choices":[],"object":"chat.completion.chunk","usage":{"completion_tokens":1,"prompt_tokens":11,"total_tokens":12,"prompt_tokens_details":{"cached_tokens":10}},"timings":{"cache_n":10,"prompt_n":1,"predicted_n":1}}
			data: [DONE]`,
			tokenCounts{11, 1, 10, -1, -1, -1}, 1, "", "stop", 0},
		"Ollama, zeros until the last": {completion, `
			data: {"id":"cmpl-7","object":"text_completion","created":1,"choices":[{"text":"one","index":0,"finish_reason":null}],"model":"m","system_fingerprint":"fp_ollama","usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}}
			data: {"id":"cmpl-7","object":"text_completion","created":1,"choices":[{"text":" two","index":0,"finish_reason":null}],"model":"m","system_fingerprint":"fp_ollama","usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}}
			data: {"id":"cmpl-7","object":"text_completion","created":1,"choices":[{"text":"","index":0,"finish_reason":"stop"}],"model":"m","system_fingerprint":"fp_ollama","usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}}
			data: {"id":"cmpl-7","object":"text_completion","created":1,"choices":[],"model":"m","system_fingerprint":"fp_ollama","usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12}}
			data: [DONE]`,
			counts(9, 3), 2, "one two", "stop", 0},
		"Ollama, zeros to the end": {completion, `
			data: {"choices":[{"text":"one","index":0,"finish_reason":null}],"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}}
			data: {"choices":[{"text":"","index":0,"finish_reason":"stop"}],"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}}
			data: [DONE]`,
			counts(-1, -1), 1, "one", "stop", 1},
		"zeros behind the true usage": {completion, `
			data: {"choices":[{"text":"one","index":0,"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":1,"total_tokens":10}}
			data: {"choices":[],"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}}
			data: [DONE]`,
			counts(9, 1), 1, "one", "stop", 0},
		"OpenRouter": {chat, `
			: OPENROUTER PROCESSING
			data: {"id":"gen-1","provider":"Some","model":"a/b","object":"chat.completion.chunk","created":1,"choices":[{"index":0,"delta":{"role":"assistant","content":"","reasoning":"hm","reasoning_details":[{"type":"reasoning.text","text":"hm","index":0}]},"finish_reason":null,"native_finish_reason":null,"logprobs":null}]}
			: OPENROUTER PROCESSING
			data: {"id":"gen-1","provider":"Some","model":"a/b","object":"chat.completion.chunk","created":1,"choices":[{"index":0,"delta":{"role":"assistant","content":"one"},"finish_reason":null,"native_finish_reason":null,"logprobs":null}]}
			data: {"id":"gen-1","provider":"Some","model":"a/b","object":"chat.completion.chunk","created":1,"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":"stop","native_finish_reason":"end_turn","logprobs":null}]}
			data: {"id":"gen-1","provider":"Some","model":"a/b","object":"chat.completion.chunk","created":1,"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null,"native_finish_reason":null,"logprobs":null}],"usage":{"prompt_tokens":14,"completion_tokens":163,"total_tokens":177,"cost":0.0012,"is_byok":false,"prompt_tokens_details":{"cached_tokens":0,"audio_tokens":0,"video_tokens":0},"cost_details":{"upstream_inference_cost":null},"completion_tokens_details":{"reasoning_tokens":160,"image_tokens":0}}}
			data: [DONE]`,
			tokenCounts{14, 163, 0, -1, 0, 160}, 2, "one", "stop", 0},
	} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, &scriptServer{scripts: []script{stream(at(10, lines(c.stream)))}}, func(t *testing.T, cl *client.Client) {
				cl.CountTokens = nil
				ex := cl.Do(t.Context(), c.req)
				require.True(t, ex.OK, "%v", ex.Error)
				require.Equal(t, c.tokens, countsOf(ex))
				require.Equal(t, c.events, ex.Events.V)
				require.Equal(t, c.text, ex.Text)
				require.Equal(t, c.finish, ex.FinishReason)
				require.Len(t, ex.Warnings, c.warns)
			})
		})
	}

	embed, err := api.NewEmbeddings("m", []string{"a", "b"}, "", "")
	require.NoError(t, err)
	rerank, err := api.NewRerank("m", "q", []string{"a", "b"})
	require.NoError(t, err)
	for name, c := range map[string]struct {
		req            *api.Request
		body           string
		tokens         tokenCounts
		vectors, items int
	}{
		"vLLM, chat": {plainChat, `{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"one","refusal":null,"annotations":null,"audio":null,"function_call":null,"tool_calls":[],"reasoning_content":null},"logprobs":null,"finish_reason":"stop","stop_reason":null,"token_ids":null}],"service_tier":null,"system_fingerprint":null,"usage":{"prompt_tokens":31,"total_tokens":33,"completion_tokens":2,"prompt_tokens_details":null},"prompt_logprobs":null,"prompt_token_ids":null,"kv_transfer_params":null}`,
			counts(31, 2), 0, 0},
		"Azure OpenAI, chat": {plainChat, `{"choices":[{"content_filter_results":{"hate":{"filtered":false,"severity":"safe"}},"finish_reason":"stop","index":0,"logprobs":null,"message":{"annotations":[],"content":"one","refusal":null,"role":"assistant"}}],"created":1,"id":"chatcmpl-a","model":"gpt-z-2026","object":"chat.completion","prompt_filter_results":[{"prompt_index":0,"content_filter_results":{}}],"usage":{"completion_tokens":2,"completion_tokens_details":{"audio_tokens":0,"reasoning_tokens":0},"prompt_tokens":20,"prompt_tokens_details":{"audio_tokens":0,"cached_tokens":0},"total_tokens":22}}`,
			tokenCounts{20, 2, 0, -1, 0, 0}, 0, 0},
		"llama.cpp, chat": {plainChat, `{"choices":[{"finish_reason":"stop","index":0,"message":{"role":"assistant","content":"one"}}],"created":1,"model":"m","system_fingerprint":"b1-x","object":"chat.completion","usage":{"completion_tokens":2,"prompt_tokens":11,"total_tokens":13},"id":"chatcmpl-l","timings":{"prompt_n":11,"prompt_ms":41.5,"predicted_n":2}}`,
			counts(11, 2), 0, 0},
		"llama.cpp, embeddings": {embed, `{"model":"m","object":"list","usage":{"prompt_tokens":6,"total_tokens":6},"data":[{"embedding":[0.1,-0.2],"index":0,"object":"embedding"},{"embedding":[1e-3,2],"index":1,"object":"embedding"}]}`,
			counts(6, -1), 2, 0},
		"llama.cpp, rerank": {rerank, `{"model":"m","object":"list","usage":{"prompt_tokens":21,"total_tokens":21},"results":[{"index":0,"relevance_score":-3.5},{"index":1,"relevance_score":2.25}]}`,
			counts(21, -1), 0, 2},
		"vLLM, embeddings": {embed, `{"id":"embd-1","object":"list","created":1,"model":"m","data":[{"index":0,"object":"embedding","embedding":[0.1,-0.2]},{"index":1,"object":"embedding","embedding":[0,2]}],"usage":{"prompt_tokens":6,"total_tokens":6,"completion_tokens":0,"prompt_tokens_details":null}}`,
			counts(6, -1), 2, 0},
		"vLLM, rerank": {rerank, `{"id":"rerank-1","model":"m","usage":{"prompt_tokens":21,"total_tokens":21},"results":[{"index":1,"document":{"text":"b","multi_modal":null},"relevance_score":0.99},{"index":0,"document":{"text":"a","multi_modal":null},"relevance_score":0.01}]}`,
			counts(21, -1), 0, 2},
		"TEI, embeddings": {embed, `{"object":"list","data":[{"object":"embedding","embedding":[0.1,-0.2],"index":0},{"object":"embedding","embedding":[0.3,0.4],"index":1}],"model":"BAAI/bge","usage":{"prompt_tokens":8,"total_tokens":8}}`,
			counts(8, -1), 2, 0},
		"TEI, rerank": {rerank, `[{"index":1,"score":0.8997},{"index":0,"score":0.0001}]`,
			counts(-1, -1), 0, 2},
		"TEI, rerank with texts": {rerank, "\n [{\"index\":1,\"text\":\"b\",\"score\":0},{\"index\":0,\"text\":\"a\",\"score\":-1.5e-7}]\n",
			counts(-1, -1), 0, 2},
		"infinity, embeddings": {embed, `{"object":"list","data":[{"object":"embedding","embedding":[0.1,-0.2],"index":0},{"object":"embedding","embedding":[0.3,0.4],"index":1}],"model":"m","usage":{"prompt_tokens":2,"total_tokens":2},"id":"infinity-1","created":1}`,
			counts(2, -1), 2, 0},
		"infinity, rerank": {rerank, `{"object":"rerank","results":[{"relevance_score":0.9,"index":1,"document":null},{"relevance_score":0.1,"index":0,"document":null}],"model":"m","usage":{"prompt_tokens":4,"total_tokens":4},"id":"infinity-2","created":1}`,
			counts(4, -1), 0, 2},
		"total alone": {rerank, `{"results":[{"relevance_score":0.9,"index":1},{"relevance_score":0.1,"index":0}],"usage":{"total_tokens":57}}`,
			counts(57, -1), 0, 2},
		"Ollama, embeddings": {embed, `{"object":"list","data":[{"object":"embedding","embedding":[0.1,-0.2],"index":0},{"object":"embedding","embedding":[0.3,0.4],"index":1}],"model":"m","usage":{"prompt_tokens":7,"total_tokens":7}}`,
			counts(7, -1), 2, 0},
		"OpenRouter, chat": {plainChat, `{"id":"gen-1","provider":"Some","model":"a/b","object":"chat.completion","created":1,"choices":[{"logprobs":null,"finish_reason":"stop","native_finish_reason":"end_turn","index":0,"message":{"role":"assistant","content":"one","refusal":null,"reasoning":"hm"}}],"usage":{"prompt_tokens":14,"completion_tokens":163,"total_tokens":177,"cost":0.0012,"prompt_tokens_details":{"cached_tokens":0},"completion_tokens_details":{"reasoning_tokens":160}}}`,
			tokenCounts{14, 163, 0, -1, -1, 160}, 0, 0},
	} {
		t.Run("plain/"+name, func(t *testing.T) {
			inVirtualTime(t, &scriptServer{scripts: []script{plain(10, 200, jsonType, c.body)}}, func(t *testing.T, cl *client.Client) {
				cl.CountTokens = nil
				ex := cl.Do(t.Context(), c.req)
				require.True(t, ex.OK, "%v", ex.Error)
				require.Equal(t, c.tokens, countsOf(ex))
				require.Empty(t, ex.Warnings)
				require.Equal(t, api.Opt[int]{V: c.vectors, Known: c.vectors > 0}, ex.Vectors)
				require.Equal(t, api.Opt[int]{V: c.items, Known: c.items > 0}, ex.Results)
				if c.tokens.in >= 0 {
					require.Equal(t, client.FromServer, ex.InputSource)
				}
				// The client's own count stands in only where the server says nothing.
				own := *c.req
				own.InputTokens = api.Some[int64](1000)
				ex = cl.Do(t.Context(), &own)
				require.True(t, ex.OK, "%v", ex.Error)
				if c.tokens.in >= 0 {
					require.Equal(t, c.tokens, countsOf(ex))
					return
				}
				require.Equal(t, api.Some[int64](1000), ex.InputTokens)
				require.Equal(t, client.FromClient, ex.InputSource)
			})
		})
	}
}
