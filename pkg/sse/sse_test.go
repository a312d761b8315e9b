package sse_test

import (
	"bytes"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/tokpace/pkg/sse"
)

func noClock() time.Duration { return 0 }

var framings = []struct {
	name   string
	stream string
	want   []want // end is not looked at here
}{
	{name: "nothing", stream: ""},
	{name: "blank lines only", stream: "\n\r\n\r\r\n"},
	{name: "one event", stream: "data: a\n\n", want: []want{{data: "a"}}},
	{name: "no space after the colon", stream: "data:a\n\n", want: []want{{data: "a"}}},
	{name: "one space only is optional", stream: "data:  x\n\n", want: []want{{data: " x"}}},
	{name: "a tab is no space", stream: "data:\tx\n\n", want: []want{{data: "\tx"}}},
	{name: "space before the colon is part of the name", stream: "data : x\n\n"},
	{name: "field without a colon", stream: "data\n\n", want: []want{{}}},
	{name: "two of them", stream: "data\ndata\n\n", want: []want{{data: "\n"}}},
	{name: "empty value", stream: "data:\n\n", want: []want{{}}},
	{name: "colons in the value", stream: "data: a:b: c\n\n", want: []want{{data: "a:b: c"}}},
	{name: "several data lines", stream: "data: a\ndata:b\ndata:\ndata:  c\n\n", want: []want{{data: "a\nb\n\n c"}}},
	{name: "comment and blank line are no event", stream: ": OPENROUTER PROCESSING\n\n:\n\ndata: a\n\n", want: []want{{data: "a"}}},
	{name: "comment inside an event", stream: "data: a\n: wait\ndata: b\n\n", want: []want{{data: "a\nb"}}},
	{name: "type", stream: "event: error\ndata: x\n\ndata: y\n\n", want: []want{{typ: "error", data: "x"}, {data: "y"}}},
	{name: "type after data, last one counts", stream: "data: x\nevent: a\nevent:b\n\n", want: []want{{typ: "b", data: "x"}}},
	{name: "type without data", stream: "event: ping\n\ndata: x\n\n", want: []want{{data: "x"}}},
	{name: "id and retry", stream: "id: 7\nretry: 1000\ndata: x\nid\n\nid: 8\n\n", want: []want{{data: "x"}}},
	{name: "unknown and odd fields", stream: "foo: bar\nDATA: x\ndata2: y\n:data: z\n data: v\ndata: a\n\n", want: []want{{data: "a"}}},
	{name: "CR LF", stream: "data: a\r\ndata: b\r\n\r\ndata: c\r\n\r\n", want: []want{{data: "a\nb"}, {data: "c"}}},
	{name: "CR", stream: "data: a\rdata: b\r\rdata: c\r\r", want: []want{{data: "a\nb"}, {data: "c"}}},
	{name: "mixed line ends", stream: "data: a\r\ndata: b\rdata: c\n\r\ndata: d\n\rdata: e\r\n\n", want: []want{{data: "a\nb\nc"}, {data: "d"}, {data: "e"}}},
	{name: "LF CR is two line ends", stream: "data: a\n\rdata: b\n\n", want: []want{{data: "a"}, {data: "b"}}},
	{name: "byte order mark", stream: "\xef\xbb\xbfdata: a\n\n", want: []want{{data: "a"}}},
	{name: "only one of them", stream: "\xef\xbb\xbf\xef\xbb\xbfdata: a\n\ndata: b\n\n", want: []want{{data: "b"}}},
	{name: "not in the middle", stream: "data: a\n\n\xef\xbb\xbfdata: b\n\n", want: []want{{data: "a"}}},
	{name: "half a byte order mark", stream: "\xef\xbbdata: a\n\ndata: b\n\n", want: []want{{data: "b"}}},
	{name: "byte order mark, then a blank line", stream: "\xef\xbb\xbf\ndata: a\n\n", want: []want{{data: "a"}}},
	{name: "NUL and bytes that are no UTF-8", stream: "data: a\x00\xff\n\n", want: []want{{data: "a\x00\xff"}}},
	{name: "open at the end, one line end", stream: "data: a\n\ndata: b\n", want: []want{{data: "a"}, {data: "b", unterminated: true}}},
	{name: "open at the end, no line end", stream: "event: e\ndata: b", want: []want{{typ: "e", data: "b", unterminated: true}}},
	{name: "open at the end, no data", stream: "data: a\n\nevent: e\nid: 1", want: []want{{data: "a"}}},
	{name: "open at the end, half a field name", stream: "data: a\n\ndat", want: []want{{data: "a"}}},
	{name: "open at the end, field name", stream: "data: a\n\ndata", want: []want{{data: "a"}, {unterminated: true}}},
	{name: "CR is the last byte", stream: "data: a\n\ndata: b\r\r", want: []want{{data: "a"}, {data: "b"}}},
	{name: "split inside a character", stream: "data: {\"content\":\"日\"}\n\ndata: 本\n\n", want: []want{{data: "{\"content\":\"日\"}"}, {data: "本"}}},
}

func captured(t testing.TB) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/chat.sse")
	require.NoError(t, err)
	return data
}

func TestFramings(t *testing.T) {
	for _, f := range framings {
		t.Run(f.name, func(t *testing.T) {
			strip := func(ws []want) []want {
				var out []want
				for _, w := range ws {
					w.end = 0
					out = append(out, w)
				}
				return out
			}
			require.Equal(t, f.want, strip(reference([]byte(f.stream))), "the reference reader")
			everySplit(t, []byte(f.stream))
		})
	}
}

// everySplit reads a stream whole, cut at every byte, at every pair of bytes,
// and byte by byte, and compares events and stamps with the reference reader.
func everySplit(t *testing.T, stream []byte) {
	t.Helper()
	wants := reference(stream)
	try := func(at ...int) {
		parts := split(stream, at...)
		for _, eager := range []bool{false, true} {
			src := &pieces{parts: parts, eager: eager}
			events, err := readAll(sse.NewReader(src, src.clock))
			require.NoError(t, err, "cut at %v", at)
			require.Equal(t, expect(wants, parts), events, "cut at %v", at)
		}
	}
	try()
	all := make([]int, 0, len(stream))
	for i := range stream {
		all = append(all, i)
		try(i)
		if len(stream) > 64 {
			continue
		}
		for j := i + 1; j < len(stream); j++ {
			try(i, j)
		}
	}
	try(all...)
}

// The bytes are those of a real server (Ollama 0.24), the headers and the chunk
// framing taken off.
func TestCapturedStream(t *testing.T) {
	stream := captured(t)
	everySplit(t, stream)
	events, err := readAll(sse.NewReader(bytes.NewReader(stream), noClock))
	require.NoError(t, err)
	require.Len(t, events, 9)
	require.Equal(t, "[DONE]", events[8].data)
}

func TestCaseH03LongLine(t *testing.T) {
	for _, size := range []int{64 << 10, 70_000, 8 << 20} {
		pad := strings.Repeat("x", size)
		stream := "data: a\n\ndata: " + pad + "\n\ndata: c\n\n"
		events, err := readAll(sse.NewReader(strings.NewReader(stream), noClock))
		require.NoError(t, err)
		require.Len(t, events, 3)
		require.True(t, events[1].data == pad, "%d bytes of padding", size)
		require.Equal(t, "c", events[2].data)
	}
}

// The parts and times of the case; the first event ends with its second CR.
func TestCaseH04LineEndsInDifferentWrites(t *testing.T) {
	tok := func(s string) string { return `data: {"choices":[{"index":0,"delta":{"content":"` + s + `"}}]}` }
	src := &pieces{parts: [][]byte{
		[]byte("data: {\"choices\":[{\"index\":0,\r"),
		[]byte("\ndata: \"delta\":{\"content\":\"x\"}}]}\r\n\r"),
		[]byte("\n"),
		[]byte(tok("y") + "\r\n\r\n"),
		[]byte(tok("z") + "\r\n\n"),
	}}
	events, err := readAll(sse.NewReader(src, src.clock))
	require.NoError(t, err)
	require.Len(t, events, 3)
	require.Equal(t, "{\"choices\":[{\"index\":0,\n\"delta\":{\"content\":\"x\"}}]}", events[0].data)
	for i, at := range []time.Duration{2, 4, 5} {
		require.Equal(t, at*time.Second, events[i].at)
	}
}

func TestEventsOfOneReadShareTheirStamp(t *testing.T) {
	src := &pieces{parts: [][]byte{
		[]byte("data: a\n\ndata: b\n\ndata: c"),
		[]byte("\n"),
		[]byte("\ndata: d\r\n\r"),
		[]byte("\ndata: e\n"),
	}}
	events, err := readAll(sse.NewReader(src, src.clock))
	require.NoError(t, err)
	require.Equal(t, []got{
		{data: "a", at: 1 * time.Second, read: 1},
		{data: "b", at: 1 * time.Second, read: 1},
		{data: "c", at: 3 * time.Second, read: 3},
		{data: "d", at: 3 * time.Second, read: 3},
		{data: "e", at: 4 * time.Second, read: 4, unterminated: true},
	}, events)
}

func TestSourceErrors(t *testing.T) {
	broken := errors.New("connection reset")
	for _, eager := range []bool{false, true} {
		src := &pieces{parts: split([]byte("data: a\n\ndata: b\n\ndata: c\n"), 12), err: broken, eager: eager}
		r := sse.NewReader(src, src.clock)
		events, err := readAll(r)
		require.Equal(t, broken, err, "returned as it is")
		require.Equal(t, []got{
			{data: "a", at: time.Second, read: 1},
			{data: "b", at: 2 * time.Second, read: 2},
		}, events, "what the cut left of an event is dropped")
		_, err = r.Next()
		require.Equal(t, broken, err, "errors are final")
	}
	r := sse.NewReader(strings.NewReader("data: a"), noClock)
	_, err := readAll(r)
	require.NoError(t, err)
	_, err = r.Next()
	require.Equal(t, io.EOF, err, "and so is the end")
}

// stutter returns (0, nil) a few times before each read that brings bytes.
type stutter struct {
	r     io.Reader
	n, of int
}

func (s *stutter) Read(p []byte) (int, error) {
	if s.n++; s.n <= s.of {
		return 0, nil
	}
	s.n = 0
	return s.r.Read(p)
}

func TestReadsWithoutBytes(t *testing.T) {
	events, err := readAll(sse.NewReader(&stutter{r: iotest.OneByteReader(strings.NewReader("data: a\n\n")), of: 5}, noClock))
	require.NoError(t, err)
	require.Equal(t, []got{{data: "a", read: 9}}, events, "a read without bytes is none")

	_, err = readAll(sse.NewReader(&stutter{r: strings.NewReader("data: a\n\n"), of: math.MaxInt}, noClock))
	require.ErrorContains(t, err, "no bytes and no error")
}

// The limit holds for an event, whatever reads its bytes came in, and for
// comments and unknown fields as well as for data.
func TestLimit(t *testing.T) {
	const limit = 20
	for _, tt := range []struct {
		name   string
		stream string
		want   int // events
		fails  bool
	}{
		{"just fits", "data: 89012345678901\n\ndata: b\n\n", 2, false},
		{"one too long", "data: a\n\ndata: 890123456789012\n\ndata: c\n\n", 1, true},
		{"line ends do not count", "data: 8901\r\ndata: 8901\r\n\r\ndata: c\r\n\r\n", 2, false},
		{"several lines", "data: a\n\ndata: 8901\ndata: 89012\n\n", 1, true},
		{"comment inside", "data: a\n\ndata: b\n: 23456789012345\n\n", 1, true},
		{"comments without a blank line", "data: a\n\n:234567890\n:234567890\n:\n", 1, true},
		{"keep-alives do not add up", strings.Repeat(": 3456789\n\n", 10) + "data: a\n\n", 1, false},
		{"unknown field", "foo: 6789012345678901\n\n", 0, true},
		{"no line end ever", "data: a\n\n" + strings.Repeat("x", 100), 1, true},
		{"open at the end, just fits", "data: 89012345678901", 1, false},
		{"open at the end, one too long", "data: 890123456789012", 0, true},
		{"byte order mark does not count", "\xef\xbb\xbfdata: 89012345678901\n\n", 1, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for cut := range len(tt.stream) + 1 {
				for _, src := range []io.Reader{
					&pieces{parts: split([]byte(tt.stream), cut)},
					&pieces{parts: split([]byte(tt.stream), cut), eager: true},
					iotest.OneByteReader(strings.NewReader(tt.stream)),
				} {
					r := sse.NewReader(src, noClock)
					r.MaxEvent = limit
					events, err := readAll(r)
					require.Len(t, events, tt.want, "cut at %d", cut)
					if !tt.fails {
						require.NoError(t, err)
						continue
					}
					var le *sse.LimitError
					require.ErrorAs(t, err, &le)
					require.Equal(t, limit, le.Limit)
					require.EqualError(t, err, "event longer than the limit of 20 bytes")
					_, again := r.Next()
					require.Equal(t, err, again, "errors are final")
				}
			}
		})
	}
}

// endless is a line that never ends.
type endless struct{ served int }

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	e.served += len(p)
	return len(p), nil
}

func TestMemoryIsBounded(t *testing.T) {
	const limit = 1 << 20
	for name, lines := range map[string]func() io.Reader{
		"one line": func() io.Reader { return &endless{} },
		"many lines": func() io.Reader {
			return strings.NewReader(strings.Repeat("data: "+strings.Repeat("y", 1000)+"\n", 4000))
		},
		"one line that fits": func() io.Reader {
			return strings.NewReader(strings.Repeat("data: "+strings.Repeat("z", limit-6)+"\n\n", 4))
		},
	} {
		t.Run(name, func(t *testing.T) {
			src := lines()
			var held int
			r := sse.NewReader(src, noClock)
			r.MaxEvent = limit
			_, err := readAll(r)
			held = sse.Held(r)
			require.Less(t, held, 3*limit)
			if e, ok := src.(*endless); ok {
				var le *sse.LimitError
				require.ErrorAs(t, err, &le)
				require.Less(t, e.served, 2*limit, "reading stops at the limit")
			}
		})
	}
}

// A limit as large as can be must not overflow anywhere.
func TestNoLimit(t *testing.T) {
	r := sse.NewReader(strings.NewReader("data: "+strings.Repeat("x", 1<<18)+"\n\n"), noClock)
	r.MaxEvent = math.MaxInt
	events, err := readAll(r)
	require.NoError(t, err)
	require.Len(t, events, 1)
	require.Len(t, events[0].data, 1<<18)
}

// loop repeats a stream for ever, a read at a time.
type loop struct {
	stream []byte
	chunk  int
	at     int
}

func (l *loop) Read(p []byte) (int, error) {
	n := copy(p[:min(len(p), l.chunk)], l.stream[l.at:])
	l.at = (l.at + n) % len(l.stream)
	return n, nil
}

func TestNoAllocationsPerEvent(t *testing.T) {
	stream := append(captured(t), "event: message_start\ndata: 1\n\nevent: content_block_delta\r\ndata: 2\r\n\r\n: ping\n\ndata: 3\ndata: 4\n\n"...)
	for _, chunk := range []int{1, 100, 1 << 20} {
		r := sse.NewReader(&loop{stream: stream, chunk: chunk}, noClock)
		next := func() {
			if _, err := r.Next(); err != nil {
				t.Fatal(err)
			}
		}
		for range 50 {
			next()
		}
		require.Zero(t, testing.AllocsPerRun(200, next), "%d bytes a read", chunk)
	}
}

// A stream of ever new types must not be kept for ever.
func TestTypesAreNotHoarded(t *testing.T) {
	var stream strings.Builder
	for i := range 1000 {
		stream.WriteString("event: t" + strings.Repeat("x", i%200) + string(rune('a'+i%26)) + "\ndata: d\n\n")
	}
	r := sse.NewReader(strings.NewReader(stream.String()), noClock)
	events, err := readAll(r)
	require.NoError(t, err)
	require.Len(t, events, 1000)
	for i, ev := range events {
		require.Equal(t, "t"+strings.Repeat("x", i%200)+string(rune('a'+i%26)), ev.typ)
	}
	require.LessOrEqual(t, sse.Types(r), 64)
}

// TestRandomFramings builds streams of known events with every liberty that the
// format allows, and cuts them anywhere.
func TestRandomFramings(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	pick := func(of ...string) string { return of[rng.IntN(len(of))] }
	ends := []string{"\n", "\r\n", "\r"}
	for range 800 {
		var (
			stream []byte
			wants  []want
		)
		// end writes a line end, a bare CR only where no LF follows by chance.
		end := func() int {
			stream = append(stream, pick(ends...)...)
			if at := len(stream) - 1; stream[at] == '\n' && at > 0 && stream[at-1] == '\r' {
				return at - 1
			}
			return len(stream) - 1
		}
		line := func(s string) int { stream = append(stream, s...); return end() }
		if rng.IntN(4) == 0 {
			stream = append(stream, "\xef\xbb\xbf"...)
		}
		noise := func() {
			for rng.IntN(3) == 0 {
				line(pick(":", ": keep-alive", "id: 1", "id", "retry: 5", "foo: bar", "data : no", "Data: no", ":data: no"))
			}
		}
		for range rng.IntN(5) {
			w := want{}
			var data []string
			noise()
			if rng.IntN(3) == 0 {
				w.typ = pick("error", "message", "a b", ":")
				line(pick("event: ", "event:") + w.typ)
				noise()
			}
			for range 1 + rng.IntN(3) {
				v := pick("", "[DONE]", `{"a":1}`, "x: y", "日本", strings.Repeat("long ", 300))
				switch {
				case v == "" && rng.IntN(2) == 0:
					line("data")
				case rng.IntN(2) == 0:
					line("data:" + v)
				default:
					line("data: " + v)
				}
				data = append(data, v)
				noise()
			}
			// A lone LF behind a lone CR would make a pair of the two.
			before := len(stream)
			w.end = line("")
			if stream[before-1] == '\r' && stream[before] == '\n' {
				w.end = line("")
				if stream[len(stream)-1] == '\n' && len(stream) > before+2 && stream[len(stream)-2] == '\r' {
					w.end = len(stream) - 2
				}
			}
			w.data = strings.Join(data, "\n")
			wants = append(wants, w)
			for rng.IntN(3) == 0 {
				line(": between")
				line("x")
				line("")
				line("")
			}
		}
		require.Equal(t, wants, reference(stream), "%q", stream)
		var cuts []int
		for i := range stream {
			if rng.IntN(10) == 0 {
				cuts = append(cuts, i)
			}
		}
		parts := split(stream, cuts...)
		src := &pieces{parts: parts, eager: rng.IntN(2) == 0}
		events, err := readAll(sse.NewReader(src, src.clock))
		require.NoError(t, err)
		require.Equal(t, expect(wants, parts), events, "%q", stream)
	}
}

// FuzzReader compares any bytes, cut anywhere, with the reference reader.
func FuzzReader(f *testing.F) {
	for _, fr := range framings {
		f.Add([]byte(fr.stream), uint64(3))
	}
	f.Add(captured(f), uint64(0x0101010101010101))
	f.Fuzz(func(t *testing.T, stream []byte, seed uint64) {
		if len(stream) > 1<<12 {
			return
		}
		rng := rand.New(rand.NewPCG(seed, 0))
		var cuts []int
		every := 1 + rng.IntN(20)
		for i := range stream {
			if rng.IntN(every) == 0 {
				cuts = append(cuts, i)
			}
		}
		parts := split(stream, cuts...)
		src := &pieces{parts: parts, eager: seed&1 == 1}
		r := sse.NewReader(src, src.clock)
		events, err := readAll(r)
		if err != nil {
			t.Fatal(err)
		}
		require.Equal(t, expect(reference(stream), parts), events)

		// Under a limit the events are the same ones, as far as they go.
		src = &pieces{parts: parts}
		r = sse.NewReader(src, src.clock)
		r.MaxEvent = 1 + rng.IntN(64)
		short, err := readAll(r)
		if err == nil {
			require.Equal(t, events, short)
		} else {
			require.LessOrEqual(t, len(short), len(events))
			for i := range short {
				require.Equal(t, events[i], short[i])
			}
		}

		// What is known may be skipped, also under a limit.
		twice := split(bytes.Repeat(stream, 2), cuts...)
		limit := 1 + rng.IntN(64)
		for _, limit := range []int{0, limit} {
			src = &pieces{parts: twice}
			r = sse.NewReader(src, src.clock)
			r.MaxEvent = limit
			events, err := readAll(r)
			src = &pieces{parts: twice}
			r = sse.NewReader(src, src.clock)
			r.MaxEvent = limit
			skipped, _, err2 := byHeart(t, r)
			require.Equal(t, err, err2)
			require.Equal(t, events, skipped)
		}
	})
}
