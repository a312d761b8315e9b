package fakeserver

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// applied plans a request and returns the names of the rules that applied, "" for none.
func applied(s *Server, r Request) string {
	p := s.state.Load().faulty(&r)
	return strings.Join(p.Rules, "+")
}

func TestRuleMatching(t *testing.T) {
	noLeaks(t)
	fault := Fault{EndDelay: ms}
	rule := func(name string, m Match) Rule { return Rule{Name: name, Match: m, Fault: fault} }
	s := newServer(t, Config{Model: "m", Rules: []Rule{
		rule("endpoint", Match{Endpoint: "/tokenize"}),
		rule("model", Match{Model: "other"}),
		rule("header", Match{Header: "x-mark"}),
		rule("value", Match{Header: "X-Value", HeaderValue: "b"}),
		rule("", Match{Endpoint: "/v1/rerank"}),
	}})
	body := []byte(`{"prompt":"a"}`)
	for _, tc := range []struct {
		want string
		r    Request
	}{
		{"endpoint", Request{Method: "POST", Path: "/tokenize", Body: body}},
		{"", Request{Method: "POST", Path: "/v1/completions", Body: body}},
		{"model", Request{Method: "POST", Path: "/v1/completions", Body: []byte(`{"prompt":"a","model":"other"}`)}},
		{"header", Request{Method: "POST", Path: "/v1/completions", Body: body, Header: http.Header{"X-Mark": {""}}}},
		{"value", Request{Method: "POST", Path: "/v1/completions", Body: body, Header: http.Header{"X-Value": {"a", "b"}}}},
		{"", Request{Method: "POST", Path: "/v1/completions", Body: body, Header: http.Header{"X-Value": {"a"}}}},
		{"rule 5", Request{Method: "POST", Path: "/v1/rerank"}},
	} {
		require.Equal(t, tc.want, applied(s, tc.r))
	}
}

func TestRuleCounting(t *testing.T) {
	noLeaks(t)
	fault := Fault{EndDelay: ms}
	s := newServer(t, Config{Rules: []Rule{
		{Name: "first", Match: Match{Endpoint: "/tokenize", First: 2}, Fault: fault},
		{Name: "third", Match: Match{Nth: 3, Endpoint: "/tokenize"}, Fault: fault},
		{Name: "all", Fault: fault, Continue: true},
		{Name: "every", Match: Match{Every: 4}, Fault: fault},
	}})
	tokenize := Request{Method: "POST", Path: "/tokenize", Body: []byte(`{"prompt":"a"}`)}
	other := Request{Method: "POST", Path: "/v1/rerank"}
	play := func() (got []string) {
		for _, r := range []Request{tokenize, other, tokenize, tokenize, tokenize, other, other, tokenize} {
			got = append(got, applied(s, r))
		}
		return got
	}
	want := []string{"first", "all", "first", "third", "all", "all", "all", "all+every"}
	require.Equal(t, want, play())
	require.NotEqual(t, want, play(), "the counts go on")
	s.Reset()
	require.Equal(t, want, play(), "and begin again")
	own := tokenize
	own.Fault = "end-delay=1ms"
	s.Reset()
	require.Empty(t, applied(s, own))
	require.Equal(t, want, play(), "a fault of its own is not counted")
	require.NoError(t, s.Configure(s.state.Load().cfg))
	require.Equal(t, want, play(), "a new configuration counts from 1")
}

// However many requests come at once, exactly as many meet each fault as the numbers say.
func TestRulesCountAtConcurrency(t *testing.T) {
	noLeaks(t)
	s := Start(t, Config{Rules: []Rule{
		{Name: "first", Match: Match{First: 100}, Fault: Fault{Status: 503}},
		{Name: "every", Match: Match{Every: 7}, Fault: Fault{Status: 429}},
		{Name: "nth", Match: Match{Nth: 500}, Fault: Fault{Status: 500}},
	}})
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			for range 20 {
				res, err := s.Client().Post(s.URL+"/tokenize", "", strings.NewReader(`{"prompt":"a"}`))
				if err != nil {
					t.Error(err)
					return
				}
				io.Copy(io.Discard, res.Body)
				res.Body.Close()
			}
		})
	}
	wg.Wait()
	require.NoError(t, s.Close())
	statuses := map[int]int{}
	for _, r := range s.Journal() {
		statuses[r.Status]++
	}
	require.Equal(t, map[int]int{503: 100, 429: 640/7 - 100/7, 500: 1, 200: 640 - 100 - (640/7 - 100/7) - 1}, statuses)
}

// draws plays many requests, each several times, and returns who met the fault.
func draws(t testing.TB, seed uint64) string {
	s, err := New(Config{Seed: seed, Rules: []Rule{{Name: "1", Match: Match{Probability: 0.3}, Fault: Fault{EndDelay: ms}}}})
	require.NoError(t, err)
	defer s.Close()
	var b strings.Builder
	for i := range 300 {
		for range 3 {
			b.WriteString(applied(s, Request{Method: "POST", Path: "/tokenize", Body: fmt.Appendf(nil, `{"prompt":"%d"}`, i)}))
			b.WriteByte(',')
		}
	}
	return b.String()
}

const drawsVariable = "TEST_FAKESERVER_DRAWS"

// The draws are the same in another process, in another order, and different for another seed.
func TestProbability(t *testing.T) {
	noLeaks(t)
	if os.Getenv(drawsVariable) != "" {
		fmt.Println("draws: " + draws(t, 5))
		return
	}
	here := draws(t, 5)
	require.NotEqual(t, here, draws(t, 6))
	hits := strings.Count(here, "1")
	require.InDelta(t, 270, hits, 50) // 900 draws; a standard deviation is 14
	require.Contains(t, here, "1,,", "the same request again is another draw")

	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestProbability$", "-test.count=1")
	cmd.Env = append(os.Environ(), drawsVariable+"=1")
	out, err := cmd.Output()
	require.NoError(t, err)
	_, there, _ := strings.Cut(string(out), "draws: ")
	there, _, _ = strings.Cut(there, "\n")
	require.Equal(t, here, there)

	// Interleaved: each request keeps its own draws.
	s := newServer(t, Config{Seed: 5, Rules: []Rule{{Name: "1", Match: Match{Probability: 0.3}, Fault: Fault{EndDelay: ms}}}})
	got := make([][]string, 300)
	for range 3 {
		for i := 299; i >= 0; i-- {
			got[i] = append(got[i], applied(s, Request{Method: "POST", Path: "/tokenize", Body: fmt.Appendf(nil, `{"prompt":"%d"}`, i)}))
		}
	}
	var b strings.Builder
	for _, g := range got {
		b.WriteString(strings.Join(g, ",") + ",")
	}
	require.Equal(t, here, b.String())
}

// The rules' faults are applied one after the other; one that cannot be is told.
func TestRulesCombine(t *testing.T) {
	noLeaks(t)
	s := newServer(t, Config{Rules: []Rule{
		{Name: "slow", Fault: Fault{FirstDelay: 5 * ms}, Continue: true},
		{Match: Match{Endpoint: "/rerank"}, Fault: Fault{CommentEvery: 1, FirstDelay: time.Hour}},
		{Name: "cut", Fault: Fault{Cut: new(1), CutWith: "rst"}},
	}})
	p := s.state.Load().faulty(&Request{Method: "POST", Path: "/v1/completions", Body: []byte(`{"prompt":"a","stream":true}`)})
	require.Equal(t, []string{"slow", "cut"}, p.Rules)
	require.Equal(t, "first-delay=5ms + cut=1; cut-with=rst", p.Faults)
	require.Len(t, p.Events, 1)
	require.Equal(t, 5*ms, p.Events[0].At)
	require.Equal(t, EndReset, p.End)

	s = newServer(t, Config{Rules: []Rule{{Fault: Fault{CommentEvery: 1, FirstDelay: time.Hour}}}})
	p = s.state.Load().faulty(&Request{Method: "POST", Path: "/v1/completions", Body: []byte(`{"prompt":"a","stream":true}`)})
	require.Equal(t, 500, p.Status)
	require.Contains(t, bodyOf(t, p), "rule 1: comment-every: the answer would have over")
	require.Equal(t, []string{"rule 1"}, p.Rules)
}

// Fail twice, then succeed: the first example of the package, over HTTP, and the journal of it.
func TestFailThenSucceed(t *testing.T) {
	noLeaks(t)
	cfg := Config{Rules: []Rule{{Name: "twice", Match: Match{Endpoint: chat, First: 2}, Fault: Fault{Status: 503, RetryAfter: "1"}}}}
	virtual(t, cfg, func(t *testing.T, s *Server, c *http.Client) {
		for _, want := range []int{503, 503, 200} {
			res, _ := fetch(t, c, s.URL+chat, userMessage("a", ""), "Authorization", "Bearer secret-key")
			require.Equal(t, want, res.StatusCode)
		}
		synctest.Wait()
		records := s.Journal()
		require.Equal(t, []string{"twice"}, records[0].Rules)
		require.Equal(t, "status=503; retry-after=1", records[0].Faults)
		require.Empty(t, records[2].Rules)
		require.Empty(t, records[2].Faults)
		text, err := json.Marshal(records)
		require.NoError(t, err)
		require.NotContains(t, string(text), "secret-key")
		require.Contains(t, string(text), `"planned_end":"clean"`)
	})
}
