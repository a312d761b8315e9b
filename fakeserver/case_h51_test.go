package fakeserver

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// arrivals reads a body to its end and returns what came at each time since start.
func arrivals(t *testing.T, start time.Time, body io.Reader) (times []time.Duration, text []string) {
	t.Helper()
	buf := make([]byte, 64<<10)
	for {
		n, err := body.Read(buf)
		if n > 0 {
			at := time.Since(start)
			if len(times) == 0 || times[len(times)-1] != at {
				times, text = append(times, at), append(text, "")
			}
			text[len(text)-1] += string(buf[:n])
		}
		if err == io.EOF {
			return times, text
		}
		require.NoError(t, err)
	}
}

// The faults that fakes themselves had: no flush, an id per chunk, wrong finish reasons, a delay after the role chunk
// only, handlers that outlive their client, write timeouts that cut long streams, usage nobody asked for.
func TestCaseH51FakeServerOwnFaults(t *testing.T) {
	noLeaks(t)
	cfg := Config{Seed: 7, TTFT: 200 * ms, ITL: 50 * ms, OutputTokens: 5}
	const path = "/v1/chat/completions"
	withUsage := func(more string) string {
		return userMessage(" hello", `,"stream":true,"stream_options":{"include_usage":true}`+more)
	}
	contents := func(events []map[string]any) (text []string, finish any) {
		for _, e := range events {
			if s, ok := dig(e, "choices", 0, "delta", "content").(string); ok && s != "" {
				text = append(text, s)
			}
			if f := dig(e, "choices", 0, "finish_reason"); f != nil {
				require.Nil(t, finish)
				finish = f
			}
		}
		return text, finish
	}

	virtual(t, cfg, func(t *testing.T, s *Server, c *http.Client) {
		var bodies []string
		for range 2 {
			start := time.Now()
			res := post(t, c, s.URL+path, withUsage(""))
			require.Zero(t, time.Since(start), "headers")
			times, text := arrivals(t, start, res.Body)
			res.Body.Close()
			require.Equal(t, []time.Duration{200 * ms, 250 * ms, 300 * ms, 350 * ms, 400 * ms}, times)
			require.Equal(t, 2, strings.Count(text[0], "data: "), "role and first token: %s", text[0])
			require.Contains(t, text[0], `"role":"assistant"`)
			for _, part := range text[1:4] {
				require.Equal(t, 1, strings.Count(part, "data: "), part)
			}
			require.Equal(t, 3, strings.Count(text[4], "data: "), "last token, usage, [DONE]: %s", text[4])
			bodies = append(bodies, strings.Join(text, ""))
		}
		require.Equal(t, bodies[0], bodies[1])

		events := chunks(t, bodies[0])
		for _, e := range events {
			require.Equal(t, events[0]["id"], e["id"])
			require.Equal(t, events[0]["created"], e["created"])
		}
		text, finish := contents(events)
		require.Len(t, text, 5)
		require.Equal(t, "stop", finish)
		last := events[len(events)-1]
		require.Empty(t, last["choices"])
		require.EqualValues(t, 5, dig(last, "usage", "completion_tokens"))

		_, body := fetch(t, c, s.URL+path, withUsage(`,"max_tokens":3`))
		events = chunks(t, body)
		text, finish = contents(events)
		require.Len(t, text, 3)
		require.Equal(t, "length", finish)
		require.EqualValues(t, 3, dig(events[len(events)-1], "usage", "completion_tokens"))

		_, body = fetch(t, c, s.URL+path, userMessage(" hello", `,"stream":true`))
		require.NotContains(t, body, "usage")
	})

	t.Run("cancel", func(t *testing.T) {
		virtual(t, cfg, func(t *testing.T, s *Server, c *http.Client) {
			ctx, cancel := context.WithCancel(t.Context())
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+path, strings.NewReader(withUsage("")))
			require.NoError(t, err)
			start := time.Now()
			res, err := c.Do(req)
			require.NoError(t, err)
			buf := make([]byte, 64<<10)
			for time.Since(start) < 250*ms { // the second token
				_, err := res.Body.Read(buf)
				require.NoError(t, err)
			}
			cancel()
			res.Body.Close()
			synctest.Wait()
			require.Equal(t, 250*ms, time.Since(start))
			r := s.Journal()[0]
			require.Equal(t, Disconnected, r.End)
			require.Equal(t, 250*ms, r.Ended)
			require.Len(t, r.Events, 3, "role and two tokens")
			require.Equal(t, 8, r.Planned)
		})
	})

	t.Run("seventy seconds", func(t *testing.T) {
		virtual(t, Config{TTFT: time.Second, ITL: time.Second, OutputTokens: 70}, func(t *testing.T, s *Server, c *http.Client) {
			start := time.Now()
			res := post(t, c, s.URL+path, withUsage(""))
			defer res.Body.Close()
			times, text := arrivals(t, start, res.Body)
			require.Len(t, times, 70)
			require.Equal(t, 70*time.Second, times[69])
			got, _ := contents(chunks(t, strings.Join(text, "")))
			require.Len(t, got, 70)
			synctest.Wait()
			require.Equal(t, Complete, s.Journal()[0].End)
		})
	})
}
