package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	"example.com/tokpace/pkg/sse"
)

// perEvent are the events of one stream of a benchmark, and their size in bytes: that
// of vLLM's chat chunks.
const (
	perStream  = 1000
	eventBytes = 258
)

// stream258 is a stream of such events. Their text is a number of 20 digits, as a
// server's send stamp would be; with varying, the events differ in more than that, so
// that none is like another.
func stream258(varying bool) []byte {
	var b bytes.Buffer
	for i := range perStream {
		created := 1790000000
		if varying {
			created += i
		}
		ev := fmt.Sprintf(`data: {"id":"chatcmpl-%%s","object":"chat.completion.chunk","created":%d,"model":"meta-llama/Llama-3.1-8B","choices":[{"index":0,"delta":{"content":"%020d"},"logprobs":null,"finish_reason":null,"token_ids":null}]}`+"\n\n", created, i)
		fmt.Fprintf(&b, ev, strings.Repeat("0", eventBytes-len(ev)+len("%s")))
	}
	if b.Len() != perStream*eventBytes {
		panic(b.Len())
	}
	return b.Bytes()
}

// pieces returns data in reads of at most n bytes.
type pieces struct {
	data []byte
	n    int
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.data) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.data[:min(p.n, len(p.data))])
	p.data = p.data[n:]
	return n, nil
}

func noClock() time.Duration { return 0 }

// BenchmarkStreamParse reads streams in memory, by package api, without and with the
// text kept, and by encoding/json into structs with all fields of an event, whose text
// is not kept. Divide their ns/event.
func BenchmarkStreamParse(b *testing.B) {
	for _, read := range []struct {
		name string
		n    int
	}{{"16KiB", 16 << 10}, {"event", eventBytes}} {
		for _, events := range []string{"alike", "differing"} {
			stream := stream258(events == "differing")
			for _, parser := range []struct {
				name  string
				parse func(*testing.B, io.Reader) int
			}{
				{"encodingjson", parseByJSON},
				{"api", func(b *testing.B, r io.Reader) int { return parseByAPI(b, r, true) }},
				{"api-text", func(b *testing.B, r io.Reader) int { return parseByAPI(b, r, false) }},
			} {
				b.Run(fmt.Sprintf("read=%s/events=%s/parser=%s", read.name, events, parser.name), func(b *testing.B) {
					var before, after runtime.MemStats
					runtime.ReadMemStats(&before)
					for b.Loop() {
						if n := parser.parse(b, &pieces{stream, read.n}); n != perStream {
							b.Fatalf("%d events", n)
						}
					}
					runtime.ReadMemStats(&after)
					all := float64(b.N) * perStream
					b.ReportMetric(float64(b.Elapsed().Nanoseconds())/all, "ns/event")
					b.ReportMetric(float64(after.Mallocs-before.Mallocs)/all, "allocs/event")
					b.ReportMetric(all*eventBytes/1e6/b.Elapsed().Seconds(), "MB/s")
					b.ReportMetric(0, "ns/op")
				})
			}
		}
	}
}

// stampsArena is what a client keeps of a stream's times.
var stampsArena = make([]time.Duration, 0, perStream)

func parseByAPI(b *testing.B, r io.Reader, discard bool) int {
	events := sse.NewReader(r, noClock)
	st := NewStream(Chat)
	st.DiscardText = discard
	stamps := stampsArena[:0]
	for {
		ev, out, f, err := st.Next(events)
		if err == io.EOF {
			break
		}
		if err != nil || f != nil {
			b.Fatal(err, f)
		}
		for range out.Events {
			stamps = append(stamps, ev.At)
		}
	}
	events.Release()
	if text := st.Answer().Text; len(text) != 20*perStream && !discard {
		b.Fatal(len(text))
	}
	st.Release()
	return len(stamps)
}

// A wholeChunk has all fields of an event, as a client without ours would have them.
type wholeChunk struct {
	ID                string `json:"id"`
	Object            string `json:"object"`
	Created           int64  `json:"created"`
	Model             string `json:"model"`
	SystemFingerprint string `json:"system_fingerprint"`
	Choices           []struct {
		Index int `json:"index"`
		Delta struct {
			Role             string `json:"role"`
			Content          string `json:"content"`
			ReasoningContent string `json:"reasoning_content"`
			ToolCalls        []struct {
				Index    int    `json:"index"`
				ID       string `json:"id"`
				Type     string `json:"type"`
				Function struct {
					Name      string `json:"name"`
					Arguments string `json:"arguments"`
				} `json:"function"`
			} `json:"tool_calls"`
		} `json:"delta"`
		Logprobs     *struct{} `json:"logprobs"`
		FinishReason *string   `json:"finish_reason"`
		StopReason   any       `json:"stop_reason"`
		TokenIDs     []int     `json:"token_ids"`
	} `json:"choices"`
	Usage *struct {
		PromptTokens     int64 `json:"prompt_tokens"`
		CompletionTokens int64 `json:"completion_tokens"`
		TotalTokens      int64 `json:"total_tokens"`
	} `json:"usage"`
}

func parseByJSON(b *testing.B, r io.Reader) int {
	events := sse.NewReader(r, noClock)
	stamps := stampsArena[:0]
	text := 0
	for {
		ev, err := events.Next()
		if err == io.EOF {
			break
		}
		var c wholeChunk
		if err == nil {
			err = json.Unmarshal(ev.Data, &c)
		}
		if err != nil {
			b.Fatal(err)
		}
		if c.Choices[0].Delta.Content != "" {
			text += len(c.Choices[0].Delta.Content)
			stamps = append(stamps, ev.At)
		}
	}
	events.Release()
	if text != 20*perStream {
		b.Fatal(text)
	}
	return len(stamps)
}
