package api_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/tokpace/pkg/api"
)

// vLLM's per-request metrics stand at the top of an answer, in streams in one of
// the last chunks.
func TestTimings(t *testing.T) {
	const metrics = `"metrics":{"time_to_first_token_ms":12.5,"generation_time_ms":90,"queue_time_ms":0.25,"mean_itl_ms":null,"tokens_per_second":11.1}`
	want := api.Timings{TTFT: api.Some(12500 * time.Microsecond), Queue: api.Some(250 * time.Microsecond), Generation: api.Some(90 * time.Millisecond)}

	req, err := api.NewCompletion("m", "p", api.Generation{})
	require.NoError(t, err)
	a, f := api.Plain(req, []byte(`{"choices":[{"index":0,"text":"x","finish_reason":"stop"}],`+metrics+`}`))
	require.Nil(t, f)
	require.Equal(t, want, a.Times)

	st := api.NewStream(api.Chat)
	for _, event := range []string{
		`{"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":"stop"}],"metrics":null}`,
		`{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1},` + metrics + `}`,
		`[DONE]`,
	} {
		_, f := st.Event([]byte(event), "")
		require.Nil(t, f)
	}
	require.Nil(t, st.End())
	require.Equal(t, want, st.Answer().Times)

	text, err := json.Marshal(want)
	require.NoError(t, err)
	require.JSONEq(t, `{"ttft_ns":12500000,"queue_ns":250000,"generation_ns":90000000}`, string(text))
}

// Metrics of other shapes are somebody else's: they fail nothing.
func TestTimingsOfOthers(t *testing.T) {
	req, err := api.NewCompletion("m", "p", api.Generation{})
	require.NoError(t, err)
	for _, metrics := range []string{`null`, `7`, `"x"`, `[]`, `{}`, `{"time_to_first_token_ms":"12"}`, `{"time_to_first_token_ms":-1}`, `{"queue_time_ms":1e300,"mean_itl_ms":{}}`} {
		a, f := api.Plain(req, []byte(`{"choices":[{"index":0,"text":"x","finish_reason":"stop"}],"metrics":`+metrics+`}`))
		require.Nil(t, f, metrics)
		require.Zero(t, a.Times, metrics)
	}
}
