// Package benchtests holds the benchmarks: one file per API family, each a
// plain benchmark function that hands its shape to the harness.
//
//	go test ./benchtests -bench 'Chat/stream=true/conc=8$'
//
// Without settings they measure the built-in fake server; OPENAI_BASE_URL and
// OPENAI_API_KEY name another. Variants that need the fake's own behaviour
// (usage placed elsewhere, a slow body) run only against a fake, in this
// process or another. BenchmarkFloor measures no server but what the harness itself
// takes.
//
// # BenchmarkServe
//
// BenchmarkServe is the benchmark that settings shape: the load, the lengths, the
// sampling. Settings have the names of the flags of `vllm bench serve`, as flags
// after the prefix -tokpace. and as variables: -tokpace.request-rate=10 is the
// same as TOKPACE_REQUEST_RATE=10. Its name holds all that decides what is sent and
// when, so that different loads are never compared by mistake; several rates or
// concurrencies make a line each.
//
//	go test ./benchtests -run '^$' -bench Serve -benchtime=200x \
//		-tokpace.backend=openai-chat -tokpace.request-rate=4,16,64 -tokpace.temperature=0
//
// Without any it sends completions of 1024 tokens in and 128 out, eight at a
// time. Settings that shape it change no other benchmark, and are refused where
// -bench does not run it. The number of requests is -benchtime=Nx.
//
// A proxy of the environment (HTTP_PROXY and its like) is not used, since it would
// be part of what is measured; TOKPACE_PROXY=env, or =URL, uses one.
//
// With TOKPACE_READY_CHECK_TIMEOUT_SEC the first benchmark waits until the server
// has answered one small request, of another prompt than the measured ones.
//
// BenchmarkServe also reads the server's /metrics before and after each run, and
// reports what has changed there as server-… units; TOKPACE_SERVER_METRICS=true
// does so in every benchmark. A vLLM that was started with
// --enable-per-request-metrics tells its own times of each request where
// -tokpace.extra-body='{"include_metrics":true}' asks for them: they are kept in the
// exchanges, beside the client's.
//
// # Flags of vllm bench serve
//
// Flags of `vllm bench serve` are settings of the same name here (`go test
// ./benchtests -args -help` lists them), with these differences: max-concurrency is
// 8 where neither it nor request-rate is given; input-len and output-len are
// random-input-len and random-output-len under other names; metric-percentiles come
// beside the medians and p99, which are always there, by nearest rank; a list takes
// commas. These of its flags are no settings:
//
//   - num-prompts:
//     -benchtime=1000x sends 1000 requests
//   - host, port:
//     base-url holds both
//   - tokenizer, tokenizer-mode, trust-remote-code, skip-tokenizer-init:
//     there is no tokenizer: lengths come from the server's own, or from its usage
//   - disable-tqdm:
//     progress=off does that; progress is never printed between results
//   - use-beam-search:
//     vllm reads it and does nothing with it; extra-body can ask a server for it
//   - chat-template-kwargs:
//     extra-body={"chat_template_kwargs": {…}} sends them to the server, whose
//     template it is
//   - skip-chat-template:
//     no template is applied here: the server has its own
//   - enable-multimodal-chat:
//     chat is what openai-chat sends, with images or without
//   - no-oversample, disable-shuffle:
//     random prompts never run out, and have no order to shuffle
//   - no-reranker:
//     the backend says whether it is a reranker: openai-embeddings or vllm-pooling
//     without, vllm-rerank with
//   - random-range-ratio, random-prefix-len:
//     the random data set has one length for all, and no common prefix, so that
//     counts are exact
//   - random-mm-base-items-per-request, random-mm-bucket-config,
//     random-mm-limit-mm-per-prompt, random-mm-num-mm-items-range-ratio:
//     BenchmarkImages sends images; others are Go code: dataset.Chat has their
//     number and size
//   - dataset-path, sharegpt-output-len, sonnet-input-len, sonnet-output-len,
//     sonnet-prefix-len, custom-output-len, custom-ensure-client-side-data, hf-name,
//     hf-output-len, hf-split, hf-subset, asr-max-audio-len-sec, asr-min-audio-len-sec,
//     blazedit-max-distance, blazedit-min-distance, bfcl-categories,
//     prefix-repetition-num-prefixes, prefix-repetition-output-len,
//     prefix-repetition-prefix-len, prefix-repetition-suffix-len, spec-bench-category,
//     spec-bench-output-len, speed-bench-category, speed-bench-dataset-subset,
//     speed-bench-output-len:
//     there is no such data set: the only one is random; others are Go code, see
//     package dataset
//   - self-timed, no-self-timed, timed-trace-chunk-hash-size, timed-trace-label-hash-ids,
//     timed-trace-label-input-length, timed-trace-label-output-length,
//     timed-trace-label-timestamp, timed-trace-sec-multiplier:
//     there are no traces as a data set
//   - probe-request-rate:
//     a second load beside the first would be part of what is measured: run
//     another process with max-concurrency=1
//   - save-result, save-detailed, append-result, result-dir, result-filename:
//     results are benchmark text on standard output, which benchstat and tokpace
//     gate read; records=FILE keeps each request
//   - plot-timeline, timeline-itl-thresholds, plot-dataset-stats:
//     nothing is drawn here
package benchtests
