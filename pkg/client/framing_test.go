package client_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/tokpace/pkg/api"
	"example.com/tokpace/pkg/client"
)

// A framer spells one answer in one of the many ways that the HTML standard (event
// streams) and RFC 9112 (chunks) allow. It is the test's own: nothing of what reads
// the bytes has made them.
type framer struct {
	*rand.Rand
	body strings.Builder
	cr   bool  // the last line ended in CR alone
	ends []int // of each event with data: offset behind the byte that ends it
}

func (f *framer) yes(percent int) bool    { return f.IntN(100) < percent }
func (f *framer) one(of ...string) string { return of[f.IntN(len(of))] }

// line writes a line and one of its three ends.
func (f *framer) line(s string) {
	end := f.one("\n", "\r", "\r\n")
	if s == "" && f.cr && end == "\n" {
		end = "\r\n" // LF alone would be the other half of the line before
	}
	f.body.WriteString(s + end)
	f.cr = end == "\r"
}

// noise writes lines that say nothing.
func (f *framer) noise() {
	for f.yes(30) {
		f.line(f.one(": keep-alive", ":", ":data: {}", ": "+strings.Repeat("ping ", f.IntN(400)), "id: 7", "id", "id:", "retry: 100", "retry:soon",
			"Data: {}", "data : {}", " data: {}", "datas: 1", "x", "x: y: z", "\tdata: {}", "event: message", "event:", "event"))
	}
}

// silence writes blank lines, and events without data, which are none.
func (f *framer) silence() {
	for f.yes(25) {
		f.noise()
		if f.yes(30) {
			f.line("event: error") // of an event that never is
		}
		f.line("")
	}
}

// event writes one event. The parts of its data are what one data line each may
// hold: a line end between them changes nothing.
func (f *framer) event(parts ...string) {
	f.silence()
	f.noise()
	for i := 0; i < len(parts); {
		data := parts[i]
		for i++; i < len(parts) && f.yes(85); i++ {
			data += strings.Repeat(" ", f.IntN(2)) + parts[i]
		}
		if len(parts) > 1 {
			data = strings.Repeat(" ", f.IntN(4)) + data
		}
		f.line(f.one("data:", "data: ") + data)
		f.noise()
		if len(parts) > 1 && f.yes(5) {
			f.line("data") // an empty line of data
		}
	}
	if f.yes(10) {
		f.line("event: error")
		f.line("event: message") // the last one counts
	}
	// The first byte of the blank line ends the event, whether LF follows a CR or not.
	f.ends = append(f.ends, f.body.Len()+1)
	f.line("")
}

// jsonParts cuts JSON where white space may stand.
func jsonParts(s string) (parts []string) {
	inside, start := false, 0
	for i := 0; i < len(s); i++ {
		switch {
		case inside && s[i] == '\\':
			i++
		case s[i] == '"':
			inside = !inside
		case !inside && strings.IndexByte("{}[],:", s[i]) >= 0:
			parts = append(parts, s[start:i+1])
			start = i + 1
		}
	}
	return append(parts, s[start:])
}

// chunked puts a body into HTTP chunks. at is where each of its bytes is in the
// wire bytes returned.
func (f *framer) chunked(body string) (wire string, at []int) {
	var w strings.Builder
	w.WriteString(strings.TrimSuffix(streamHead, "\r\n"))
	w.WriteString(f.one("", "X-Accel-Buffering: no\r\n", "Cache-Control:no-cache\r\nServer: \t uvicorn \r\n") + "\r\n")
	longest := 1 << f.IntN(13)
	for len(body) > 0 {
		n := min(len(body), 1+f.IntN(longest))
		size := f.one("%x", "%x", "%x", "%X", "000%x")
		w.WriteString(fmt.Sprintf(size, n) + f.one("", "", "", ";a=b", `; c="d;e"`) + "\r\n")
		for range n {
			at = append(at, w.Len())
			w.WriteByte(body[0])
			body = body[1:]
		}
		w.WriteString("\r\n")
	}
	w.WriteString(f.one("0", "000") + "\r\n" + f.one("", "", "X-Checksum: 1\r\n") + "\r\n")
	return w.String(), at
}

// writes cuts the wire bytes into writes, each some milliseconds behind the one
// before; the time of a byte is its write's.
func (f *framer) writes(wire string) (s script, when func(offset int) time.Duration) {
	var ends []int
	now := time.Duration(f.IntN(3)) * time.Millisecond
	longest := 1 << f.IntN(14)
	for start := 0; start < len(wire); {
		n := min(len(wire)-start, 1+f.IntN(longest))
		s.steps = append(s.steps, step{now, wire[start : start+n]})
		start += n
		ends = append(ends, start)
		now += time.Duration(f.IntN(50)) * 100 * time.Microsecond
	}
	return s, func(offset int) time.Duration {
		i, _ := slices.BinarySearch(ends, offset+1)
		return s.steps[i].at
	}
}

// Whatever the framing, the answer is the same, and each event's time is that of the
// write with the byte that ended it.
func TestEveryLegalFraming(t *testing.T) {
	noLeaks(t)
	seeds := 300
	if raceEnabled {
		seeds = 20
	}
	for seed := range seeds {
		f := &framer{Rand: rand.New(rand.NewPCG(uint64(seed), 7))}
		// The known answer: role, 1 to 12 tokens, finish, usage, [DONE].
		words := []string{"a", " b", "日本", "\\n\\n", " \\\"q\\\" {[:,]} ", "é\\u0000", " data: x", strings.Repeat("long ", 300)}
		plain := []string{"a", " b", "日本", "\n\n", " \"q\" {[:,]} ", "é\x00", " data: x", strings.Repeat("long ", 300)}
		if f.yes(30) {
			f.body.WriteString("\ufeff")
		}
		payload := func(s string) string { return strings.TrimSpace(strings.TrimPrefix(s, "data: ")) }
		var outputs []int // ordinals of the output events
		text := ""
		n := 1 + f.IntN(12)
		f.event(jsonParts(payload(role))...)
		for range n {
			w := f.IntN(len(words))
			outputs = append(outputs, len(f.ends))
			text += plain[w]
			f.event(jsonParts(payload(chat(`{"content":"` + words[w] + `"}`)))...)
		}
		f.event(jsonParts(payload(fins))...)
		f.event(jsonParts(payload(use(7, 3*n)))...)
		f.event("[DONE]")
		f.silence()
		f.noise()

		body := f.body.String()
		wire, at := f.chunked(body)
		require.Len(t, at, len(body))
		s, when := f.writes(wire)
		var times []time.Duration
		for _, o := range outputs {
			times = append(times, when(at[f.ends[o]-1]))
		}
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inVirtualTime(t, &scriptServer{scripts: []script{s}}, func(t *testing.T, c *client.Client) {
				c.CountTokens = nil
				ex := c.Do(t.Context(), chatRequest(t))
				require.True(t, ex.OK, "%v\n%q", ex.Error, body)
				require.Equal(t, text, ex.Text, "%q", body)
				require.Equal(t, api.Some[int64](7), ex.InputTokens)
				require.Equal(t, api.Some(int64(3*n)), ex.OutputTokens)
				require.Equal(t, "stop", ex.FinishReason)
				require.Equal(t, api.Some(n), ex.Events)
				require.Equal(t, api.Some(int64(len(body))), ex.BodyBytes)
				require.Len(t, ex.ITL, n-1)
				if strings.HasSuffix(t.Name(), client.NetHTTP) {
					// It hands out no part of a chunk before it has to.
					require.GreaterOrEqual(t, ex.TTFT.V, times[0])
					require.GreaterOrEqual(t, ex.E2E.V, times[n-1])
					return
				}
				require.Equal(t, when(strings.Index(wire, "\r\n\r\n")+3), ex.Headers.V, "headers")
				require.Equal(t, s.steps[len(s.steps)-1].at, ex.BodyComplete.V, "body complete")
				got := []time.Duration{ex.TTFT.V}
				for _, gap := range ex.ITL {
					got = append(got, got[len(got)-1]+gap)
				}
				require.Equal(t, times, got, "%q", wire)
				require.Equal(t, times[n-1], ex.E2E.V)
			})
		})
	}
}
