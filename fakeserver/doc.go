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
// journal keeps what really happened ([Server.Journal]). [Config.Edit] changes plans before they are written: faults,
// cut streams, recorded answers.
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
