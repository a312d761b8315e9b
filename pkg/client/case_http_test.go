package client_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/tokpace/pkg/api"
	"example.com/tokpace/pkg/client"
	"example.com/tokpace/pkg/virtual"
)

// inVirtualTime runs f with a client of s, once through each transport.
func inVirtualTime(t *testing.T, s *scriptServer, f func(t *testing.T, c *client.Client)) {
	t.Helper()
	for _, transport := range client.TransportNames() {
		t.Run(transport, func(t *testing.T) {
			s.requests, s.conns, s.open, s.busy, s.peak = nil, 0, nil, 0, 0
			virtual.Serve(t, s.serve, func(t *testing.T, c *client.Client) {
				useTransport(t, c, transport)
				f(t, c)
			})
		})
	}
}

func TestCaseH24CutWithoutTerminator(t *testing.T) {
	noLeaks(t)
	w := want{class: api.Truncated, text: "ab"}
	steps := []step{at(50, tok("a")), at(100, tok("b"))}
	t.Run("FIN", func(t *testing.T) { play(t, chatRequest(t), w, cut(fin, steps...)) })
	t.Run("RST", func(t *testing.T) {
		w := w
		w.text = "ab"
		play(t, chatRequest(t), w, cut(reset, append(steps, at(150, tok("c")[:10]))...))
	})
	t.Run("inside a chunk", func(t *testing.T) {
		s := cut(fin, steps...)
		s.steps = append(s.steps, at(150, "c8\r\n"+strings.Repeat("x", 90)))
		play(t, chatRequest(t), w, s)
	})
}

func TestCaseH25NoTerminalSignal(t *testing.T) {
	noLeaks(t)
	play(t, chatRequest(t), want{class: api.Truncated, text: "ab"}, stream(at(50, tok("a")), at(100, tok("b"))))
	t.Run("finish reason is enough", func(t *testing.T) {
		play(t, chatRequest(t), want{events: [][]int{{50}}, text: "a"}, stream(at(50, tok("a")), at(60, fins)))
	})
}

func TestCaseH26StatusWithHTMLBody(t *testing.T) {
	noLeaks(t)
	const html = "Content-Type: text/html\r\n"
	req := chatRequest(t)
	for name, c := range map[string]struct {
		script script
		status int
		words  string
	}{
		"503": {plain(10, 503, html, "<html><h1>503</h1></html>"), 503, "<html><h1>503</h1></html>"},
		"500": {plain(10, 500, html, ""), 500, "Internal Server Error"},
		"3 MB": {plain(10, 503, html, "<html>"+strings.Repeat("<p>sorry</p>", 250_000)), 503,
			"<html>" + strings.Repeat("<p>sorry</p>", 16) + "<p…"},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, req, want{class: api.HTTPStatus, status: c.status, check: func(t *testing.T, ex *client.Exchange, s *scriptServer) {
				require.Equal(t, c.words, ex.Error.Message)
			}}, c.script)
		})
	}
	t.Run("connection reused", func(t *testing.T) {
		s := &scriptServer{scripts: []script{plain(10, 503, html, strings.Repeat("x", 3<<20)), stream(at(50, tok("a"), fins, done))}}
		inVirtualTime(t, s, func(t *testing.T, c *client.Client) {
			require.False(t, c.Do(t.Context(), req).OK)
			require.True(t, c.Do(t.Context(), req).ConnReused)
			require.Equal(t, 1, s.conns)
		})
	})
}

func TestCaseH27NoHiddenRetries(t *testing.T) {
	noLeaks(t)
	play(t, chatRequest(t), want{class: api.HTTPStatus, status: 429, took: 10, check: func(t *testing.T, ex *client.Exchange, s *scriptServer) {
		require.Len(t, s.requests, 1)
		require.Equal(t, 1, ex.Attempts)
		require.Equal(t, "slow down", ex.Error.Message)
	}}, plain(10, 429, jsonType+"Retry-After: 2\r\n", `{"error":{"message":"slow down","type":"rate_limit"}}`),
		stream(at(50, tok("a"), fins, done)))
}

func TestCaseH28ServerClosesIdleConnection(t *testing.T) {
	noLeaks(t)
	const requests = 200
	body := `{"choices":[{"index":0,"message":{"content":"hi"},"finish_reason":"stop"}],"usage":` + usage(1, 1) + `}`
	req, err := api.NewChat("m", []api.Message{{Role: "user", Content: "hi"}}, api.Generation{})
	require.NoError(t, err)
	// The server closes after each answer, a different time later each time.
	var scripts []script
	for k := range 6 {
		s := plain(1, 200, jsonType, body)
		s.steps = append(s.steps, at(1+k, ""))
		s.end = fin
		scripts = append(scripts, s)
	}
	all := make([]script, requests*2)
	for i := range all {
		all[i] = scripts[i%len(scripts)]
	}
	run := func(t *testing.T, c *client.Client, s *scriptServer) {
		resent := 0
		for range requests {
			ex := c.Do(t.Context(), req)
			require.True(t, ex.OK, "%v", ex.Error)
			resent += ex.Attempts - 1
			time.Sleep(3 * time.Millisecond) // the client's own pause, from the case
		}
		require.Len(t, s.requests, requests)
		t.Logf("%d sent again, %d connections", resent, s.conns)
	}
	t.Run("virtual", func(t *testing.T) {
		s := &scriptServer{scripts: all}
		inVirtualTime(t, s, func(t *testing.T, c *client.Client) { run(t, c, s) })
	})
	for _, transport := range client.TransportNames() {
		t.Run("tcp, "+transport, func(t *testing.T) {
			s := &scriptServer{scripts: all}
			overTCP(t, transport, s, func(c *client.Client) { run(t, c, s) })
		})
	}
}

// A reused connection that dies before any answer byte is replaced once, and the
// clock runs from the first send; a second death, or one after an answer byte,
// is a failure.
func TestResendOnDeadReusedConnection(t *testing.T) {
	noLeaks(t)
	good := stream(at(50, tok("a"), fins, done))
	dead := script{steps: []step{at(30, "")}, end: fin}
	begun := script{steps: []step{at(30, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n")}, end: fin}
	req := chatRequest(t)
	for name, c := range map[string]struct {
		second, third script
		class         api.Class
		attempts      int
		ttft          time.Duration
	}{
		"replaced":     {dead, good, "", 2, 80 * time.Millisecond},
		"dead twice":   {dead, dead, api.Truncated, 2, 0},
		"answer begun": {begun, good, api.Truncated, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := &scriptServer{scripts: []script{good, c.second, c.third}}
			inVirtualTime(t, s, func(t *testing.T, cl *client.Client) {
				require.True(t, cl.Do(t.Context(), req).OK)
				ex := cl.Do(t.Context(), req)
				require.Equal(t, c.attempts, ex.Attempts)
				if c.class != "" {
					require.Equal(t, c.class, ex.Error.Class, "%v", ex.Error)
					return
				}
				require.True(t, ex.OK, "%v", ex.Error)
				require.Equal(t, c.ttft, ex.TTFT.V)
				require.False(t, ex.ConnReused)
			})
		})
	}
	t.Run("fresh connection is not replaced", func(t *testing.T) {
		s := &scriptServer{scripts: []script{dead, good}}
		inVirtualTime(t, s, func(t *testing.T, cl *client.Client) {
			ex := cl.Do(t.Context(), req)
			require.Equal(t, api.Truncated, ex.Error.Class)
			require.Equal(t, 1, ex.Attempts)
		})
	})
}

func TestCaseH31Redirects(t *testing.T) {
	noLeaks(t)
	req := chatRequest(t)
	req.Endpoint = "/v1/chat/completions/"
	for _, status := range []int{301, 302, 303, 307, 308} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			play(t, req, want{class: api.HTTPStatus, status: status, check: func(t *testing.T, ex *client.Exchange, s *scriptServer) {
				require.Contains(t, ex.Error.Message, "/v1/chat/completions:")
				require.Len(t, s.requests, 1)
			}}, plain(10, status, "Location: /v1/chat/completions\r\n", ""))
		})
	}
}

func TestCaseH33ManyConnections(t *testing.T) {
	noLeaks(t)
	const conc, requests = 200, 2000
	sc := stream(at(100, tok("a"), fins, done), at(105, ""))
	sc.steps[2].data = "0\r\n\r\n"
	req := chatRequest(t)
	load := func(t *testing.T, c *client.Client) (failed int64) {
		var wg sync.WaitGroup
		var failures atomic.Int64
		for range conc {
			wg.Go(func() {
				for range requests / conc {
					if ex := c.Do(t.Context(), req); !ex.OK {
						failures.Add(1)
						t.Log(ex.Error)
					}
				}
			})
		}
		wg.Wait()
		return failures.Load()
	}
	t.Run("virtual", func(t *testing.T) {
		s := &scriptServer{scripts: []script{sc}}
		inVirtualTime(t, s, func(t *testing.T, c *client.Client) {
			start := time.Now()
			require.Zero(t, load(t, c))
			require.Equal(t, conc, s.peak)
			require.Equal(t, conc, s.conns)
			require.Equal(t, requests/conc*105*time.Millisecond, time.Since(start))
		})
	})
	for _, transport := range client.TransportNames() {
		t.Run("tcp, "+transport, func(t *testing.T) {
			// The first answers wait for each other: however slow the machine, all
			// of them are asked for at once, or a hidden cap makes this a timeout.
			var first sync.WaitGroup
			var held atomic.Int64
			first.Add(conc)
			s := &scriptServer{scripts: []script{sc}, hold: func() {
				if held.Add(1) <= conc {
					first.Done()
					first.Wait()
				}
			}}
			overTCP(t, transport, s, func(c *client.Client) {
				c.Timeout = 30 * time.Second
				require.Zero(t, load(t, c))
				conns, served := s.counts()
				require.Equal(t, requests, served)
				require.Equal(t, conc, s.peak)
				require.LessOrEqual(t, conns, 220)
			})
		})
	}
}

// stalls is 100 answers of which 10 never end: they say nothing, or stop inside.
func stalls() (scripts []script) {
	silent := script{}
	inside := script{steps: []step{{0, streamHead}, at(50, httpChunk(tok("a")))}}
	for k := range 100 {
		switch k % 20 {
		case 5:
			scripts = append(scripts, silent)
		case 15:
			scripts = append(scripts, inside)
		default:
			scripts = append(scripts, stream(at(50, tok("a")), at(60, fins, done)))
		}
	}
	return scripts
}

func TestCaseH34NeverAnswersOrStalls(t *testing.T) {
	noLeaks(t)
	req := chatRequest(t)
	// All at once; how many came to which end.
	load := func(t *testing.T, c *client.Client) map[api.Class]int {
		c.Timeout = time.Second
		var mu sync.Mutex
		ends := map[api.Class]int{}
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				ex := c.Do(t.Context(), req)
				mu.Lock()
				defer mu.Unlock()
				if ex.OK {
					ends[""]++
				} else {
					ends[ex.Error.Class]++
				}
			})
		}
		wg.Wait()
		return ends
	}
	ends := map[api.Class]int{"": 90, api.Timeout: 10}
	t.Run("10 of 100", func(t *testing.T) {
		t.Run("virtual", func(t *testing.T) {
			inVirtualTime(t, &scriptServer{scripts: stalls()}, func(t *testing.T, c *client.Client) {
				start := time.Now()
				require.Equal(t, ends, load(t, c))
				require.Equal(t, time.Second, time.Since(start))
			})
		})
		for _, transport := range client.TransportNames() {
			t.Run("tcp, "+transport, func(t *testing.T) {
				for try := 1; ; try++ {
					var got map[api.Class]int
					overTCP(t, transport, &scriptServer{scripts: stalls()}, func(c *client.Client) { got = load(t, c) })
					// A busy machine can make good ones late, but no stall good.
					if try < 3 && got[""]+got[api.Timeout] == 100 && got[api.Timeout] > 10 {
						t.Log(got, "- trying again")
						continue
					}
					require.Equal(t, ends, got)
					return
				}
			})
		}
	})
	for name, sc := range map[string]script{
		"never answers":       {steps: []step{at(5000, "")}},
		"stalls after token":  {steps: []step{{0, streamHead}, at(50, httpChunk(tok("a"))), at(5000, "")}},
		"body never ends":     endless(),
		"stalls inside event": {steps: []step{{0, streamHead}, at(50, httpChunk(tok("a")[:20])), at(5000, "")}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &scriptServer{scripts: []script{sc}}
			inVirtualTime(t, s, func(t *testing.T, c *client.Client) {
				c.Timeout = time.Second
				start := time.Now()
				ex := c.Do(t.Context(), req)
				require.Equal(t, time.Second, time.Since(start))
				require.Equal(t, api.Timeout, ex.Error.Class)
				require.Equal(t, "no complete answer within 1s", ex.Error.Message)
			})
		})
	}
	t.Run("the caller gives up", func(t *testing.T) {
		s := &scriptServer{scripts: []script{{steps: []step{at(5000, "")}}}}
		inVirtualTime(t, s, func(t *testing.T, c *client.Client) {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(300*time.Millisecond, cancel)
			start := time.Now()
			ex := c.Do(ctx, req)
			require.Equal(t, 300*time.Millisecond, time.Since(start))
			require.Equal(t, api.Canceled, ex.Error.Class)
		})
	})
	t.Run("the caller's deadline", func(t *testing.T) {
		s := &scriptServer{scripts: []script{{steps: []step{at(5000, "")}}}}
		inVirtualTime(t, s, func(t *testing.T, c *client.Client) {
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			require.Equal(t, api.Timeout, c.Do(ctx, req).Error.Class)
		})
	})
	t.Run("default limit", func(t *testing.T) {
		s := &scriptServer{scripts: []script{{steps: []step{at(3_600_000, "")}}}}
		inVirtualTime(t, s, func(t *testing.T, c *client.Client) {
			start := time.Now()
			require.Equal(t, api.Timeout, c.Do(t.Context(), req).Error.Class)
			require.Equal(t, 10*time.Minute, time.Since(start))
		})
	})
}

// endless drips a comment every 100 ms for a minute.
func endless() script {
	s := script{steps: []step{{0, streamHead}}}
	for k := range 600 {
		s.steps = append(s.steps, at(100*k, httpChunk(": ping\n\n")))
	}
	return s
}

func TestConnectFailures(t *testing.T) {
	noLeaks(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l.Close()
	for name, base := range map[string]string{
		"refused":       "http://" + l.Addr().String(),
		"no base":       "",
		"no scheme":     "127.0.0.1:8000",
		"not a URL":     "http://[::1",
		"wrong scheme":  "ftp://127.0.0.1",
		"no TLS server": "https://" + l.Addr().String(),
	} {
		t.Run(name, func(t *testing.T) {
			for _, transport := range client.TransportNames() {
				tr, err := client.NamedTransport(transport, nil)
				require.NoError(t, err)
				c := &client.Client{BaseURL: base, Transport: tr}
				ex := c.Do(t.Context(), chatRequest(t))
				require.Equal(t, api.Connect, ex.Error.Class, "%v", ex.Error)
				require.NotContains(t, ex.Error.Message, "\n")
			}
		})
	}
}

func TestNotHTTP(t *testing.T) {
	noLeaks(t)
	play(t, chatRequest(t), want{class: api.Malformed}, script{steps: []step{at(10, "SSH-2.0-OpenSSH_9.6\r\n\r\n")}, end: fin})
	play2 := func(name string, sc script, class api.Class) {
		t.Run(name, func(t *testing.T) { play(t, chatRequest(t), want{class: class, text: "a"}, sc) })
	}
	bad := cut(fin, at(20, tok("a")))
	bad.steps = append(bad.steps, at(30, "zz\r\nnonsense"))
	play2("bad chunk size", bad, api.Malformed)
	play2("bad JSON", stream(at(20, tok("a")), at(30, "data: {\"choices\":[{]}\n\n"), at(40, fins, done)), api.Malformed)
	play2("JSON cut at the end", stream(at(20, tok("a")), at(30, `data: {"choices":[{"ind`)), api.Truncated)
}
