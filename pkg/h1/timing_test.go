package h1

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A piece is what one Read returned, and the milliseconds at which it arrived.
type piece struct {
	data string
	ms   int
}

// pieces reads a body with reads of so many bytes. The end is a piece of its own
// unless it came with the last bytes.
func pieces(t *testing.T, resp *http.Response, start time.Time, size int) []piece {
	t.Helper()
	body := resp.Body.(*Body)
	p := make([]byte, size)
	var all []piece
	for {
		n, err := body.Read(p)
		at := body.Arrived().Sub(start)
		require.Zero(t, at%time.Millisecond, "in virtual time nothing takes time")
		all = append(all, piece{string(p[:n]), int(at.Milliseconds())})
		if err != nil {
			require.Equal(t, io.EOF, err)
			require.NoError(t, body.Close())
			return all
		}
	}
}

func TestArrivals(t *testing.T) {
	const (
		chunkedHead = ok + "Transfer-Encoding: chunked\r\n\r\n"
		sizedHead   = ok + "Content-Length: 9\r\n\r\n"
	)
	for name, c := range map[string]struct {
		steps []step
		close bool
		size  int
		want  []piece
	}{
		// The reason for this package: net/http's reader returns nothing before
		// 40 here.
		"drip inside one HTTP chunk": {
			steps: []step{{10, chunkedHead}, {20, "9\r\none"}, {30, "two"}, {40, "six"}, {50, "\r\n0\r\n\r\n"}},
			want:  []piece{{"one", 20}, {"two", 30}, {"six", 40}, {"", 50}},
		},
		"drip inside the framing": {
			steps: []step{{10, chunkedHead + "3"}, {20, "\r"}, {25, "\n"}, {30, "one\r"}, {40, "\n3;x\r\n"}, {50, "two\r\n0\r\nA: b"}, {60, "\r\n\r"}, {70, "\n"}},
			want:  []piece{{"one", 30}, {"two", 50}, {"", 70}},
		},
		"many chunks in one write": {
			steps: []step{{10, chunkedHead}, {20, repeat("3\r\nabc\r\n", 100)}, {30, "3\r\nend\r\n0\r\n\r\n"}},
			want:  []piece{{repeat("abc", 100), 20}, {"end", 30}},
		},
		"header and chunks in one write": {
			steps: []step{{10, chunkedHead + "3\r\none\r\n3\r\ntwo\r\n"}, {30, "0\r\n\r\n"}},
			want:  []piece{{"onetwo", 10}, {"", 30}},
		},
		"header and half a chunk in one write": {
			steps: []step{{10, chunkedHead + "3\r\non"}, {30, "e\r\n0\r\n\r\n"}},
			want:  []piece{{"on", 10}, {"e", 30}},
		},
		"reads smaller than what came": {
			steps: []step{{10, chunkedHead}, {20, "5\r\nabcde\r\n2\r\nfg\r\n"}, {30, "0\r\n\r\n"}},
			size:  3,
			want:  []piece{{"abc", 20}, {"def", 20}, {"g", 20}, {"", 30}},
		},
		"sized, ended while the connection stays": {
			steps: []step{{10, sizedHead}, {20, "one"}, {30, "two"}, {40, "six"}},
			want:  []piece{{"one", 20}, {"two", 30}, {"six", 40}},
		},
		"sized, all at once": {
			steps: []step{{10, sizedHead + "onetwosix"}},
			want:  []piece{{"onetwosix", 10}},
		},
		"sized, small reads": {
			steps: []step{{10, sizedHead + "onet"}, {20, "wosix"}},
			size:  3,
			want:  []piece{{"one", 10}, {"t", 10}, {"wos", 20}, {"ix", 20}},
		},
		"until close": {
			steps: []step{{10, ok + "\r\n"}, {20, "one"}, {30, "two"}, {40, ""}},
			close: true,
			want:  []piece{{"one", 20}, {"two", 30}, {"", 40}},
		},
		"no body": {
			steps: []step{{10, "HTTP/1.1 204 No"}, {20, " Content\r\n\r\n"}},
			want:  []piece{{"", 20}},
		},
	} {
		sizes := []int{c.size}
		if c.size == 0 {
			sizes = []int{1000, 64 << 10} // through the buffer, and past it
		}
		for _, size := range sizes {
			t.Run(fmt.Sprintf("%s, %d", name, size), func(t *testing.T) {
				inBubble(t, &scripted{steps: c.steps, close: c.close}, func(t *testing.T, tr *Transport) {
					start := time.Now()
					resp, err := tr.RoundTrip(newRequest(t, "POST", memURL, "hello"))
					require.NoError(t, err)
					require.Equal(t, c.want, pieces(t, resp, start, size))
				})
			})
		}
	}
}

// The header is there when its last byte is, and has that time.
func TestHeaderArrival(t *testing.T) {
	s := &scripted{steps: []step{{10, "HTTP/1.1 200 OK\r\n"}, {20, "Content-Length: 1\r\n\r"}, {30, "\n"}, {90, "x"}}}
	inBubble(t, s, func(t *testing.T, tr *Transport) {
		start := time.Now()
		resp, err := tr.RoundTrip(newRequest(t, "GET", memURL, ""))
		require.NoError(t, err)
		require.Equal(t, 30*time.Millisecond, time.Since(start))
		require.Equal(t, 30*time.Millisecond, resp.Body.(*Body).Arrived().Sub(start))
		require.Equal(t, []piece{{"x", 90}}, pieces(t, resp, start, 10))
	})
}

// A stamp is the time of the read, also when its bytes are taken much later.
func TestStampIsKept(t *testing.T) {
	s := &scripted{steps: []step{{10, ok + "Content-Length: 6\r\n\r\nabc"}, {20, "def"}}}
	inBubble(t, s, func(t *testing.T, tr *Transport) {
		start := time.Now()
		resp, err := tr.RoundTrip(newRequest(t, "GET", memURL, ""))
		require.NoError(t, err)
		time.Sleep(time.Second)
		require.Equal(t, []piece{{"ab", 10}, {"c", 10}, {"de", 1010}, {"f", 1010}}, pieces(t, resp, start, 2))
	})
}

// A thousand chunks in one write are few reads.
func TestFewReads(t *testing.T) {
	event := "data: " + strings.Repeat("x", 50) + "\n\n"
	one := fmt.Sprintf("%x\r\n%s\r\n", len(event), event)
	s := &scripted{steps: []step{{0, chunkedHead}, {10, repeat(one, 900)}, {20, "0\r\n\r\n"}}}
	inBubble(t, s, func(t *testing.T, tr *Transport) {
		resp, err := tr.RoundTrip(newRequest(t, "GET", memURL, ""))
		require.NoError(t, err)
		all := pieces(t, resp, time.Now(), 64<<10)
		require.Len(t, all, 2)
		require.Len(t, all[0].data, 900*len(event))
	})
}
