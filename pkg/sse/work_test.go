package sse

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// poisoner turns the bytes of a line's value that the reader has already looked
// at into line ends before each read: a reader that looked at them again would
// end the line there.
type poisoner struct {
	r        *Reader
	stream   io.Reader
	chunk    int
	poisoned int // up to where the buffer's first line is
	moved    int // times that the buffer was another one
	last     *byte
}

const fieldName = "data: "

func (p *poisoner) Read(b []byte) (int, error) {
	for i := max(p.poisoned, p.r.start+len(fieldName)); i < p.r.scanned; i++ {
		p.r.buf[i] = '\n'
		p.poisoned = i + 1
	}
	if &p.r.buf[0] != p.last {
		p.last = &p.r.buf[0]
		p.moved++
	}
	return p.stream.Read(b[:min(len(b), p.chunk)])
}

// Small reads of a long line must not cost a look at the whole line each, nor a
// copy of it.
func TestNoByteIsScannedTwice(t *testing.T) {
	const size = 1 << 20
	for _, chunk := range []int{1, 7, 1000} {
		p := &poisoner{stream: strings.NewReader(fieldName + strings.Repeat("x", size) + "\n\n"), chunk: chunk}
		r := NewReader(p, func() time.Duration { return 0 })
		p.r = r
		ev, err := r.Next()
		require.NoError(t, err)
		require.Len(t, ev.Data, size)
		require.Greater(t, bytes.Count(ev.Data, []byte{'\n'}), size-2*chunk, "the poison was there")
		require.LessOrEqual(t, p.moved, 8, "the buffer doubles, so its bytes are copied a few times only")
	}
}

// Looking for a line's end reads at most one stride beyond it, so that many
// short lines in a large buffer cost no more than their own length and a
// constant each.
func TestLineEndIsFoundInStrides(t *testing.T) {
	for _, end := range []string{"\r", "\n", "\r\n"} {
		lines := 200_000
		r := NewReader(strings.NewReader(""), nil)
		r.buf = []byte(strings.Repeat("data"+end, lines))
		r.end, r.begun = len(r.buf), true
		for i := range lines {
			line, ok := r.line()
			require.True(t, ok)
			if string(line) != "data" {
				t.Fatalf("line %d is %q", i, line)
			}
		}
	}
	n, found := lineEnd([]byte("ab\rc\nd"))
	require.Equal(t, 2, n)
	require.True(t, found)
	n, found = lineEnd([]byte("abc"))
	require.Equal(t, 3, n)
	require.False(t, found)
}
