package fakeserver

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// A wire is an answer as it came out of a socket.
type wire struct {
	head string
	body string
	came []time.Time // of each byte of the body
}

// dial connects to a server without any HTTP client.
func dial(t *testing.T, s *Server) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	return conn
}

func ask(t *testing.T, conn net.Conn, path, body string) {
	t.Helper()
	_, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: fake\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)
	require.NoError(t, err)
}

// readWire reads one chunked answer: its bytes as they are, taken apart when all are there.
func readWire(t *testing.T, conn net.Conn) (w wire) {
	t.Helper()
	var raw []byte
	var came []time.Time
	buf := make([]byte, 64<<10)
	for !bytes.HasSuffix(raw, []byte("\r\n0\r\n\r\n")) {
		n, err := conn.Read(buf)
		require.NoError(t, err, "after %q", raw)
		raw = append(raw, buf[:n]...)
		for now := time.Now(); n > 0; n-- {
			came = append(came, now)
		}
	}
	i := bytes.Index(raw, []byte("\r\n\r\n")) + 4
	w.head = string(raw[:i])
	for {
		line := bytes.IndexByte(raw[i:], '\n')
		size, err := strconv.ParseInt(string(raw[i:i+line-1]), 16, 32)
		require.NoError(t, err)
		i += line + 1
		if size == 0 {
			return w
		}
		w.body += string(raw[i : i+int(size)])
		w.came = append(w.came, came[i:i+int(size)]...)
		i += int(size) + 2
	}
}

// late compares an answer with what the server says it did: nothing can have come before it was written. It returns what
// came more than 25 ms after.
func (w *wire) late(t *testing.T, r Record) (late string) {
	t.Helper()
	end := int64(0)
	for i, e := range r.Events {
		end += e.Bytes
		lag := w.came[end-1].Sub(r.Arrived.Add(e.Actual))
		require.GreaterOrEqual(t, lag, time.Duration(0), "event %d came before it was written", i)
		require.GreaterOrEqual(t, e.Actual, e.Planned, "event %d was written before its time", i)
		if lag > 25*ms {
			late = fmt.Sprintf("event %d came %v after it was written", i, lag)
		}
	}
	require.EqualValues(t, len(w.body), end)
	return late
}

func TestCaseH51FakeServerOwnFaultsOverTCP(t *testing.T) {
	noLeaks(t)
	const path = "/v1/chat/completions"
	withUsage := func(more string) string {
		return userMessage(" hello", `,"stream":true,"stream_options":{"include_usage":true}`+more)
	}
	contents := func(t *testing.T, events []map[string]any) (text []string, finish []any) {
		t.Helper()
		for _, e := range events {
			require.Equal(t, events[0]["id"], e["id"])
			require.Equal(t, events[0]["created"], e["created"])
			if s, ok := dig(e, "choices", 0, "delta", "content").(string); ok && s != "" {
				text = append(text, s)
			}
			if f := dig(e, "choices", 0, "finish_reason"); f != nil {
				finish = append(finish, f)
			}
		}
		return text, finish
	}
	cfg := Config{Seed: 7, TTFT: 200 * ms, ITL: 50 * ms, OutputTokens: 5}

	t.Run("bytes and times", func(t *testing.T) {
		s := Start(t, cfg)
		conn := dial(t, s)
		var bodies []string
		for try, good := 1, 0; good < 2; try++ {
			s.Reset()
			ask(t, conn, path, withUsage(""))
			w := readWire(t, conn)
			require.Contains(t, w.head, "HTTP/1.1 200 OK\r\n")
			bodies = append(bodies, w.body)
			if late := w.late(t, s.Journal()[0]); late != "" {
				require.Less(t, try-good, 3, late)
				t.Log(late, "- trying again")
				continue
			}
			good++
		}
		for _, body := range bodies {
			require.Equal(t, bodies[0], body)
		}
		events := chunks(t, bodies[0]) // which demands that [DONE] is last
		require.Equal(t, "assistant", dig(events[0], "choices", 0, "delta", "role"))
		text, finish := contents(t, events)
		require.Len(t, text, 5)
		require.Equal(t, []any{"stop"}, finish)
		last := events[len(events)-1]
		require.Empty(t, last["choices"])
		require.EqualValues(t, 5, dig(last, "usage", "completion_tokens"))

		ask(t, conn, path, withUsage(`,"max_tokens":3`))
		w := readWire(t, conn)
		events = chunks(t, w.body)
		text, finish = contents(t, events)
		require.Len(t, text, 3)
		require.Equal(t, []any{"length"}, finish)
		require.EqualValues(t, 3, dig(events[len(events)-1], "usage", "completion_tokens"))

		ask(t, conn, path, userMessage(" hello", `,"stream":true`))
		w = readWire(t, conn)
		text, _ = contents(t, chunks(t, w.body))
		require.Len(t, text, 5)
		require.NotContains(t, w.body, "usage")
	})

	t.Run("cancel", func(t *testing.T) {
		long := cfg
		long.OutputTokens = 200
		s := Start(t, long)
		for try := 1; ; try++ {
			s.Reset()
			before := goleak.IgnoreCurrent()
			conn := dial(t, s)
			ask(t, conn, path, withUsage(""))
			got, buf := "", make([]byte, 64<<10)
			for strings.Count(got, `"content":"`) < 3 { // that of the role chunk is empty
				n, err := conn.Read(buf)
				require.NoError(t, err)
				got += string(buf[:n])
			}
			canceled := time.Now()
			conn.Close()
			goleak.VerifyNone(t, before) // waits for the handler
			r := s.Journal()[0]
			require.Equal(t, Disconnected, r.End)
			require.Less(t, len(r.Events), r.Planned)
			took := r.Arrived.Add(r.Ended).Sub(canceled)
			if took <= 100*ms {
				return
			}
			require.Less(t, try, 3, "the handler ended %v after its client", took)
		}
	})

	t.Run("seventy seconds", func(t *testing.T) {
		if os.Getenv("LONG") == "" {
			t.Skip("it lasts as long over TCP: LONG=1 runs it")
		}
		t.Parallel()
		s := Start(t, Config{TTFT: time.Second, ITL: time.Second, OutputTokens: 70})
		res, err := s.Client().Post(s.URL+path, "application/json", strings.NewReader(withUsage("")))
		require.NoError(t, err)
		defer res.Body.Close()
		require.Equal(t, http.StatusOK, res.StatusCode)
		body, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		text, finish := contents(t, chunks(t, string(body)))
		require.Len(t, text, 70)
		require.Equal(t, []any{"stop"}, finish)
	})
}
