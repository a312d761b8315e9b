package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"example.com/tokpace/pkg/sse"
)

// plainly is Event by decoding and nothing else.
func plainly(s *Stream, data []byte, typ string) (Output, *Failure) {
	trimmed := bytes.TrimSpace(data)
	if s.failure != nil || typ == "error" || len(trimmed) == 0 || bytes.Equal(trimmed, done) {
		return s.Event(data, typ)
	}
	return s.decode(trimmed)
}

// cuts is a source that returns a stream in pieces, and stamps the k-th with k.
type cuts struct {
	stream []byte
	rnd    *rand.Rand
	most   int
	n      int
}

func (c *cuts) Read(p []byte) (int, error) {
	if len(c.stream) == 0 {
		return 0, io.EOF
	}
	n := copy(p, c.stream[:min(len(c.stream), 1+c.rnd.IntN(c.most))])
	c.stream = c.stream[n:]
	c.n++
	return n, nil
}

func (c *cuts) stamp() time.Duration { return time.Duration(c.n) }

func newCuts(stream []byte, seed uint64) *cuts {
	rnd := rand.New(rand.NewPCG(seed, 1))
	return &cuts{stream: stream, rnd: rnd, most: 1 << rnd.IntN(13)}
}

// requireSameStream reads a stream the fast way and by decoding alone, in the same
// pieces, and returns how many events were taken by their template.
func requireSameStream(t testing.TB, stream []byte, seed uint64, limit int) (repeated int) {
	quickCuts, plainCuts := newCuts(stream, seed), newCuts(stream, seed)
	quickReader, plainReader := sse.NewReader(quickCuts, quickCuts.stamp), sse.NewReader(plainCuts, plainCuts.stamp)
	quickReader.MaxEvent, plainReader.MaxEvent = limit, limit
	quick, plain := NewStream(Chat), NewStream(Chat)
	for {
		got, out, fail, err := quick.Next(quickReader)
		at, read := got.At, got.Read
		for k := range max(1, out.Events) {
			ev, plainErr := plainReader.Next()
			require.Equal(t, plainErr, err)
			if err != nil {
				break
			}
			require.Equal(t, ev.At, at)
			require.Equal(t, ev.Read, read)
			want, plainFail := plainly(plain, ev.Data, ev.Type)
			require.Equal(t, plainFail, fail)
			require.Equal(t, want.Answer, out.Answer)
			require.Equal(t, append([]int{}, want.Choices...), append([]int{}, out.Choices...))
			require.Equal(t, want.Events > 0, out.Events > 0)
			if got.Data == nil && out.Events > 0 {
				repeated++
				require.Len(t, out.Choices, 1)
				continue
			}
			require.Zero(t, k)
			require.Equal(t, ev, got)
		}
		require.Equal(t, plain.Answer(), quick.Answer())
		if err != nil {
			break
		}
	}
	require.Equal(t, plain.Outputs(), quick.Outputs())
	require.Equal(t, plain.FirstTokens(), quick.FirstTokens())
	require.Equal(t, plain.End(), quick.End())
	return repeated
}

// oddEvents are events that a reader of less than all of JSON could take for another.
var oddEvents = []string{
	`{"choices":[{"index":0,"delta":{"content":"a"}}],"metrics":null}`,
	`{"choices":[{"index":0,"delta":{"content":"a"}}],"metrics":{"queue_time_ms":5}}`,
	`{"choices":[{"index":0,"delta":{"content":"a"}}],"Metrics":{"queue_time_ms":5}}`,
	`{"choices":[{"index":0,"delta":{"content":"a"},"Delta":{"content":"b"}}]}`,
	`{"choices":[{"index":0,"delta":{"content":"a","content":"b"}}]}`,
	`{"choices":[{"index":0,"delta":{"content":"a","CONTENT":"b"}}]}`,
	`{"choices":[{"index":0,"delta":{"content":"a","\u0063ontent":"b"}}]}`,
	`{"choices":[{"index":0,"delta":{"content":"a","reaſoning":"b","reasoning":null}}]}`,
	`{"choices":[{"index":0,"delta":{"content":"a","toolK_callſ":[{}]}}]}`,
	`{"choices":[{"index":0,"delta":{"content":"a"}}],"choices":[{"index":1,"delta":{"content":"b"}}]}`,
	`{"choices":[{"index":0,"delta":{"content":"a"}}],"uſage":{"prompt_tokens":1}}`,
	`{"choices":[{"index":0,"delta":{"content":"a"}}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`,
	`{"choices":[{"index":0,"delta":{"content":"a"}}],"Usage":{"prompt_tokens":1}}`,
	`{"choices":[{"index":0,"delta":{"content":"a"}}],"object":"error"}`,
	`{"choices":[{"index":0,"delta":{"content":"a"}}],"object":"\u0065rror"}`,
	`{"choices":[{"index":0,"delta":{"content":"a"}}],"error":{"message":"m"}}`,
	`{"choices":[{"index":0,"delta":{"content":"a"}}],"error":""}`,
	`{"choices":[{"index":0,"delta":{"content":"a"},"error":{"message":"m"}}]}`,
	`{"choices":[{"index":0,"delta":{"content":"a"},"error":false}]}`,
	`{"choices":[{"index":0,"text":"a","delta":{"content":"b","reasoning":"c","reasoning_content":"d"}}]}`,
	`{"choices":[{"index":0,"text":"a","message":{"content":"b"}}]}`,
	`{"choices":[{"index":0,"text":"a","message":null,"delta":null}]}`,
	`{"choices":[{"index":1,"text":"a"},{"index":0,"text":"b"}]}`,
	`{"choices":[{"index":7,"text":"a"}]}`, `{"choices":[{"index":12345,"text":"a"}]}`, `{"choices":[{"index":01,"text":"a"}]}`,
	`{"choices":[{"index":1.0,"text":"a"}]}`, `{"choices":[{"index":-0,"text":"a"}]}`, `{"choices":[{"index":null,"text":"a"}]}`, `{"choices":[{"index":1e1,"text":"a"}]}`,
	`{"choices":[{"index":"0","text":"a"}]}`, `{"choices":[null]}`, `{"choices":null}`, `{"choices":[]}`, `{"choices":{}}`, `null`, `{}`, `[]`, `{"choices":[{}]}`, `{"choices":[{},]}`,
	`{"choices":[{"text":null,"delta":{"content":null,"reasoning":null,"tool_calls":null}}]}`,
	`{"choices":[{"delta":{"content":[{"text":"a"}]}}]}`, `{"choices":[{"delta":{"content":5}}]}`, `{"choices":[{"delta":[]}]}`,
	`{"choices":[{"delta":{"tool_calls":[]}}]}`, `{"choices":[{"delta":{"content":"a","tool_calls":[{"index":0}]}}]}`,
	`{"choices":[{"text":"a","finish_reason":""}]}`, `{"choices":[{"text":"a","finish_reason":"stop"}]}`, `{"choices":[{"text":"a","finish_reason":"error"}]}`, `{"choices":[{"text":"a","finish_reason":1}]}`,
	`{"choices":[{"text":"\ud83d\ude42\"\\\/\b\f\n\r\tA"}]}`, `{"choices":[{"text":"\ud83dx\ude42\ud83d\ud83d\ude42\uD83D"}]}`,
	`{"choices":[{"text":"\x"}]}`, `{"choices":[{"text":"\u12g4"}]}`, `{"choices":[{"text":"\u12"}]}`, `{"choices":[{"text":"a` + "\t" + `"}]}`, `{"choices":[{"text":"` + "\x7f" + `"}]}`,
	`{"choices":[{"text":"日本語 🙂"}]}`, `{"choices":[{"text":"` + "a\xffb" + `"}]}`, `{"choices":[{"text":"` + "\xed\xa0\x80" + `"}]}`, `{"choices":[{"text":"` + "\xe6\x97" + `"}]}`,
	`{"` + "\xff" + `":1,"choices":[{"text":"a"}]}`, `{"x":"` + "\xff" + `","choices":[{"text":"a"}]}`,
	`{"x":` + strings.Repeat("[", 80) + strings.Repeat("]", 80) + `,"choices":[{"text":"a"}]}`,
	`{"x":[1,-0.5e+7,true,false,null,{"a":{"b":[]}},"\u0041"],"choices":[{"text":"a"}]}`,
	`{"x":[1,],"choices":[{"text":"a"}]}`, `{"x":tru,"choices":[{"text":"a"}]}`, `{"x":+1,"choices":[{"text":"a"}]}`, `{"x":1.,"choices":[{"text":"a"}]}`, `{"x":.5,"choices":[{"text":"a"}]}`, `{"x":1e,"choices":[{"text":"a"}]}`, `{"x":-,"choices":[{"text":"a"}]}`,
	`{"choices":[{"text":"a"}]}}`, `{"choices":[{"text":"a"}]} x`, `{"choices":[{"text":"a"}]`, `{"choices":[{"text":"a"`, `{"choices":[{"text":"a`, ` {"choices" : [ { "text" : "a" } ] } `,
	"\u00a0" + `{"choices":[{"text":"a"}]}` + "\u2003", `{"choices":[{"text":"a"}]}` + "\v", `{,"choices":[{"text":"a"}]}`, `{"choices":[{"text":"a"},]}`, `{"choices" "a"}`,
	`{"choices":[{"text":"a"}],"usage":{"prompt_tokens":7,"completion_tokens":1,"total_tokens":8,"prompt_tokens_details":{"cached_tokens":1,"image_tokens":2,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":1,"x":[]}}}`,
	`{"choices":[],"usage":{"prompt_tokens":7,"prompt_tokens":8}}`, `{"choices":[],"usage":{"prompt_tokens":7.0,"completion_tokens":1e1}}`, `{"choices":[],"usage":{"prompt_tokens":-1}}`, `{"choices":[],"usage":{"prompt_tokens":-0}}`,
	`{"choices":[],"usage":{"Prompt_Tokens":7,"prompt\u005ftokens":9,"completion_tokens":null}}`, `{"choices":[],"usage":{"prompt_tokens":"7"}}`, `{"choices":[],"usage":[]}`, `{"choices":[],"usage":{}}`, `{"choices":[],"usage":7}`,
	`{"choices":[],"usage":{"prompt_tokens":7,"prompt_tokens_details":[],"completion_tokens_details":null}}`, `{"choices":[],"usage":{"prompt_tokens_details":{"cached_tokens":1,"cached_tokens":2}}}`, `{"choices":[],"usage":{"prompt_tokens_details":{"reasoning_tokens":1}}}`,
	`{"choices":[],"usage":{"prompt_tokens":9223372036854775807}}`, `{"choices":[],"usage":{"prompt_tokens":999999999999999999}}`, `{"choices":[],"usage":{"prompt_tokens":01}}`, `{"choices":[{"text":"a"}],"usage":{"completion_tokens":0}}`,
	`{"choices":[{"text":"a","logprobs":{"tokens":["a"],"top_logprobs":[{"a":-0.1}]}}]}`,
}

func event(data string) string { return "data: " + data + "\n\n" }

// Whatever an event is, and whatever came before it, it is read as if all of it were
// decoded.
func TestEventsAreReadAlike(t *testing.T) {
	usual := event(`{"id":"c","choices":[{"index":0,"delta":{"content":"x"},"finish_reason":null}]}`)
	for _, odd := range oddEvents {
		for _, stream := range []string{
			event(odd), usual + event(odd) + usual, strings.Repeat(event(odd), 3),
			"data:" + odd + "\r\n\r\ndata:" + odd + "\r\n\r\n", "event: e\ndata: " + odd + "\n\n" + usual, "event: error\n" + event(odd),
		} {
			for seed := range uint64(4) {
				requireSameStream(t, []byte(stream), seed, 0)
			}
		}
	}
}

func repeatedEvents(n int, text func(i int) string) []byte {
	var b bytes.Buffer
	for i := range n {
		quoted, err := json.Marshal(text(i))
		if err != nil {
			panic(err)
		}
		fmt.Fprintf(&b, `data: {"id":"chatcmpl-0123456789","object":"chat.completion.chunk","created":1790000000,"model":"m","choices":[{"index":0,"delta":{"content":%s},"logprobs":null,"finish_reason":null,"token_ids":null}]}`+"\n\n", quoted)
	}
	return b.Bytes()
}

// Events that repeat are not decoded, whatever text they bring, and none of them is
// more or less than it was.
func TestRepeatedEvents(t *testing.T) {
	words := []string{"the", " a", "\n", "\"", "\\", "日本", "🙂", "<b>", "\u2028", "\t\x01", strings.Repeat("long ", 50), "{", "}]}"}
	stream := repeatedEvents(500, func(i int) string { return words[i%len(words)] })
	most := 0
	for seed := range uint64(30) {
		for _, limit := range []int{10, 250, 300, 1000, 0} {
			most = max(most, requireSameStream(t, stream[:len(stream)/(1+int(seed)%5)], seed, limit))
		}
	}
	require.Greater(t, most, 250)
	empty := repeatedEvents(10, func(i int) string { return []string{"a", ""}[i%2] })
	requireSameStream(t, empty, 12, 0)
}

// Choices and kinds of text that take turns have a template each.
func TestTemplatesTakeTurns(t *testing.T) {
	var b strings.Builder
	for i := range 100 {
		b.WriteString(event(fmt.Sprintf(`{"choices":[{"index":%d,"delta":{"content":"w%d"}}]}`, i%2, i)))
		b.WriteString(event(fmt.Sprintf(`{"choices":[{"index":%d,"delta":{"reasoning":"r%d"}}]}`, i%2, i)))
		if i%10 == 0 {
			b.WriteString(": ping\n\n" + event(fmt.Sprintf(`{"choices":[{"index":5,"text":"t%d"}]}`, i)))
		}
	}
	for seed := range uint64(30) {
		requireSameStream(t, []byte(b.String()), seed, 0)
	}
}

func TestUnescape(t *testing.T) {
	for _, s := range []string{``, `a`, `\n\t\r\b\f\/\\\"`, `\u0000`, `\uFFFD`, `\ud83d\ude42`, `\ud83d`, `\ude42`, `\ud83d\u0041`, `\ud83d\ud83d\ude42`, `\ud83d\n`, `\ud83dabcdef`, `x\u00e9y\u20ACz`, `日\n本`} {
		var want string
		require.NoError(t, json.Unmarshal([]byte(`"`+s+`"`), &want))
		require.Equal(t, want, string(unescape(nil, []byte(s))), s)
	}
}

// A walker takes what is JSON, and plain text as far as it is that.
func FuzzWalker(f *testing.F) {
	for _, s := range oddEvents {
		f.Add([]byte(s))
	}
	f.Add([]byte(`[0,-0,10,1.5,1e5,1E+05,-1.5e-5,123456789012345678901234567890]`))
	f.Add([]byte(`"\ud83d\ude42\"12345678"`))
	f.Fuzz(func(t *testing.T, b []byte) {
		w := walker{b: b}
		if ok := w.value(0) && w.end(); ok != json.Valid(b) && !bytes.Contains(b, []byte("[[[[[[")) && bytes.Count(b, []byte("{")) < maxWalk {
			t.Fatalf("taken: %v, valid: %v: %q", ok, !ok, b)
		}
		n := plainText(b)
		for i, c := range b[:n] {
			if c < 0x20 || c >= utf8.RuneSelf || c == '"' || c == '\\' {
				t.Fatalf("byte %d of %q is not plain", i, b)
			}
		}
		if n < len(b) && b[n] >= 0x20 && b[n] < utf8.RuneSelf && b[n] != '"' && b[n] != '\\' {
			t.Fatalf("byte %d of %q is plain", n, b)
		}
		if d := digits(b); d != len(b)-len(bytes.TrimLeft(b, "0123456789")) {
			t.Fatalf("%d digits in %q", d, b)
		}
		w = walker{b: append([]byte{'"'}, b...)}
		if s, ok := w.str(); ok {
			var want string
			if err := json.Unmarshal(w.b[:w.i], &want); err != nil {
				t.Fatalf("%v: %q", err, w.b)
			}
			if inside := w.b[s.from:s.to]; utf8.Valid(inside) {
				require.Equal(t, want, string(appendSpan(nil, w.b, s)))
			}
		}
	})
}

// FuzzStreamPaths holds that the fast ways of reading a stream change nothing.
func FuzzStreamPaths(f *testing.F) {
	for i, odd := range oddEvents {
		f.Add([]byte(strings.Repeat(event(odd), 2)), uint64(i), 0)
	}
	f.Add(repeatedEvents(5, func(i int) string { return fmt.Sprint(i, "\n\"日") }), uint64(12), 0)
	f.Add(bytes.ReplaceAll(repeatedEvents(5, func(int) string { return "x" }), []byte("\n"), []byte("\r\n")), uint64(12), 300)
	for _, name := range []string{"chat-stream-max1.sse", "completions-stream-usage.sse", "cut-chat-runner-killed.sse"} {
		data, err := os.ReadFile("testdata/ollama/" + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, uint64(9), 0)
	}
	f.Fuzz(func(t *testing.T, stream []byte, seed uint64, limit int) {
		if len(stream) <= 1<<14 {
			requireSameStream(t, stream, seed, limit)
		}
	})
}
