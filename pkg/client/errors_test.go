package client_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/tokpace/pkg/api"
	"example.com/tokpace/pkg/client"
)

// sixEvents are a whole good stream.
var sixEvents = [6]string{role, tok("a"), tok("b"), fins, use(4, 2), done}

const (
	beforeFinish = 3 // events in front of the terminal mark
	eventEvery   = 10
)

// textOf is the text of the first k of them.
func textOf(k int) string { return []string{"", "", "a", "ab", "ab", "ab", "ab"}[k] }

// An errorShape is one way in which a server says, in the middle of a stream, that
// it failed.
type errorShape struct {
	name    string
	event   string
	status  int
	message string
}

func errorEvent(data string) string { return "data: " + data + "\n\n" }

var inBandShapes = []errorShape{
	{"object", errorEvent(`{"error":{"message":"boom","type":"InternalServerError","param":null,"code":503}}`), 503, "boom"},
	{"object, code a word", errorEvent(`{"error":{"message":"boom","code":"rate_limit_exceeded"}}`), 0, "boom"},
	{"object, code in quotes", errorEvent(`{"error":{"message":"boom","code":"429"}}`), 429, "boom"},
	{"object, code null", errorEvent(`{"error":{"message":"boom","type":"api_error","param":null,"code":null}}`), 0, "boom"},
	{"object without message", errorEvent(`{"error":{"code":500}}`), 500, `{"code":500}`},
	{"empty object", errorEvent(`{"error":{}}`), 0, `{}`},
	{"string", errorEvent(`{"error":"boom"}`), 0, "boom"},
	{"string beside a type", errorEvent(`{"error":"boom","error_type":"generation"}`), 0, "boom"},
	{"object: error", errorEvent(`{"object":"error","message":"boom","type":"InternalServerError","code":500}`), 500, "boom"},
	{"event: error, object", "event: error\n" + errorEvent(`{"message":"boom","code":502}`), 502, "boom"},
	{"event: error, error inside", "event: error\n" + errorEvent(`{"error":{"message":"boom","code":502}}`), 502, "boom"},
	{"event: error, plain words", "event: error\n" + errorEvent("boom"), 0, "boom"},
	{"event: error behind the data", "data: boom\nevent:error\n\n", 0, "boom"},
	{"choices[].error", errorEvent(`{"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error","error":{"message":"boom","code":502}}]}`), 502, "boom"},
	{"error beside choices", errorEvent(`{"id":"g","choices":[{"index":0,"delta":{"content":"x"},"finish_reason":"error"}],"error":{"message":"boom","code":"server_error"}}`), 0, "boom"},
	{"error beside usage", errorEvent(`{"error":{"message":"boom","code":500},"choices":[],"usage":` + usage(4, 9) + `}`), 500, "boom"},
	{"finish reason only", errorEvent(`{"choices":[{"index":0,"delta":{},"finish_reason":"error"}]}`), 0, "the finish reason is error"},
	{"on several lines", "data: {\"error\":\ndata: {\"message\": \"boom\",\ndata:  \"code\": 500}}\n\n", 500, "boom"},
}

// paced is a stream with one event every 10 ms.
func paced(events ...string) script {
	var steps []step
	for i, e := range events {
		steps = append(steps, at(eventEvery*(i+1), e))
	}
	return stream(steps...)
}

// withEvent is the good stream with another event in front of the k-th.
func withEvent(k int, event string) script {
	return paced(slices.Insert(slices.Clone(sixEvents[:]), k, event)...)
}

// requireNothingMeasured demands that no statistic can take anything of a failure.
func requireNothingMeasured(t *testing.T, ex *client.Exchange) {
	t.Helper()
	for _, d := range []client.Dur{ex.Connect, ex.Headers, ex.TTFT, ex.FirstAnswer, ex.E2E, ex.BodyComplete, ex.TPOT} {
		require.False(t, d.Known)
	}
	require.Empty(t, ex.ITL)
	for _, n := range []api.Opt[int64]{ex.InputTokens, ex.OutputTokens, ex.CachedTokens, ex.ImageTokens, ex.AudioTokens, ex.ReasoningTokens} {
		require.False(t, n.Known)
	}
	require.Empty(t, ex.InputSource+ex.OutputSource)
}

// atEachPlace plays a script of every place among the events, then a good stream,
// to a client in virtual time. took is how long the exchange lasted.
func atEachPlace(t *testing.T, name string, places int, make func(k int) script, look func(t *testing.T, k int, ex, next *client.Exchange, took time.Duration)) {
	t.Helper()
	for k := range places {
		t.Run(fmt.Sprintf("%s/%d", name, k), func(t *testing.T) {
			s := &scriptServer{scripts: []script{make(k), paced(sixEvents[:]...)}}
			inVirtualTime(t, s, func(t *testing.T, c *client.Client) {
				c.CountTokens = nil
				start := time.Now()
				ex := c.Do(t.Context(), chatRequest(t))
				took := time.Since(start)
				require.Equal(t, 1, ex.Attempts)
				next := c.Do(t.Context(), chatRequest(t))
				require.True(t, next.OK, "the next one: %v", next.Error)
				require.Equal(t, 1, next.Attempts)
				require.Equal(t, "ab", next.Text)
				if !ex.OK {
					requireNothingMeasured(t, ex)
				}
				look(t, k, ex, next, took)
			})
		})
	}
}

// An error inside a stream is a failure wherever it stands, also behind the finish
// reason and behind [DONE]; the body is read to its end, so that the connection
// serves the next request.
func TestEachErrorAtEachPlace(t *testing.T) {
	noLeaks(t)
	for _, shape := range inBandShapes {
		atEachPlace(t, shape.name, 7, func(k int) script { return withEvent(k, shape.event) },
			func(t *testing.T, k int, ex, next *client.Exchange, took time.Duration) {
				require.False(t, ex.OK)
				require.Equal(t, &api.Failure{Class: api.ServerError, Status: shape.status, Message: shape.message}, ex.Error)
				require.Equal(t, 200, ex.Status)
				require.Equal(t, textOf(k), ex.Text)
				require.Equal(t, 7*eventEvery*time.Millisecond, took, "not read to the end")
				require.True(t, next.ConnReused)
			})
	}
}

// What comes behind an error does not change it, nor does the end of the
// connection.
func TestFirstErrorIsTheCause(t *testing.T) {
	noLeaks(t)
	first := errorEvent(`{"error":{"message":"boom","code":503}}`)
	for name, rest := range map[string]script{
		"another error": stream(at(20, first), at(30, errorEvent(`{"error":"other"}`)), at(40, done)),
		"bad JSON":      stream(at(20, first), at(30, errorEvent(`{"choices":[{]}`)), at(40, done)),
		"good events":   stream(at(20, first), at(30, tok("a"), fins, use(1, 1), done)),
		"closed":        cut(fin, at(20, first), at(30, tok("a"))),
		"reset":         cut(reset, at(20, first), at(30, tok("a"))),
		"open event":    stream(at(20, first), at(30, `data: {"choi`)),
	} {
		t.Run(name, func(t *testing.T) {
			play(t, chatRequest(t), want{class: api.ServerError, status: 503, took: int(rest.steps[len(rest.steps)-1].at / time.Millisecond),
				check: func(t *testing.T, ex *client.Exchange, _ *scriptServer) {
					require.Equal(t, "boom", ex.Error.Message)
				}}, rest)
		})
	}
}

// An event that cannot be read ends the exchange: what follows could mean anything.
func TestMalformedEventAtEachPlace(t *testing.T) {
	noLeaks(t)
	for name, c := range map[string]struct{ data, words string }{
		"not JSON":             {`boom`, "not valid JSON at byte 1"},
		"JSON wrong":           {`{"choices":[{]}`, "not valid JSON at byte 14"},
		"two values":           {`{"choices":[]}{"choices":[]}`, "not valid JSON at byte 15"},
		"JSON ends half way":   {`{"choices":[{"index":0,"delta":{"content":"x`, "unexpected end of JSON input"},
		"a list":               {`[{"choices":[]}]`, "unexpected JSON"},
		"choices of a kind":    {`{"choices":{"index":0}}`, "unexpected JSON"},
		"content is a number":  {`{"choices":[{"index":0,"delta":{"content":7}}]}`, "text is neither a string nor a list of parts: 7"},
		"usage is a word":      {`{"choices":[],"usage":"none"}`, `usage is not an object: "none"`},
		"tokens are negative":  {`{"choices":[],"usage":{"completion_tokens":-1}}`, "usage: completion_tokens is no count: -1"},
		"an index below zero":  {`{"choices":[{"index":-1,"delta":{"content":"x"}}]}`, "choice index -1"},
		"two events in a line": {`{"choices":[]} data: {"choices":[]}`, "not valid JSON"},
	} {
		atEachPlace(t, name, 7, func(k int) script { return withEvent(k, errorEvent(c.data)) },
			func(t *testing.T, k int, ex, next *client.Exchange, took time.Duration) {
				require.False(t, ex.OK)
				require.Equal(t, api.Malformed, ex.Error.Class)
				require.Zero(t, ex.Error.Status)
				require.Contains(t, ex.Error.Message, c.words)
				require.Equal(t, textOf(k), ex.Text)
				require.Equal(t, time.Duration(k+1)*eventEvery*time.Millisecond, took)
			})
	}
}

// A gateway whose server died writes its own answer into the middle of the one that
// it had begun.
func TestHTTPErrorInTheBodyAtEachPlace(t *testing.T) {
	noLeaks(t)
	const page = "HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/html\r\nContent-Length: 19\r\n\r\n<html>502</html>\r\n\r\n"
	atEachPlace(t, "in place of a chunk", 7, func(k int) script {
		s := withEvent(k, page)
		s.steps[k+1].data = page // without a chunk's frame
		s.steps = s.steps[:k+2]
		s.end = fin
		return s
	}, func(t *testing.T, k int, ex, next *client.Exchange, took time.Duration) {
		require.False(t, ex.OK)
		require.Equal(t, api.Malformed, ex.Error.Class, "%v", ex.Error)
		require.Equal(t, textOf(k), ex.Text)
		require.Equal(t, time.Duration(k+1)*eventEvery*time.Millisecond, took)
		require.False(t, next.ConnReused)
	})
	// As data of the body its lines are fields that no reader of event streams
	// knows: the answer then lacks its end, if it was not there before.
	atEachPlace(t, "in place of the rest", 7, func(k int) script {
		s := withEvent(k, page)
		s.steps = s.steps[:k+2]
		s.steps[k+1].data = httpChunk(page) + "0\r\n\r\n"
		return s
	}, func(t *testing.T, k int, ex, next *client.Exchange, took time.Duration) {
		require.Equal(t, k > beforeFinish, ex.OK, "%v", ex.Error)
		if !ex.OK {
			require.Equal(t, api.Truncated, ex.Error.Class)
		}
		require.Equal(t, textOf(k), ex.Text)
		require.Equal(t, time.Duration(k+1)*eventEvery*time.Millisecond, took)
		require.True(t, next.ConnReused)
	})
}

// A stream that ends after k whole events, or inside the event behind them.
func TestTruncationAtEachPlace(t *testing.T) {
	noLeaks(t)
	for name, end := range map[string]ending{"FIN": fin, "RST": reset} {
		// However much is there: the body has no end.
		atEachPlace(t, name, 7, func(k int) script {
			s := paced(sixEvents[:]...)
			s.steps, s.end = s.steps[:k+1], end
			if k == 6 {
				s.steps[k].data = httpChunk(done)
			}
			// Later: a reset takes away what has not been read.
			s.steps = append(s.steps, at(eventEvery*k+5, ""))
			return s
		}, func(t *testing.T, k int, ex, next *client.Exchange, took time.Duration) {
			require.False(t, ex.OK)
			require.Equal(t, api.Truncated, ex.Error.Class, "%v", ex.Error)
			require.Contains(t, ex.Error.Message, "body")
			require.Equal(t, textOf(k), ex.Text)
			require.Equal(t, time.Duration(eventEvery*k+5)*time.Millisecond, took)
			require.False(t, next.ConnReused)
		})
	}
	atEachPlace(t, "proper end of the body", 7, func(k int) script {
		s := paced(sixEvents[:]...)
		s.steps = s.steps[:k+1]
		if k < 6 {
			s.steps[k].data += "0\r\n\r\n"
		}
		return s
	}, func(t *testing.T, k int, ex, next *client.Exchange, took time.Duration) {
		require.Equal(t, k > beforeFinish, ex.OK, "%v", ex.Error)
		if !ex.OK {
			require.Equal(t, api.Truncated, ex.Error.Class)
		}
		require.Equal(t, textOf(k), ex.Text)
		require.Equal(t, k > beforeFinish+1, ex.OutputTokens.Known)
		require.True(t, next.ConnReused)
	})
	atEachPlace(t, "proper end inside an event", 6, func(k int) script {
		s := paced(sixEvents[:]...)
		s.steps = s.steps[:k+2]
		s.steps[k+1].data = httpChunk(strings.TrimRight(sixEvents[k], "]}\n")) + "0\r\n\r\n"
		return s
	}, func(t *testing.T, k int, ex, next *client.Exchange, took time.Duration) {
		require.False(t, ex.OK)
		require.Equal(t, api.Truncated, ex.Error.Class, "%v", ex.Error)
		require.Contains(t, ex.Error.Message, "inside an event")
		require.Equal(t, textOf(k), ex.Text)
	})
}
