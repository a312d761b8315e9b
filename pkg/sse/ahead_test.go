package sse_test

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/tokpace/pkg/sse"
)

// byHeart reads events as readAll does, but skips those whose bytes it has seen
// before.
func byHeart(t testing.TB, r *sse.Reader) (events []got, skipped int, err error) {
	known := map[string]got{}
next:
	for {
		ahead := r.Ahead()
		for raw, ev := range known {
			if bytes.HasPrefix(ahead, []byte(raw)) {
				now := r.Skip(len(raw))
				require.Nil(t, now.Data)
				ev.at, ev.read = now.At, now.Read
				events = append(events, ev)
				skipped++
				continue next
			}
		}
		ev, err := r.Next()
		if err == io.EOF {
			require.Empty(t, r.Ahead())
			return events, skipped, nil
		}
		if err != nil {
			require.Empty(t, r.Ahead())
			return events, skipped, err
		}
		this := got{ev.Type, string(ev.Data), ev.At, ev.Read, ev.Unterminated}
		events = append(events, this)
		if raw, data := r.Raw(); raw != nil {
			require.False(t, ev.Unterminated)
			require.Equal(t, string(ev.Data), string(raw[data:data+len(ev.Data)]))
			known[string(raw)] = this
		}
	}
}

// An event whose bytes are known can be skipped: what comes out is the same.
func TestAhead(t *testing.T) {
	for _, f := range framings {
		t.Run(f.name, func(t *testing.T) {
			stream := []byte(strings.Repeat(f.stream, 3))
			wants := reference(stream)
			for i := range stream {
				parts := split(stream, i)
				src := &pieces{parts: parts}
				events, _, err := byHeart(t, sse.NewReader(src, src.clock))
				require.NoError(t, err)
				require.Equal(t, expect(wants, parts), events, "cut at %d", i)
			}
		})
	}
	for _, end := range []string{"\n", "\r", "\r\n"} {
		event := "data: a" + end + end
		events, skipped, err := byHeart(t, sse.NewReader(strings.NewReader(strings.Repeat(event, 50)), noClock))
		require.NoError(t, err)
		require.Len(t, events, 50)
		require.GreaterOrEqual(t, skipped, 48, "%q", end) // the last CR LF begins nothing
	}
}

// What is ahead holds no event over the limit.
func TestAheadIsLimited(t *testing.T) {
	stream := "data: a\n\ndata: a\n\n" + "data: aaaaaaaaaaaaa\n\n"
	r := sse.NewReader(strings.NewReader(stream), noClock)
	r.MaxEvent = 12
	require.Nil(t, r.Ahead(), "nothing was read")
	_, err := r.Next()
	require.NoError(t, err)
	require.Equal(t, "data: a\n\ndat", string(r.Ahead()))
	r.Skip(0)
	r.Skip(len("data: a\n\n"))
	_, err = r.Next()
	require.ErrorAs(t, err, new(*sse.LimitError))
	require.Empty(t, r.Ahead())
}

// A small buffer to begin with changes nothing but the memory, and is replaced when it
// is not enough. A reader that was released is at an end.
func TestBuffer(t *testing.T) {
	stream := strings.Repeat("data: "+strings.Repeat("x", 300)+"\n\n", 200) + "data: " + strings.Repeat("y", 100_000) + "\n\n"
	want, err := readAll(sse.NewReader(strings.NewReader(stream), noClock))
	require.NoError(t, err)
	for _, size := range []int{1, 7, 1 << 10, 1 << 15} {
		r := sse.NewReader(strings.NewReader(stream), noClock)
		r.Buffer = make([]byte, size)
		events, err := readAll(r)
		require.NoError(t, err)
		require.Len(t, events, len(want))
		for i := range events {
			require.Equal(t, want[i].data, events[i].data)
		}
		r.Release()
		r.Release()
		require.Zero(t, sse.Held(r))
		require.Empty(t, r.Ahead())
		_, err = r.Next()
		require.Error(t, err)
	}
	slow := strings.Repeat("data: "+strings.Repeat("x", 300)+"\n\n", 200)
	r := sse.NewReader(&onePiece{s: slow, n: 308}, noClock)
	r.Buffer = make([]byte, 1<<10)
	events, err := readAll(r)
	require.NoError(t, err)
	require.Len(t, events, 200)
	require.Equal(t, 1<<10, sse.Held(r), "events that come one by one need no more")
}

// onePiece returns n bytes a read.
type onePiece struct {
	s string
	n int
}

func (o *onePiece) Read(p []byte) (int, error) {
	if o.s == "" {
		return 0, io.EOF
	}
	n := copy(p, o.s[:o.n])
	o.s = o.s[n:]
	return n, nil
}
