package client_test

import (
	"net"
	"net/http"
	"net/http/httptrace"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/jarcoal/httpmock"
	"github.com/stretchr/testify/require"

	"example.com/tokpace/pkg/api"
	"example.com/tokpace/pkg/client"
)

// A client that is stopped while an answer comes finds all of it in one read. It says
// so, no time is negative or later than the read, and where the kernel tells when the
// segments came, the stop is in none of the times.
func TestCoalescedSegments(t *testing.T) {
	noLeaks(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	wrote := make(chan time.Time, 1)
	served := make(chan struct{})
	go func() {
		defer close(served)
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		if _, err := conn.Read(make([]byte, 1<<16)); err != nil {
			return
		}
		for _, data := range []string{streamHead, httpChunk(tok("a")), httpChunk(tok("b")), httpChunk(tok("c") + fins + use(2, 3) + done), "0\r\n\r\n"} {
			_, _ = conn.Write([]byte(data))
		}
		wrote <- time.Now()
		_, _ = conn.Read(make([]byte, 1)) // until the client closes
	}()
	c := &client.Client{BaseURL: "http://" + l.Addr().String()}
	var end, resumed time.Time
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		WroteRequest: func(httptrace.WroteRequestInfo) {
			end = <-wrote
			resumed = time.Now()
		},
	})
	ex := c.Do(ctx, chatRequest(t))
	require.True(t, ex.OK, "%v", ex.Error)
	c.CloseIdleConnections()
	l.Close()
	<-served
	require.Equal(t, "abc", ex.Text)
	require.Positive(t, ex.Reads)
	require.Len(t, ex.ITL, 2)
	require.GreaterOrEqual(t, ex.TTFT.V, time.Duration(0))
	require.GreaterOrEqual(t, ex.E2E.V, ex.TTFT.V)
	require.GreaterOrEqual(t, ex.BodyComplete.V, ex.E2E.V)
	require.Equal(t, 1, ex.Reads)
	require.Equal(t, 1, ex.MergedReads)
	require.Equal(t, []time.Duration{0, 0}, ex.ITL)
	complete := ex.Sent.Add(ex.BodyComplete.V)
	if runtime.GOOS == "linux" && ex.KernelStamps == 1 {
		require.True(t, complete.Before(resumed))
		require.Less(t, complete.Sub(end), time.Millisecond)
	} else {
		require.Zero(t, ex.KernelStamps)
		require.False(t, complete.Before(resumed))
	}
}

// An exchange says how its answer was read, also where that was no success.
func TestReads(t *testing.T) {
	noLeaks(t)
	at3 := func(ending ending) script {
		return script{steps: []step{at(10, streamHead), at(20, httpChunk(tok("a"))), at(30, httpChunk(tok("b")+fins+done), "0\r\n\r\n")}, end: ending}
	}
	playOn(t, client.H1, chatRequest(t), want{events: [][]int{{20, 30}}, text: "ab", check: func(t *testing.T, ex *client.Exchange, _ *scriptServer) {
		require.Positive(t, ex.Reads)
		require.LessOrEqual(t, ex.Reads, 3) // a busy machine reads late
		require.LessOrEqual(t, ex.KernelStamps, ex.Reads)
		require.LessOrEqual(t, ex.MergedReads, 1)
	}}, at3(0))
	inVirtualTime(t, &scriptServer{scripts: []script{at3(0)}}, func(t *testing.T, c *client.Client) {
		ex := c.Do(t.Context(), chatRequest(t))
		reads := 3
		if strings.HasSuffix(t.Name(), client.NetHTTP) {
			reads = 2 // the header's is not known
		}
		require.Equal(t, reads, ex.Reads)
		require.Zero(t, ex.KernelStamps)
		require.Zero(t, ex.MergedReads)
	})
	playOn(t, client.H1, chatRequest(t), want{class: "http_status", status: http.StatusTeapot, check: func(t *testing.T, ex *client.Exchange, _ *scriptServer) {
		require.Equal(t, 1, ex.Reads)
	}}, plain(10, http.StatusTeapot, jsonType, `{}`))
}

// A request is prepared once for many, and what a transport of the user's does to one
// is not in the next.
func TestPreparedRequests(t *testing.T) {
	noLeaks(t)
	mock := httpmock.NewMockTransport()
	mock.RegisterResponder(http.MethodPost, chatURL, answer(200, "text/event-stream", tok("a")+fins+done))
	var seen []http.Header
	c := &client.Client{BaseURL: mockBase, APIKey: "sk-secret", Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		seen = append(seen, r.Header.Clone())
		r.Header.Set("X-Mine", "1")
		return mock.RoundTrip(r)
	})}
	own := chatRequest(t)
	own.Header = http.Header{"X-Own": {"1"}}
	for _, req := range []*api.Request{chatRequest(t), own, chatRequest(t)} {
		ex := c.Do(t.Context(), req)
		require.True(t, ex.OK, "%v", ex.Error)
	}
	require.Equal(t, "1", seen[1].Get("X-Own"))
	require.Equal(t, "Bearer sk-secret", seen[1].Get("Authorization"))
	require.Equal(t, seen[0], seen[2])
	require.Empty(t, seen[2].Get("X-Mine"))
	require.Empty(t, seen[2].Get("X-Own"))
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
