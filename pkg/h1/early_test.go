package h1

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

const tooLarge = "HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Length: 8\r\n\r\ntoo much"

// A server answers before it has read the request: the answer is read while the
// request is still being written, and its writer ends.
func TestAnswerBeforeRequestEnds(t *testing.T) {
	for name, steps := range map[string][]step{
		"at once":     {{0, tooLarge}},
		"in pieces":   {{10, tooLarge[:20]}, {20, tooLarge[20:]}},
		"kept open":   {{0, strings.Replace(tooLarge, "Connection: close\r\n", "", 1)}},
		"until close": {{0, "HTTP/1.1 413 Content Too Large\r\n\r\ntoo much"}},
	} {
		for _, length := range []int{smallRequest, smallRequest + 1, 4 << 20} {
			t.Run(fmt.Sprintf("%s, %d", name, length), func(t *testing.T) {
				s := &scripted{steps: steps, unread: true, close: true}
				inBubble(t, s, func(t *testing.T, tr *Transport) {
					start := time.Now()
					resp, err := tr.RoundTrip(newRequest(t, "POST", memURL, strings.Repeat("x", length)))
					require.NoError(t, err)
					require.Equal(t, 413, resp.StatusCode)
					body := resp.Body.(*Body)
					data, err := io.ReadAll(body)
					require.NoError(t, err)
					require.Equal(t, "too much", string(data))
					last := time.Duration(steps[len(steps)-1].ms) * time.Millisecond
					require.Equal(t, last, body.Arrived().Sub(start))
				})
			})
		}
	}
}

// The writer of an abandoned request ends also when nobody reads it.
func TestAbandonedUpload(t *testing.T) {
	s := &scripted{steps: []step{{10, ok + "Content-Length: 2\r\n\r\nhi"}, {500, ""}}, unread: true}
	inBubble(t, s, func(t *testing.T, tr *Transport) {
		resp, err := tr.RoundTrip(newRequest(t, "POST", memURL, strings.Repeat("x", 1<<20)))
		require.NoError(t, err)
		start := time.Now()
		data, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Equal(t, "hi", string(data))
		require.Equal(t, lateWrite, time.Since(start))
		require.Zero(t, idle(tr), "the request is not out")
		synctest.Wait()
	})
}

// On sockets the answer of a server that closes without reading may share its way
// with a reset.
func TestEarlyAnswerOnSockets(t *testing.T) {
	for _, length := range []int{100, smallRequest, 1 << 20, 8 << 20} {
		t.Run(fmt.Sprint(length), func(t *testing.T) {
			onTCP(t, func(l net.Listener) {
				var wg sync.WaitGroup
				for {
					c, err := l.Accept()
					if err != nil {
						break
					}
					wg.Go(func() {
						// What a careful server does: answer, end its direction, and
						// read for a while so that no reset overtakes the answer.
						if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
							_, _ = io.WriteString(c, tooLarge)
							_ = c.(*net.TCPConn).CloseWrite()
							_, _ = io.CopyN(io.Discard, c, 256<<10)
						}
						c.Close()
					})
				}
				wg.Wait()
			}, func(t *testing.T, tr *Transport, url string) {
				for range 20 {
					resp, err := tr.RoundTrip(newRequest(t, "POST", url, strings.Repeat("x", length)))
					require.NoError(t, err)
					require.Equal(t, 413, resp.StatusCode)
					data, err := io.ReadAll(resp.Body)
					require.NoError(t, err)
					require.Equal(t, "too much", string(data))
					require.NoError(t, resp.Body.Close())
					require.Zero(t, idle(tr))
				}
			})
		})
	}
}

// A server that closes without any answer is a ClosedError, whatever had become of
// the request.
func TestClosedWithoutAnswer(t *testing.T) {
	for _, length := range []int{0, 100, smallRequest + 1, 4 << 20} {
		s := &scripted{unread: true, close: true}
		inBubble(t, s, func(t *testing.T, tr *Transport) {
			_, err := tr.RoundTrip(newRequest(t, "POST", memURL, strings.Repeat("x", length)))
			var closed *ClosedError
			require.ErrorAs(t, err, &closed)
			require.False(t, closed.Reused)
		})
	}
}
