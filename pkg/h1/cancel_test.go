package h1

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/tokpace/pkg/memnet"
)

var errGaveUp = errors.New("gave up")

// An ending gives exchanges up after 100 ms: by the context, or by a deadline if
// there is no ctx.
type ending struct {
	ctx  func(context.Context) (context.Context, context.CancelFunc)
	want error
}

func (e ending) send(t *testing.T, tr *Transport, req *http.Request) (*http.Response, context.CancelFunc, error) {
	if e.ctx == nil {
		resp, err := tr.RoundTripUntil(req.WithContext(t.Context()), time.Now().Add(100*time.Millisecond))
		return resp, func() {}, err
	}
	ctx, cancel := e.ctx(t.Context())
	resp, err := tr.RoundTrip(req.WithContext(ctx))
	return resp, cancel, err
}

var giveUp = map[string]ending{
	"cancel": {func(ctx context.Context) (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancel(ctx)
		time.AfterFunc(100*time.Millisecond, cancel)
		return ctx, cancel
	}, context.Canceled},
	"deadline": {func(ctx context.Context) (context.Context, context.CancelFunc) {
		return context.WithTimeout(ctx, 100*time.Millisecond)
	}, context.DeadlineExceeded},
	"until": {nil, context.DeadlineExceeded},
	"cause": {func(ctx context.Context) (context.Context, context.CancelFunc) {
		return context.WithTimeoutCause(ctx, 100*time.Millisecond, errGaveUp)
	}, errGaveUp},
}

func TestGivingUp(t *testing.T) {
	for stage, c := range map[string]struct {
		steps  []step
		body   string
		header bool // it is over after the header
	}{
		"waiting for the header": {steps: []step{{500, ""}}},
		"inside the header":      {steps: []step{{50, "HTTP/1.1 200"}, {500, ""}}},
		"before the body":        {steps: []step{{50, chunkedHead}, {500, ""}}, header: true},
		"inside a chunk":         {steps: []step{{50, chunkedHead + "5\r\nabc"}, {500, ""}}, header: true},
		"inside a sized body":    {steps: []step{{50, ok + "Content-Length: 5\r\n\r\nabc"}, {500, ""}}, header: true},
		"inside an open body":    {steps: []step{{50, ok + "\r\nabc"}, {500, ""}}, header: true},
		"writing a large body":   {steps: []step{{500, ""}}, body: strings.Repeat("x", 1<<20)},
	} {
		for how, g := range giveUp {
			t.Run(stage+", "+how, func(t *testing.T) {
				inBubble(t, &scripted{steps: c.steps, unread: c.body != ""}, func(t *testing.T, tr *Transport) {
					start := time.Now()
					resp, done, err := g.send(t, tr, newRequest(t, "POST", memURL, c.body))
					defer done()
					if c.header {
						require.NoError(t, err)
						_, err = io.Copy(io.Discard, resp.Body)
						_, again := resp.Body.Read(make([]byte, 10))
						require.Equal(t, err, again)
						require.NoError(t, resp.Body.Close())
					}
					require.ErrorIs(t, err, g.want)
					require.Equal(t, 100*time.Millisecond, time.Since(start))
					require.Zero(t, idle(tr))
				})
			})
		}
	}
}

func TestGivingUpWhileConnecting(t *testing.T) {
	for how, g := range giveUp {
		t.Run("dial, "+how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := memnet.Listen() // which nobody serves
				tr := &Transport{Dial: l.DialContext}
				start := time.Now()
				_, done, err := g.send(t, tr, newRequest(t, "GET", memURL, ""))
				defer done()
				require.ErrorIs(t, err, g.want)
				require.Equal(t, 100*time.Millisecond, time.Since(start))
			})
		})
		t.Run("TLS handshake, "+how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := memnet.Listen()
				accepted := make(chan net.Conn, 1)
				go func() {
					c, err := l.Accept()
					if err == nil {
						_, _ = io.Copy(io.Discard, c) // silently
						accepted <- c
					}
				}()
				tr := &Transport{Dial: l.DialContext}
				start := time.Now()
				_, done, err := g.send(t, tr, newRequest(t, "GET", "https://mem.invalid/", ""))
				defer done()
				require.ErrorIs(t, err, g.want)
				require.Equal(t, 100*time.Millisecond, time.Since(start))
				(<-accepted).Close() // it saw the end
			})
		})
	}
	t.Run("before it begins", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errGaveUp)
		body := &closeCounter{Reader: strings.NewReader("x")}
		req, err := http.NewRequestWithContext(ctx, "POST", memURL, body)
		require.NoError(t, err)
		_, err = (&Transport{}).RoundTrip(req)
		require.Equal(t, errGaveUp, err)
		require.EqualValues(t, 1, body.closed.Load())
	})
}

// A context that ends after the body's end does no harm to the connection, one
// that ends between reads loses it.
func TestGivingUpBetweenReads(t *testing.T) {
	s := &scripted{steps: []step{{10, ok + "Content-Length: 6\r\n\r\nabcdef"}}}
	inBubble(t, s, func(t *testing.T, tr *Transport) {
		ctx, cancel := context.WithCancel(t.Context())
		resp, err := tr.RoundTrip(newRequest(t, "GET", memURL, "").WithContext(ctx))
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Equal(t, "abcdef", string(body))
		cancel()
		synctest.Wait()
		require.Equal(t, 1, idle(tr))

		ctx, cancel = context.WithCancel(t.Context())
		resp, err = tr.RoundTrip(newRequest(t, "GET", memURL, "").WithContext(ctx))
		require.NoError(t, err)
		n, err := resp.Body.Read(make([]byte, 3))
		require.NoError(t, err)
		require.Equal(t, 3, n)
		cancel()
		synctest.Wait()
		_, _ = io.ReadAll(resp.Body) // what is buffered may still come
		require.Zero(t, idle(tr))
		conns, _ := s.count()
		require.Equal(t, 1, conns)
	})
}

// Close from another goroutine ends a Read.
func TestCloseEndsRead(t *testing.T) {
	s := &scripted{steps: []step{{10, chunkedHead + "3\r\nabc\r\n"}, {900, "0\r\n\r\n"}}}
	inBubble(t, s, func(t *testing.T, tr *Transport) {
		start := time.Now()
		resp, err := tr.RoundTrip(newRequest(t, "GET", memURL, ""))
		require.NoError(t, err)
		time.AfterFunc(190*time.Millisecond, func() { resp.Body.Close() })
		data, err := io.ReadAll(resp.Body)
		require.ErrorIs(t, err, net.ErrClosed)
		require.Equal(t, "abc", string(data))
		require.Equal(t, 200*time.Millisecond, time.Since(start))
		_, err = resp.Body.Read(make([]byte, 1))
		require.Equal(t, http.ErrBodyReadAfterClose, err)
		require.Zero(t, idle(tr))
	})
}

// A deadline that has passed while the connection was idle is not that of the next
// exchange.
func TestDeadlineOfAnotherExchange(t *testing.T) {
	answer := ok + "Content-Length: 1\r\n\r\nx"
	inBubble(t, &scripted{steps: []step{{0, answer}}}, func(t *testing.T, tr *Transport) {
		for _, until := range []time.Duration{time.Millisecond, 0, time.Second, time.Millisecond} {
			var deadline time.Time
			if until > 0 {
				deadline = time.Now().Add(until)
			}
			resp, err := tr.RoundTripUntil(newRequest(t, "GET", memURL, ""), deadline)
			require.NoError(t, err)
			_, err = io.Copy(io.Discard, resp.Body)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, 1, idle(tr))
			time.Sleep(10 * time.Millisecond)
		}
	})
}
