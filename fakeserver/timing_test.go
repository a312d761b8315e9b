package fakeserver

import (
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

const chat = "/v1/chat/completions"

// Each row of the table in the package comment, in virtual time: what the client sees and what the journal says.
func TestTimingTable(t *testing.T) {
	noLeaks(t)
	stream := userMessage("hi", `,"max_tokens":3,"stream":true`)
	streamTwo := userMessage("hi", `,"max_tokens":2,"n":2,"stream":true`)
	plain := userMessage("hi", `,"max_tokens":3`)
	vectors := `{"input":"hi","encoding_format":"bytes_only"}`
	slow := Config{Headers: 10 * ms, TTFT: 500 * ms, ITL: 500 * ms, Pieces: 4, PieceDelay: 50 * ms}
	pieces := []time.Duration{60 * ms, 110 * ms, 160 * ms, 210 * ms}
	for _, tc := range []struct {
		name, path, body string
		cfg              Config
		headers          time.Duration
		events           []time.Duration
	}{
		{"stream at once", chat, stream, Config{}, 0, make([]time.Duration, 5)},
		{"stream", chat, stream, Config{TTFT: 20 * ms, ITL: 7 * ms}, 0,
			[]time.Duration{20 * ms, 20 * ms, 27 * ms, 34 * ms, 34 * ms}},
		{"stream with headers", chat, stream, Config{Headers: 5 * ms, TTFT: 20 * ms, ITL: 7 * ms}, 5 * ms,
			[]time.Duration{20 * ms, 20 * ms, 27 * ms, 34 * ms, 34 * ms}},
		{"late headers hold tokens back", chat, stream, Config{Headers: 30 * ms, TTFT: 20 * ms, ITL: 7 * ms}, 30 * ms,
			[]time.Duration{30 * ms, 30 * ms, 30 * ms, 34 * ms, 34 * ms}},
		{"two choices", chat, streamTwo, Config{TTFT: 20 * ms, ITL: 7 * ms}, 0,
			[]time.Duration{20 * ms, 20 * ms, 20 * ms, 20 * ms, 27 * ms, 27 * ms, 27 * ms}},
		{"piece delay is not for streams", chat, stream, slow, 10 * ms,
			[]time.Duration{500 * ms, 500 * ms, 1000 * ms, 1500 * ms, 1500 * ms}},
		{"plain", chat, plain, Config{TTFT: 20 * ms, ITL: 7 * ms}, 34 * ms, []time.Duration{34 * ms}},
		{"plain, late headers", chat, plain, Config{Headers: 40 * ms, TTFT: 20 * ms, ITL: 7 * ms}, 40 * ms, []time.Duration{40 * ms}},
		{"plain in pieces", chat, plain, slow, 10 * ms, pieces},
		{"embeddings", "/v1/embeddings", `{"input":"hi"}`, Config{TTFT: 20 * ms, ITL: 7 * ms}, 20 * ms, []time.Duration{20 * ms}},
		{"embeddings in pieces", "/v1/embeddings", `{"input":"hi"}`, slow, 10 * ms, pieces},
		{"bytes", "/pooling", vectors, Config{TTFT: 20 * ms}, 20 * ms, []time.Duration{20 * ms}},
		{"bytes in pieces", "/pooling", vectors, slow, 10 * ms, pieces},
		{"rerank", "/rerank", `{"query":"a","documents":["b"]}`, Config{TTFT: 20 * ms}, 20 * ms, []time.Duration{20 * ms}},
		{"five pieces by default", "/pooling", vectors, Config{PieceDelay: 50 * ms}, 0,
			[]time.Duration{50 * ms, 100 * ms, 150 * ms, 200 * ms, 250 * ms}},
		{"more pieces than bytes", "/pooling", vectors, Config{Dim: 1, Pieces: 8, PieceDelay: 50 * ms}, 0,
			[]time.Duration{100 * ms, 200 * ms, 300 * ms, 400 * ms}},
		{"errors do not wait", chat, `{}`, slow, 0, []time.Duration{0}},
		{"tokenize does not wait", "/tokenize", `{"prompt":"hi"}`, slow, 0, []time.Duration{0}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			virtual(t, tc.cfg, func(t *testing.T, s *Server, c *http.Client) {
				start := time.Now()
				res := post(t, c, s.URL+tc.path, tc.body)
				require.Equal(t, tc.headers, time.Since(start), "client's headers")
				times, text := arrivals(t, start, res.Body)
				res.Body.Close()
				synctest.Wait()

				r := s.Journal()[0]
				require.Equal(t, start, r.Arrived)
				require.Equal(t, Complete, r.End)
				require.Equal(t, Stamp{Planned: tc.headers, Actual: tc.headers}, r.Headers)
				var planned, actual, distinct []time.Duration
				var bytes int64
				for i, e := range r.Events {
					planned, actual = append(planned, e.Planned), append(actual, e.Actual)
					if i == 0 || e.Actual != r.Events[i-1].Actual {
						distinct = append(distinct, e.Actual)
					}
					bytes += e.Bytes
				}
				require.Equal(t, tc.events, planned)
				require.Equal(t, tc.events, actual)
				require.Equal(t, distinct, times, "client's reads")
				require.Equal(t, tc.events[len(tc.events)-1], r.Ended)
				require.Equal(t, r.BodyBytes, bytes)
				var size int
				for _, part := range text {
					size += len(part)
				}
				require.EqualValues(t, size, bytes)
			})
		})
	}
}

// A write that the client holds up is late by itself; those after it keep their times.
func TestLateEventShiftsNothing(t *testing.T) {
	noLeaks(t)
	cfg := Config{Dim: 250 << 10, PieceDelay: 10 * ms} // 5 pieces of 200 KiB, more than the connection buffers
	virtual(t, cfg, func(t *testing.T, s *Server, c *http.Client) {
		res := post(t, c, s.URL+"/pooling", `{"input":"hi","encoding_format":"bytes_only"}`)
		time.Sleep(35 * ms)
		n, err := io.Copy(io.Discard, res.Body)
		require.NoError(t, err)
		res.Body.Close()
		require.EqualValues(t, 1000<<10, n)
		synctest.Wait()
		var actual []time.Duration
		for _, e := range s.Journal()[0].Events {
			actual = append(actual, e.Actual)
		}
		require.Equal(t, []time.Duration{10 * ms, 35 * ms, 35 * ms, 40 * ms, 50 * ms}, actual)
	})
}

// The arrival is the end of the request, not its beginning.
func TestArrivalIsTheWholeRequest(t *testing.T) {
	noLeaks(t)
	virtual(t, Config{TTFT: 20 * ms}, func(t *testing.T, s *Server, c *http.Client) {
		body, feed := io.Pipe()
		go func() {
			io.WriteString(feed, `{"input":`)
			time.Sleep(300 * ms)
			io.WriteString(feed, `"hi"}`)
			feed.Close()
		}()
		start := time.Now()
		res, err := c.Post(s.URL+"/v1/embeddings", "application/json", body)
		require.NoError(t, err)
		res.Body.Close()
		require.Equal(t, 320*ms, time.Since(start))
		require.Equal(t, start.Add(300*ms), s.Journal()[0].Arrived)
	})
}

// All that PlanHeader can say, for one request only.
func TestPlanHeader(t *testing.T) {
	noLeaks(t)
	virtual(t, Config{}, func(t *testing.T, s *Server, c *http.Client) {
		const fake = "usage=off; headers=5ms;ttft=6ms ; itl=1ms; output-tokens=3;"
		body := userMessage("hi", `,"stream":true,"stream_options":{"include_usage":true}`)
		start := time.Now()
		res := post(t, c, s.URL+chat, body, PlanHeader, fake)
		require.Equal(t, 5*ms, time.Since(start))
		times, text := arrivals(t, start, res.Body)
		res.Body.Close()
		require.Equal(t, []time.Duration{6 * ms, 7 * ms, 8 * ms}, times)
		require.NotContains(t, text[2], "usage")

		start = time.Now()
		_, all := fetch(t, c, s.URL+chat, body)
		require.Zero(t, time.Since(start))
		require.Contains(t, all, `"usage"`)

		start = time.Now()
		_, all = fetch(t, c, s.URL+"/pooling", `{"input":"hi","encoding_format":"bytes_only"}`, PlanHeader, "dim=1024; pieces=2; piece-delay=50ms")
		require.Equal(t, 100*ms, time.Since(start))
		require.Len(t, all, 4096)

		image := `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"` + pngURL(t, 1024, 800) + `"}}]}]}`
		_, all = fetch(t, c, s.URL+chat, image, PlanHeader, "vision=qwen3-vl; details=true; cached-tokens=2")
		require.EqualValues(t, 19+800+2, dig(obj(t, all), "usage", "prompt_tokens"))
		require.Equal(t, map[string]any{"cached_tokens": 2.0, "image_tokens": 800.0}, dig(obj(t, all), "usage", "prompt_tokens_details"))
	})
}

func TestPlanHeaderErrors(t *testing.T) {
	noLeaks(t)
	s := newServer(t, Config{})
	for _, tc := range []struct{ fake, message string }{
		{"speed=1", "X-Fake-Plan: speed: unknown key"},
		{"ttft", `X-Fake-Plan: "ttft" is not key=value`},
		{"ttft=1ms; ttft=2ms", "X-Fake-Plan: ttft is given twice"},
		{"ttft=5", `X-Fake-Plan: ttft: "5" is not a duration between 0 and 1h0m0s`},
		{"itl=-1ms", `X-Fake-Plan: itl: "-1ms" is not a duration between 0 and 1h0m0s`},
		{"headers=2h", `X-Fake-Plan: headers: "2h" is not a duration between 0 and 1h0m0s`},
		{"pieces=0", `X-Fake-Plan: pieces: "0" is not a number between 1 and 1048576`},
		{"dim=x", `X-Fake-Plan: dim: "x" is not a number between 1 and 16777216`},
		{"details=perhaps", `X-Fake-Plan: details: "perhaps" is not true or false`},
		{"usage=maybe", `X-Fake-Plan: usage: "maybe" is not one of own-chunk, with-choices, off`},
		{"vision=eagle", "eagle"},
	} {
		p := s.Plan(Request{Method: "POST", Path: chat, Fake: tc.fake, Body: []byte(userMessage("hi", ""))})
		require.Equal(t, 400, p.Status, tc.fake)
		require.Contains(t, dig(obj(t, bodyOf(t, p)), "error", "message"), tc.message)
	}
}
