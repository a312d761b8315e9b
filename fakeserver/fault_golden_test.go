package fakeserver

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"example.com/tokpace/pkg/memnet"
	"github.com/stretchr/testify/require"
)

// A raw reader is all that these tests trust: neither net/http nor any client of ours looks at the answer.

// read is what a connection brought at one time.
type read struct {
	at   time.Duration
	data string
}

// rawRequest is the text of a request.
func rawRequest(method, path, body string, header ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: fake\r\nContent-Length: %d\r\n", method, path, len(body))
	for i := 0; i < len(header); i += 2 {
		fmt.Fprintf(&b, "%s: %s\r\n", header[i], header[i+1])
	}
	return b.String() + "\r\n" + body
}

// rawRead collects what comes until the connection ends or nothing has ended it for patience.
func rawRead(t *testing.T, c net.Conn, patience time.Duration) (reads []read, end string, at time.Duration) {
	t.Helper()
	start := time.Now()
	require.NoError(t, c.SetReadDeadline(start.Add(patience)))
	buf := make([]byte, 1<<16)
	for {
		n, err := c.Read(buf)
		at = time.Since(start)
		if n > 0 {
			if len(reads) == 0 || reads[len(reads)-1].at != at {
				reads = append(reads, read{at: at})
			}
			reads[len(reads)-1].data += string(buf[:n])
		}
		switch {
		case err == nil:
		case errors.Is(err, os.ErrDeadlineExceeded):
			return reads, "open", at
		case errors.Is(err, syscall.ECONNRESET):
			return reads, "reset", at
		case err == io.EOF:
			return reads, "closed", at
		default:
			t.Fatal(err)
		}
	}
}

// rawVirtual serves cfg in a bubble for raw connections.
func rawVirtual(t *testing.T, cfg Config, f func(t *testing.T, s *Server, dial func() net.Conn)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := memnet.Listen()
		s, err := New(cfg)
		require.NoError(t, err)
		go s.Serve(l)
		defer func() { require.NoError(t, s.Close()) }()
		f(t, s, func() net.Conn {
			c, err := l.DialContext(t.Context(), "", "")
			require.NoError(t, err)
			t.Cleanup(func() { c.Close() })
			return c
		})
	})
}

// The requests that faults are applied to.
var faultRequests = map[string]struct{ path, plan, body string }{
	"script":     {"/v1/completions", "", `{"prompt":"a","stream":true,"max_tokens":1}`},
	"chat":       {chat, "ttft=20ms; itl=10ms", `{"messages":[{"role":"user","content":" able"}],"max_tokens":3,"stream":true}`},
	"chat2":      {chat, "ttft=20ms; itl=10ms", `{"messages":[{"role":"user","content":" able"}],"max_tokens":3,"n":2,"stream":true,"stream_options":{"include_usage":true}}`},
	"completion": {"/v1/completions", "ttft=20ms; itl=10ms", `{"prompt":" able","max_tokens":3,"stream":true,"stream_options":{"include_usage":true}}`},
	"plain":      {chat, "ttft=20ms", `{"messages":[{"role":"user","content":" able"}],"max_tokens":3}`},
	"embeddings": {"/v1/embeddings", "ttft=20ms; dim=3", `{"input":["a","b"]}`},
	"pooling":    {"/pooling", "ttft=20ms; dim=2", `{"input":["a","b"]}`},
	"pieces":     {"/pooling", "dim=4; pieces=4; piece-delay=10ms", `{"input":"a","encoding_format":"bytes_only"}`},
	"rerank":     {"/v1/rerank", "", `{"query":" able","documents":[" acid"]}`},
}

// script is a short stream that is easy to check by eye.
const script = `step=10ms:"data: {\"a\":1}\n\n"; step=20ms:"data: {\"b\":\"x,y\",\"c\":2}\n\n"; step=30ms:"data: [DONE]\n\n"; `

var faultGoldens = []struct{ name, request, fault string }{
	{"status", "chat", "status=503; retry-after=2"},
	{"status_2xx_keeps_the_body", "script", script + "status=206"},
	{"status_no_content", "plain", "status=204"},
	{"status_html", "plain", `status=503; content-type=text/html; body=<html><h1>503</h1></html>`},
	{"status_empty_body", "chat", `status=500; body=""`},
	{"body_size", "plain", `status=503; content-type=text/html; body=<p>; body-size=10; headers-delay=5ms`},
	{"script", "script", script},
	{"script_of_a_plain_answer", "rerank", `step=40ms:"{\"results\""; step=50ms:":[]}"`},
	{"content_type", "script", script + "content-type=application/json"},
	{"content_type_none", "script", script + "content-type=none"},
	{"header", "script", script + "header=X-A:1; header=Content-Type:; header=X-B:\"a;b\""},
	{"redirect", "chat", "redirect=307; location=/v1/other"},
	{"redirect_loop", "chat", "redirect=308"},
	{"pad_header", "script", script + "pad-header=Metadata; pad-header-size=20"},
	{"interim", "script", script + "interim=103; headers-delay=5ms"},
	{"interim_raw", "script", script + "interim=100; framing=close"},
	{"vectors_null", "embeddings", "vectors=nulls"},
	{"vectors_nan", "embeddings", "vectors=nan"},
	{"vectors_short", "pooling", "vectors=short"},
	{"vectors_reversed", "embeddings", "vectors=reversed"},
	{"vectors_missing", "pooling", "vectors=missing"},
	{"no_answer_close", "chat", "no-answer=close; headers-delay=5ms"},
	{"no_answer_reset", "chat", "no-answer=reset; end-delay=5ms"},
	{"no_answer_hang", "chat", "no-answer=hang"},

	{"role_off", "chat", "role=off"},
	{"role_null_early", "chat", "role=null-content; role-at=5ms"},
	{"role_every", "chat", "role=every"},
	{"role_at_is_not_after_the_first_token", "chat", "role-at=1h"},
	{"reasoning", "chat", "reasoning=2"},
	{"reasoning_key_only", "chat", "reasoning=9; reasoning-key=reasoning"},
	{"reasoning_plain", "plain", "reasoning=1"},
	{"tool_calls", "chat", "tool-calls"},
	{"tool_calls_two_choices", "chat2", "tool-calls; usage=running"},
	{"tool_calls_plain", "plain", "tool-calls=true"},
	{"tokens_per_event", "chat2", "tokens-per-event=2; usage=running"},
	{"tokens_per_event_reasoning", "chat", "tokens-per-event=5; reasoning=1"},
	{"empty", "chat2", "empty; finish=own"},
	{"empty_all", "completion", "empty; usage=off"},
	{"finish_own", "chat2", "finish=own"},
	{"finish_empty_usage_with_choices", "completion", "finish=empty; usage=with-choices"},
	{"finish_off", "completion", "finish=off; usage=off; done=off"},
	{"usage_not_asked_for", "chat", "usage=own-chunk"},
	{"usage_running_finish_own", "completion", "usage=running; finish=own"},
	{"usage_zeros", "completion", "usage=zeros"},
	{"usage_nulls", "completion", "usage=nulls"},
	{"usage_off_plain", "plain", "usage=off"},
	{"usage_total_only", "completion", "usage-shape=total-only"},
	{"usage_prompt_zero_plain", "rerank", "usage-shape=prompt-zero"},
	{"usage_and_done_late", "completion", "usage-delay=290ms; done-delay=200ms"},
	{"done_twice", "script", "done=twice"},

	{"error_first", "script", script + `error=0; error-body="{\"error\":\"x\"}"; error-event`},
	{"error_after_two", "chat", "error=2"},
	{"error_go_on", "script", script + "error=1; error-go-on"},
	{"drop_and_repeat", "script", script + "drop=2; repeat=1"},
	{"malformed", "script", script + "malformed=1; truncated=2"},
	{"truncated_plain", "rerank", "truncated=1"},
	{"pad_event", "script", script + "pad-event=1; pad-size=5"},

	{"line_end_crlf", "script", script + "line-end=crlf"},
	{"line_end_cr", "script", script + "line-end=cr"},
	{"line_end_mixed", "script", script + "line-end=mixed; data-lines=2; event-name=message"},
	{"bom_id_retry", "script", script + "bom; id; retry=3s; event-name=m; line-end=lf"},
	{"spaces_none", "script", script + "spaces=0"},
	{"spaces_two", "script", script + "spaces=2; data-lines=9"},
	{"unclosed_one", "script", script + "unclosed=1"},
	{"unclosed_two_crlf", "script", script + "unclosed=2; line-end=crlf"},
	{"comments", "script", script + "first-delay=20ms; comment-every=8ms; comment=\" PROCESSING\""},
	{"comments_default", "script", script + "comment-every=4ms; line-end=crlf"},

	{"headers_and_first_delay", "script", script + "headers-delay=5ms; first-delay=7ms"},
	{"event_delay", "script", script + "event-delay=10ms"},
	{"late", "script", script + "late=1; late-by=15ms"},
	{"stall_for", "script", script + "stall=1; stall-for=500ms"},
	{"stall_before_all", "script", script + "stall=0; stall-for=500ms"},
	{"stall_before_the_end", "script", script + "stall=3; stall-for=500ms"},
	{"stall", "script", script + "stall=2"},
	{"stall_plain", "plain", "stall=0"},
	{"end_delay", "script", script + "end-delay=5ms"},

	{"merge", "script", script + "merge=2"},
	{"split", "script", script + "split=6; split-gap=1ms"},
	{"split_at", "script", script + "split-at=3; split-gap=15ms"},
	{"split_at_from_the_end", "script", script + "split-at=-1; split-gap=2ms"},
	{"drip", "script", script + "drip=10; drip-every=5ms"},
	{"drip_binary", "pieces", "drip=3; drip-every=4ms"},
	{"flood_comments", "script", script + "flood=comments; flood-size=60"},
	{"flood_line", "script", script + "flood=line; flood-size=20"},
	{"flood_line_plain", "rerank", "flood=line; flood-size=20"},
	{"flood_events", "script", script + "flood=events; flood-size=60"},
	{"flood_headers", "script", script + "flood=headers; flood-size=1"},
	{"gzip_claimed", "script", script + "gzip=claimed"},

	{"framing_length", "script", script + "framing=length"},
	{"framing_chunked", "rerank", "framing=chunked"},
	{"framing_close", "script", script + "framing=close"},
	{"framing_http10", "script", script + "framing=http10"},
	{"length_over", "rerank", "length-off=5"},
	{"length_under", "rerank", "length-off=-5"},
	{"bad_status_line", "rerank", "bad-http=status-line"},
	{"bad_header", "rerank", "bad-http=header"},
	{"bad_chunk_size", "script", script + "bad-http=chunk-size"},
	{"bad_chunk_end", "script", script + "bad-http=chunk-end"},
	{"bad_two_lengths", "rerank", "bad-http=two-lengths"},
	{"bad_length_and_chunks", "rerank", "bad-http=length-and-chunks"},
	{"truncate", "script", script + "truncate=20"},
	{"truncate_binary", "pieces", "truncate=9"},
	{"truncate_plain_to_nothing", "rerank", "truncate=0"},
	{"cut", "script", script + "cut=1"},
	{"cut_before_the_body", "script", script + "cut=0"},
	{"cut_in_a_plain_body", "rerank", "cut-byte=10"},
	{"cut_byte_inside_a_chunk", "script", script + "cut-byte=20"},
	{"cut_byte_between_chunks", "script", script + "cut-byte=15"},
	{"cut_rst", "script", script + "cut=2; cut-with=rst; end-delay=5ms"},
	{"cut_byte_rst", "script", script + "cut-byte=20; cut-with=rst; end-delay=5ms"},
	{"idle_close", "rerank", "idle-close=30ms"},
	{"idle_close_at_once", "script", script + "idle-close=0s"},
	{"everything_at_once", "chat", "reasoning=1; reasoning-key=reasoning_content; finish=own; usage=running; line-end=crlf; spaces=0; comment-every=6ms; stall=2; stall-for=20ms; split-at=-2; split-gap=1ms; cut=6; cut-with=rst; end-delay=1ms"},
}

// dumpReads writes what a raw reader saw, each time above its bytes, one line for each line that came.
func dumpReads(b *strings.Builder, reads []read, end string, at time.Duration) {
	for _, r := range reads {
		fmt.Fprintf(b, "@%v\n", r.at)
		for line := range strings.SplitAfterSeq(r.data, "\n") {
			if line != "" {
				q := strconv.Quote(line)
				b.WriteString("  " + strings.ReplaceAll(q[1:len(q)-1], `\"`, `"`) + "\n")
			}
		}
	}
	fmt.Fprintf(b, "@%v %s\n", at, end)
}

// dumpRecord writes what the journal says of the same.
func dumpRecord(b *strings.Builder, r Record) {
	fmt.Fprintf(b, "journal: status %d, headers %v %v, planned end %v at %v, end %s at %v, body %d bytes\n",
		r.Status, r.Headers.Planned, r.Headers.Actual, r.PlannedEnd, r.PlannedEnded, r.End, r.Ended, r.BodyBytes)
	actions := r.Actions
	for i := 0; i <= len(r.Events); i++ {
		for len(actions) > 0 && actions[0].Events <= i {
			fmt.Fprintf(b, "  %v %v %s\n", actions[0].Planned, actions[0].Actual, actions[0].What)
			actions = actions[1:]
		}
		if i < len(r.Events) {
			e := r.Events[i]
			fmt.Fprintf(b, "  %v %v %v %d bytes %v\n", e.Planned, e.Actual, e.Kind, e.Bytes, e.Mark)
		}
	}
}

// Every fault, as bytes and times on the wire and as the journal has them.
func TestFaultGoldens(t *testing.T) {
	noLeaks(t)
	const patience = time.Minute // a stall without end is left after it
	for _, g := range faultGoldens {
		t.Run(g.name, func(t *testing.T) {
			var b strings.Builder
			rawVirtual(t, Config{Seed: 7}, func(t *testing.T, s *Server, dial func() net.Conn) {
				r := faultRequests[g.request]
				fmt.Fprintf(&b, "%s %s\n%s: %s\n", r.path, r.body, FaultHeader, g.fault)
				c := dial()
				_, err := io.WriteString(c, rawRequest("POST", r.path, r.body, PlanHeader, r.plan, FaultHeader, g.fault))
				require.NoError(t, err)
				reads, end, at := rawRead(t, c, patience)
				dumpReads(&b, reads, end, at)
				c.Close()
				synctest.Wait()
				records := s.Journal()
				require.Len(t, records, 1)
				f, err := ParseFault(g.fault)
				require.NoError(t, err)
				require.Equal(t, f.String(), records[0].Faults)
				dumpRecord(&b, records[0])
			})
			file := filepath.Join("testdata", "faults", g.name+".txt")
			if *update {
				require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
				require.NoError(t, os.WriteFile(file, []byte(b.String()), 0o644))
			}
			want, err := os.ReadFile(file)
			require.NoError(t, err)
			require.Equal(t, string(want), b.String())
		})
	}
	files, err := filepath.Glob("testdata/faults/*.txt")
	require.NoError(t, err)
	require.Len(t, files, len(faultGoldens), "a golden file that no test writes")
}

// Every key and every word of the vocabulary has its golden.
func TestFaultGoldensAreComplete(t *testing.T) {
	noLeaks(t)
	used := map[string][]string{}
	texts := []string{"gzip=on", "gzip=hidden", "gzip=bomb"} // see TestFaultGzip
	for _, g := range faultGoldens {
		texts = append(texts, g.fault)
	}
	for _, text := range texts {
		f, err := ParseFault(text)
		require.NoError(t, err, text)
		for rest := f.String(); rest != ""; {
			var pair string
			pair, rest, err = cutPair(rest)
			require.NoError(t, err)
			key, value, _ := strings.Cut(pair, "=")
			used[key] = append(used[key], value)
		}
	}
	for _, f := range faultFields() {
		require.NotEmpty(t, used[f.key], "no golden has %s", f.key)
		if f.key == "redirect" {
			continue // four words for one thing
		}
		for _, word := range f.enum {
			if !slices.Contains([]string{"102", "fin"}, word) {
				require.Contains(t, used[f.key], word, f.key)
			}
		}
	}
}
