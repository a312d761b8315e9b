package fakeserver

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// The same request a thousand times, 64 at once, over TCP: one answer.
func TestSameRequestSameBytes(t *testing.T) {
	noLeaks(t)
	s := Start(t, Config{Seed: 1})
	for path, body := range map[string]string{
		chat:             userMessage("hello", `,"max_tokens":8,"stream":true,"stream_options":{"include_usage":true}`),
		"/v1/embeddings": `{"input":["a","b"],"encoding_format":"bytes"}`,
	} {
		var mu sync.Mutex
		seen := map[string]int{}
		var wg sync.WaitGroup
		for w := range 64 {
			wg.Go(func() {
				for i := w; i < 1000; i += 64 {
					res, err := s.Client().Post(s.URL+path, "application/json", strings.NewReader(body))
					if err != nil {
						t.Error(err)
						return
					}
					b, err := io.ReadAll(res.Body)
					res.Body.Close()
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					seen[res.Header.Get("metadata")+string(b)]++
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		require.Len(t, seen, 1)
		for _, n := range seen {
			require.Equal(t, 1000, n)
		}
	}
}

func TestSeedsAndServers(t *testing.T) {
	noLeaks(t)
	body := userMessage("hello", `,"max_tokens":8`)
	one, again, other := newServer(t, Config{Seed: 5}), newServer(t, Config{Seed: 5}), newServer(t, Config{Seed: 6})
	require.Equal(t, bodyOf(t, planOf(one, chat, body)), bodyOf(t, planOf(again, chat, body)))
	require.NotEqual(t, dig(answer(t, one, chat, body), "choices"), dig(answer(t, other, chat, body), "choices"))
	for path, body := range map[string]string{"/v1/embeddings": `{"input":"a"}`, "/v1/rerank": `{"query":"a","documents":["b"]}`} {
		require.NotEqual(t, bodyOf(t, planOf(one, path, body)), bodyOf(t, planOf(other, path, body)))
	}
	require.NotEqual(t, dig(answer(t, one, chat, body), "choices"), dig(answer(t, one, chat, userMessage("hellp", `,"max_tokens":8`)), "choices"))
}

func TestSpellingDoesNotMatter(t *testing.T) {
	noLeaks(t)
	s := newServer(t, Config{})
	plain := `{"messages":[{"role":"user","content":"a\"b é"}],"max_tokens":4,"temperature":0.5,"x":[1,{"p":null,"q":true}]}`
	want := bodyOf(t, planOf(s, chat, plain))
	for _, same := range []string{
		`{"max_tokens":4,"x":[1,{"q":true,"p":null}],"temperature":0.5,"messages":[{"content":"a\"b é","role":"user"}]}`,
		"\n{ \"messages\" : [ {\t\"role\":\"user\" , \"content\":\"a\\\"b é\"} ],\r\n\"max_tokens\": 4 , \"temperature\":0.5,\"x\":[ 1 , {\"p\":null , \"q\":true } ] }\n",
		`{"messages":[{"role":"\u0075ser","content":"a\u0022b \u00e9"}],"max_tokens":4,"temperature":0.5,"x":[1,{"p":null,"q":true}]}`,
	} {
		require.Equal(t, want, bodyOf(t, planOf(s, chat, same)), same)
	}
	for _, different := range []string{
		strings.Replace(plain, `0.5`, `0.6`, 1),
		strings.Replace(plain, `null`, `false`, 1),
		strings.Replace(plain, `[1,`, `["1",`, 1),
		strings.Replace(plain, `"p":null`, `"r":null`, 1),
		strings.Replace(plain, `"x":[1,{"p":null,"q":true}]`, `"x":[{"p":null,"q":true},1]`, 1),
		strings.Replace(plain, `"x":[1,{"p":null,"q":true}]`, `"x":[[1,{"p":null,"q":true}]]`, 1),
	} {
		require.NotEqual(t, want, bodyOf(t, planOf(s, chat, different)), different)
	}
}

// PlanHeader changes how an answer is written, not what it says.
func TestPlanHeaderChangesNoWords(t *testing.T) {
	noLeaks(t)
	s := newServer(t, Config{})
	body := userMessage("hello", `,"max_tokens":8`)
	a := answer(t, s, chat, body)
	p := s.Plan(Request{Method: "POST", Path: chat, Fake: "usage=off; ttft=5ms", Body: []byte(body)})
	require.Equal(t, a["choices"], obj(t, bodyOf(t, p))["choices"])
	require.Equal(t, a["id"], obj(t, bodyOf(t, p))["id"])
}

// No two of many similar requests share a key.
func TestKeysDiffer(t *testing.T) {
	noLeaks(t)
	seen := map[uint64]string{}
	for i := range 20000 {
		for _, text := range []string{fmt.Sprintf(`{"a":%d}`, i), fmt.Sprintf(`{"%d":"a"}`, i), fmt.Sprintf(`["a",%d]`, i), fmt.Sprintf(`"%d"`, i)} {
			h := canonicalHash([]byte(text))
			require.Empty(t, seen[h], text)
			seen[h] = text
		}
	}
}

func TestPlanningAllocatesLittle(t *testing.T) {
	noLeaks(t)
	s := newServer(t, Config{})
	r := Request{Method: "POST", Path: chat, Body: []byte(userMessage(words(512), `,"max_tokens":64,"stream":true,"stream_options":{"include_usage":true}`))}
	require.Len(t, s.Plan(r).Events, 1+64+2)
	allocs := testing.AllocsPerRun(100, func() { s.Plan(r) })
	t.Logf("%.0f allocations for a plan of 64 tokens", allocs)
	require.Less(t, allocs, 200.0)
}
