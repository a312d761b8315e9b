package client_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/tokpace/pkg/api"
	"example.com/tokpace/pkg/client"
	"example.com/tokpace/pkg/metric"
)

func tpotIs(d time.Duration) func(*testing.T, *client.Exchange, *scriptServer) {
	return func(t *testing.T, ex *client.Exchange, _ *scriptServer) {
		t.Helper()
		require.True(t, ex.TPOT.Known)
		if ex.Connect.V == 0 { // virtual time
			require.Equal(t, d, ex.TPOT.V)
		}
	}
}

func TestCaseH11RoleChunkIsNoToken(t *testing.T) {
	noLeaks(t)
	for name, first := range map[string]string{"empty": role, "null": chat(`{"role":"assistant","content":null}`)} {
		t.Run(name, func(t *testing.T) {
			play(t, chatRequest(t), want{
				events: [][]int{{300, 350, 400}}, in: "9 server", out: "3 server", text: "abc",
				check: func(t *testing.T, ex *client.Exchange, s *scriptServer) {
					tpotIs(50*time.Millisecond)(t, ex, s)
					require.Equal(t, ex.E2E.V-ex.TTFT.V, ex.ITL[0]+ex.ITL[1])
				},
			}, stream(at(20, first), at(300, tok("a")), at(350, tok("b")), at(400, tok("c")), at(410, fins, use(9, 3), done)))
		})
	}
}

func TestCaseH12ReasoningContent(t *testing.T) {
	noLeaks(t)
	for _, field := range []string{"reasoning_content", "reasoning"} {
		t.Run(field, func(t *testing.T) {
			play(t, chatRequest(t), want{events: [][]int{{80, 140}}, in: "6 server", out: "2 server",
				check: func(t *testing.T, ex *client.Exchange, _ *scriptServer) {
					require.Equal(t, "mmhm", ex.Reasoning)
					require.False(t, ex.FirstAnswer.Known)
				},
			}, stream(at(10, role), at(80, chat(`{"`+field+`":"mm"}`)), at(140, chat(`{"`+field+`":"hm","content":null}`)), at(150, fins, use(6, 2), done)))
		})
	}
}

func TestFirstAnswerComesAfterReasoning(t *testing.T) {
	noLeaks(t)
	play(t, chatRequest(t), want{events: [][]int{{80, 140}}, text: "yes", check: func(t *testing.T, ex *client.Exchange, _ *scriptServer) {
		require.Equal(t, ex.E2E, ex.FirstAnswer)
		if ex.MergedReads == 0 { // on a busy machine both can come at once
			require.Less(t, ex.TTFT.V, ex.FirstAnswer.V)
		}
	}}, stream(at(80, chat(`{"reasoning_content":"mm"}`)), at(140, tok("yes")), at(150, fins, done)))
}

func TestCaseH13OnlyToolCalls(t *testing.T) {
	noLeaks(t)
	play(t, chatRequest(t), want{events: [][]int{{90, 150}}, in: "30 server", out: "8 server",
		check: func(t *testing.T, ex *client.Exchange, _ *scriptServer) {
			require.Equal(t, []api.ToolCall{{ID: "t1", Name: "f", Arguments: `{"x":1}`}}, ex.ToolCalls)
			require.Equal(t, "tool_calls", ex.FinishReason)
		},
	}, stream(
		at(10, chat(`{"role":"assistant","content":null}`)),
		at(90, chat(`{"tool_calls":[{"index":0,"id":"t1","type":"function","function":{"name":"f","arguments":""}}]}`)),
		at(150, chat(`{"tool_calls":[{"index":0,"function":{"arguments":"{\"x\":1}"}}]}`)),
		at(160, finish("tool_calls"), use(30, 8), done)))
}

func TestCaseH15TrailingUsage(t *testing.T) {
	noLeaks(t)
	play(t, chatRequest(t), want{events: [][]int{{100, 150, 200}}, in: "4 server", out: "3 server", text: "abc",
		check: func(t *testing.T, ex *client.Exchange, s *scriptServer) {
			tpotIs(50*time.Millisecond)(t, ex, s)
			require.GreaterOrEqual(t, ex.BodyComplete.V, 700*time.Millisecond)
		},
	}, stream(at(100, tok("a")), at(150, tok("b")), at(200, tok("c")), at(210, fins), at(500, use(4, 3)), at(700, done)))
}

func TestCaseH16UsageInEmptyChunk(t *testing.T) {
	noLeaks(t)
	last := `data: {"choices":[{"index":0,"text":"","finish_reason":"stop"}],"usage":` + usage(7, 2) + "}\n\n"
	play(t, completionRequest(t), want{events: [][]int{{50, 100}}, in: "7 server", out: "2 server", text: "ab"},
		stream(at(50, ctok("a")), at(100, ctok("b")), at(110, last, done)))
}

func TestCaseH17RunningUsage(t *testing.T) {
	noLeaks(t)
	running := func(s string, k int) string {
		return strings.Replace(s, "]}\n", `],"usage":`+usage(12, k)+"}\n", 1)
	}
	var steps []step
	for k := 1; k <= 5; k++ {
		steps = append(steps, at(50*k, running(tok("a"), k)))
	}
	steps = append(steps, at(260, running(fins, 5), use(12, 5), done))
	play(t, chatRequest(t), want{events: [][]int{{50, 100, 150, 200, 250}}, in: "12 server", out: "5 server", text: "aaaaa",
		check: tpotIs(50 * time.Millisecond)}, stream(steps...))
}

func TestRunningUsageTellsFirstEventTokens(t *testing.T) {
	noLeaks(t)
	first := strings.Replace(tok("a b c"), "]}\n", `],"usage":`+usage(12, 3)+"}\n", 1)
	play(t, chatRequest(t), want{events: [][]int{{50, 150}}, in: "12 server", out: "5 server", text: "a b cd e",
		check: tpotIs(50 * time.Millisecond)}, stream(at(50, first), at(150, tok("d e")), at(160, fins, use(12, 5), done)))
}

func TestCaseH18SeveralTokensPerEvent(t *testing.T) {
	noLeaks(t)
	play(t, chatRequest(t), want{events: [][]int{{100, 200, 300}}, in: "8 server", out: "12 server", text: strings.Repeat("w x y z ", 3),
		check: func(t *testing.T, ex *client.Exchange, s *scriptServer) {
			tpotIs(200*time.Millisecond/11)(t, ex, s)
			require.Equal(t, 3, ex.Events.V)
		},
	}, stream(at(100, tok("w x y z ")), at(200, tok("w x y z ")), at(300, tok("w x y z ")), at(310, fins, use(8, 12), done)))
}

func TestCaseH19NoUsage(t *testing.T) {
	noLeaks(t)
	req, err := api.NewChat("m", []api.Message{{Role: "user", Content: "hi"}}, api.Generation{Stream: true, MaxTokens: 64})
	require.NoError(t, err)
	play(t, req, want{events: [][]int{{50, 100, 150, 200}}, text: "aaaa",
		check: func(t *testing.T, ex *client.Exchange, s *scriptServer) {
			var body struct {
				Options struct {
					IncludeUsage bool `json:"include_usage"`
				} `json:"stream_options"`
			}
			require.NoError(t, json.Unmarshal([]byte(s.requests[0]), &body))
			require.True(t, body.Options.IncludeUsage)
			require.False(t, ex.TPOT.Known)
		},
	}, stream(at(50, tok("a")), at(100, tok("a")), at(150, tok("a")), at(200, tok("a")), at(210, fins, done)))
}

func TestCaseH20TwoChoices(t *testing.T) {
	noLeaks(t)
	second := func(s string) string { return strings.Replace(s, `"index":0`, `"index":1`, 1) }
	req, err := api.NewChat("m", []api.Message{{Role: "user", Content: "hi"}}, api.Generation{Stream: true, N: 2})
	require.NoError(t, err)
	play(t, req, want{events: [][]int{{100, 200}, {110, 210}}, in: "5 server", out: "4 server", text: "ac"},
		stream(at(100, tok("a")), at(110, second(tok("b"))), at(200, tok("c")), at(210, second(tok("d"))),
			at(220, fins, second(fins), use(5, 4), done)))
}

func TestCaseH21ErrorInsideStream(t *testing.T) {
	noLeaks(t)
	const failed = `data: {"error":{"message":"EngineCore fell over","type":"InternalServerError","code":500}}` + "\n\n"
	message := func(t *testing.T, ex *client.Exchange, _ *scriptServer) {
		require.Equal(t, "EngineCore fell over", ex.Error.Message)
		require.Equal(t, 200, ex.Status)
	}
	w := want{class: api.ServerError, status: 500, check: message}
	t.Run("first", func(t *testing.T) { play(t, chatRequest(t), w, stream(at(50, failed), at(60, done))) })
	w.text = "ab"
	t.Run("middle", func(t *testing.T) {
		play(t, chatRequest(t), w, stream(at(60, tok("a")), at(120, tok("b")), at(150, failed), at(160, done)))
	})
}

func TestCaseH22OnlyDone(t *testing.T) {
	noLeaks(t)
	t.Run("no usage", func(t *testing.T) {
		play(t, chatRequest(t), want{class: api.Empty}, stream(at(20, role), at(30, fins), at(40, done)))
	})
	t.Run("usage says none", func(t *testing.T) {
		play(t, chatRequest(t), want{class: api.Empty}, stream(at(20, role), at(30, fins, use(5, 0)), at(40, done)))
	})
	t.Run("end token came first", func(t *testing.T) {
		play(t, chatRequest(t), want{in: "5 server", out: "1 server", check: func(t *testing.T, ex *client.Exchange, _ *scriptServer) {
			require.True(t, ex.BodyComplete.Known)
			require.Equal(t, 0, ex.Events.V)
		}}, stream(at(20, role), at(30, fins, use(5, 1)), at(40, done)))
	})
}

// A failure among good answers moves no statistic.
func TestCaseH22OnlyDoneAmongOthers(t *testing.T) {
	noLeaks(t)
	good := stream(at(100, tok("a")), at(110, fins, done))
	scripts := []script{good, good, good, good, stream(at(20, role), at(30, fins), at(40, done)), good}
	run := func(t *testing.T, c *client.Client) metric.Set {
		var r metric.Run
		for range 10 {
			r.Exchanges = append(r.Exchanges, c.Do(t.Context(), chatRequest(t)))
		}
		set := metric.Of(r)
		require.Equal(t, 9, set.OK)
		require.Equal(t, 1, set.Failed)
		return set
	}
	inVirtualTime(t, &scriptServer{scripts: scripts}, func(t *testing.T, c *client.Client) {
		require.Contains(t, run(t, c).Values, metric.Value{Unit: "ttft-p50-ns", V: float64(100 * time.Millisecond)})
	})
	for _, transport := range client.TransportNames() {
		t.Run("tcp, "+transport, func(t *testing.T) {
			overTCP(t, transport, &scriptServer{scripts: scripts}, func(c *client.Client) { run(t, c) })
		})
	}
}

// One token in three reads, three tokens in one read: the gaps of merged events
// are 0 and count.
func TestMergedReads(t *testing.T) {
	noLeaks(t)
	play(t, chatRequest(t), want{events: [][]int{{50, 50, 50}}, in: "1 server", out: "3 server", text: "abc",
		check: func(t *testing.T, ex *client.Exchange, _ *scriptServer) {
			require.Equal(t, 1, ex.MergedReads)
		},
	}, stream(at(50, tok("a")+tok("b")+tok("c")), at(60, fins, use(1, 3), done)))
}

func TestStreamAskedJSONCame(t *testing.T) {
	noLeaks(t)
	body := `{"choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":` + usage(3, 1) + `}`
	req := chatRequest(t)
	for _, header := range []string{jsonType, "Content-Type: text/plain\r\n", ""} {
		t.Run(fmt.Sprintf("%q", header), func(t *testing.T) {
			s := &scriptServer{scripts: []script{plain(40, 200, header, body)}}
			inVirtualTime(t, s, func(t *testing.T, c *client.Client) {
				ex := c.Do(t.Context(), req)
				require.True(t, ex.OK, "%v", ex.Error)
				require.Equal(t, 40*time.Millisecond, ex.E2E.V)
				require.False(t, ex.TTFT.Known)
				require.Equal(t, "hi", ex.Text)
				require.Len(t, ex.Warnings, 1)
			})
		})
	}
	t.Run("stream of a wrong type", func(t *testing.T) {
		sc := stream(at(50, tok("a")), at(60, fins, done))
		sc.steps[0].data = strings.Replace(streamHead, "text/event-stream", "application/json", 1)
		play(t, req, want{events: [][]int{{50}}, text: "a"}, sc)
	})
}
