// Package fakeserver is a deterministic stand-in for an LLM inference server.
//
// It speaks vLLM's dialect of the OpenAI API over real HTTP, says made-up words, and does everything at planned times.
// Client, metrics and gates of this module are tested against it; it shares no encoder or parser with them, so that a
// fault cannot cancel itself out. Of this module it imports pkg/tokens and pkg/pacer, in its tests pkg/memnet too.
//
//	func TestMyClient(t *testing.T) {
//		srv := fakeserver.Start(t, fakeserver.Config{TTFT: 5 * time.Millisecond, ITL: time.Millisecond})
//		res, err := srv.Client().Post(srv.URL+"/v1/chat/completions", "application/json",
//			strings.NewReader(`{"messages":[{"role":"user","content":"hello"}],"max_tokens":16,"stream":true}`))
//		if err != nil {
//			t.Fatal(err)
//		}
//		io.Copy(io.Discard, res.Body)
//		res.Body.Close()
//		t.Log(srv.Journal()[0].Events) // planned and actual time of each of the 16 tokens
//	}
//
// # How it works
//
// A request becomes a [Plan]: status, headers, events with their times, how it ends. The plan is a pure function of the
// [Config], the X-Fake-Plan header, the endpoint and the request's JSON (key order and white space do not matter), so
// the same request has the same bytes and the same planned times at any concurrency and in any process; nothing in a
// body comes from the clock. Then the handler's own goroutine writes the plan, one write and flush per event, and the
// journal keeps what really happened ([Server.Journal]). Faults change plans before they are written, and so may
// [Config.Edit]: recorded answers, or what no fault does. What a fault does to a plan is a pure function too; only which
// requests meet one may depend on how many came before.
//
// # When
//
// All times count from the arrival, the moment the whole request has been read, and are absolute: an event that is late
// never moves the next. R is the moment the answer is ready.
//
//	answer                        headers              body
//	stream                        Headers              token k at max(Headers, TTFT + k·ITL), k = 0, 1, …; the role
//	                                                   chunk with token 0, usage and [DONE] right after the last token
//	plain, PieceDelay = 0         max(R, Headers)      whole, at once; R = TTFT + (output tokens - 1)·ITL for
//	                                                   completions, R = TTFT for embeddings, pooling and rerank
//	plain, PieceDelay > 0         Headers              part k = 1 … Pieces at Headers + k·PieceDelay (no TTFT, no ITL)
//	errors, and all other paths   0                    at once
//
// "Plain" is everything that is not an event stream, binary bodies included. With several choices each token step
// writes one event per choice at the same planned time. Bodies carry a Content-Length except event streams and the
// octet streams of bytes and bytes_only, which are chunked. Headers go out by themselves except where a plain body of
// known length follows at once.
//
// # What
//
//	POST /v1/chat/completions, /v1/completions     streams and plain answers, n, token-id and batch prompts
//	POST /v1/embeddings, /pooling                  text, token ids or messages; float, base64, bytes, bytes_only
//	POST /v1/rerank, /v2/rerank, /rerank
//	POST /tokenize, /detokenize                    /tokenize does not expand images, as in vLLM
//	GET  /v1/models, /health, /version
//	GET  /metrics                                  vLLM's names; what this server has done since it was made
//	POST /start_profile, /stop_profile             do nothing; the journal has them
//
// Counts are exact: completions, embeddings and rerank (query + document, for each document) count the tokens of the
// text alone. Chat adds what Qwen2.5's ChatML template adds: 5 for each message, 11 for the default system message when
// the first message is not a system message, 3 for the generation prompt (not for embeddings); each image adds the
// tokens of the vision family and its markers.
//
// Unknown fields are accepted and do nothing except that they are part of the request that the answer is derived from.
// So do these, which real servers obey: stop, echo, logprobs, tools, response_format, task. Errors have vLLM's shape,
// {"error":{"message","type","param","code"}}, and come before any stream.
//
// # Faults
//
// A [Fault] is what a bad server, gateway or proxy does to an answer: its fields say what, and combine. [Config.Rules] say
// which requests meet one; a request can also ask for one itself, in the header X-Fake-Fault; and fakeserver/profile
// reads rules from a file.
//
//	Rules: []fakeserver.Rule{{ // fail twice, then succeed
//		Match: fakeserver.Match{Endpoint: "/v1/chat/completions", First: 2},
//		Fault: fakeserver.Fault{Status: 503, RetryAfter: "1"},
//	}}
//	X-Fake-Fault: stall=3; stall-for=2s; line-end=crlf
//
// These are the keys, the same in all three; [Fault] has more on each. N is a number, K an event counted from 1 (or a
// count of events), D a duration as in 50ms.
//
//	the answer as a whole
//	status=N                the status; from 300 on with an error as the body
//	body=TEXT               the body
//	body-size=N             … repeated or cut to so many bytes
//	step=D:DATA             a script of writes (in a file a list of at and data)
//	content-type=TYPE       the type; none leaves it out
//	retry-after=TEXT        the header
//	header=NAME:VALUE       any header; an empty value takes it away
//	redirect=N              301, 302, 303, 307 or 308
//	location=URL            … to this, else to itself
//	pad-header=NAME         a header
//	pad-header-size=N       … of so many bytes
//	interim=N               100, 102 or 103 first
//	vectors=HOW             nulls, nan, short, reversed or missing
//	no-answer=HOW           close, reset or hang before any byte
//
//	what a stream says
//	role=HOW                the role chunk: off, null-content; or every delta has the role
//	role-at=D               when it comes
//	reasoning=N             so many tokens are reasoning
//	reasoning-key=NAME      … in reasoning_content or reasoning
//	tool-calls              a tool call in place of text
//	tokens-per-event=N      several tokens per event
//	empty                   no token at all
//	finish=HOW              the finish reason: in its own event, in one with empty text, off
//	usage=HOW               off, own-chunk, with-choices, running, zeros, nulls
//	usage-shape=HOW         total-only, prompt-zero
//	usage-delay=D           usage comes later
//	done=HOW                [DONE]: off, twice
//	done-delay=D            [DONE] comes later
//
//	events gone wrong
//	error=K                 after K events an error object, then [DONE]
//	error-body=JSON         … this one
//	error-event             … with a line "event: error"
//	error-go-on             … and the stream goes on
//	drop=K                  this event is left out
//	repeat=K                this event comes twice
//	malformed=K             this event is no JSON
//	truncated=K             the JSON of this event ends half way
//	pad-event=K             this event
//	pad-size=N              … has so many bytes more
//
//	how events are spelled
//	line-end=HOW            lf, crlf, cr, mixed
//	bom                     a byte order mark first
//	spaces=N                after the colon of data
//	event-name=NAME         an event: line in each
//	id                      an id: line in each
//	retry=D                 a retry: line in the first
//	data-lines=N            the JSON on several data lines
//	unclosed=N              1 or 2 line ends are missing at the end
//	comment-every=D         keep-alive comments in every silence
//	comment=TEXT            … with this text
//
//	when
//	headers-delay=D         the headers and all the rest
//	first-delay=D           the first event and all the rest
//	event-delay=D           each event behind the one before
//	late=K                  this event alone
//	late-by=D               … by so much
//	stall=K                 after K events nothing, until the client leaves
//	stall-for=D             … or for so long
//	end-delay=D             the end, behind the last event
//
//	in which writes
//	merge=N                 so many events in one write
//	split=N                 parts of so many bytes
//	split-at=N              two parts, cut here; from the end if negative
//	split-gap=D             time between the parts
//	drip=N                  so many bytes
//	drip-every=D            … every so often
//	flood=OF                comments, line, events or headers without end
//	flood-size=N            … or of so many bytes
//	gzip=HOW                on, hidden, claimed, bomb
//
//	how the connection serves it
//	framing=HOW             chunked, length, close, http10
//	length-off=N            the Content-Length is wrong by N
//	bad-http=HOW            status-line, header, chunk-size, chunk-end, two-lengths, length-and-chunks
//	truncate=N              the body ends after so many bytes, properly
//	cut=K                   the connection is closed after K events
//	cut-byte=N              … or after so many bytes
//	cut-with=HOW            fin or rst
//	idle-close=D            the idle connection is closed so long after the answer
//
// # In virtual time
//
// Everything runs in a testing/synctest bubble if the server is made inside it and serves a memnet listener:
//
//	l := memnet.Listen()
//	srv, _ := fakeserver.New(fakeserver.Config{TTFT: 200 * time.Millisecond})
//	go srv.Serve(l)
//	defer srv.Close()
//
// Start uses TCP, which makes virtual time stand still; do not call it in a bubble.
package fakeserver
