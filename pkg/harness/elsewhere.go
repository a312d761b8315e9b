package harness

import "strings"

// elsewhere says of flags of `vllm bench serve` that are no settings here what
// does their work, or why nothing does. Whoever gives one is told, -help lists
// them, and the documentation of package benchtests repeats the list.
var elsewhere = []struct {
	names string
	why   string
}{
	{"num-prompts", "-benchtime=1000x sends 1000 requests"},
	{"host port", "base-url holds both"},
	{"tokenizer tokenizer-mode trust-remote-code skip-tokenizer-init", "there is no tokenizer: lengths come from the server's own, or from its usage"},
	{"disable-tqdm", "progress=off does that; progress is never printed between results"},
	{"use-beam-search", "vllm reads it and does nothing with it; extra-body can ask a server for it"},
	{"chat-template-kwargs", `extra-body={"chat_template_kwargs": {…}} sends them to the server, whose template it is`},
	{"skip-chat-template", "no template is applied here: the server has its own"},
	{"enable-multimodal-chat", "chat is what openai-chat sends, with images or without"},
	{"no-oversample disable-shuffle", "random prompts never run out, and have no order to shuffle"},
	{"no-reranker", "the backend says whether it is a reranker: openai-embeddings or vllm-pooling without, vllm-rerank with"},
	{"random-range-ratio random-prefix-len", "the random data set has one length for all, and no common prefix, so that counts are exact"},
	{"random-mm-base-items-per-request random-mm-bucket-config random-mm-limit-mm-per-prompt random-mm-num-mm-items-range-ratio",
		"BenchmarkImages sends images; others are Go code: dataset.Chat has their number and size"},
	{"dataset-path sharegpt-output-len sonnet-input-len sonnet-output-len sonnet-prefix-len custom-output-len custom-ensure-client-side-data " +
		"hf-name hf-output-len hf-split hf-subset asr-max-audio-len-sec asr-min-audio-len-sec blazedit-max-distance blazedit-min-distance bfcl-categories " +
		"prefix-repetition-num-prefixes prefix-repetition-output-len prefix-repetition-prefix-len prefix-repetition-suffix-len " +
		"spec-bench-category spec-bench-output-len speed-bench-category speed-bench-dataset-subset speed-bench-output-len",
		"there is no such data set: the only one is random; others are Go code, see package dataset"},
	{"self-timed no-self-timed timed-trace-chunk-hash-size timed-trace-label-hash-ids timed-trace-label-input-length timed-trace-label-output-length " +
		"timed-trace-label-timestamp timed-trace-sec-multiplier", "there are no traces as a data set"},
	{"probe-request-rate", "a second load beside the first would be part of what is measured: run another process with max-concurrency=1"},
	{"save-result save-detailed append-result result-dir result-filename", "results are benchmark text on standard output, which benchstat and tokpace gate read; records=FILE keeps each request"},
	{"plot-timeline timeline-itl-thresholds plot-dataset-stats", "nothing is drawn here"},
}

// whyNot says what to do in place of a flag of `vllm bench serve` that is, "" if
// there is no such flag.
func whyNot(is func(name string) bool) string {
	for _, e := range elsewhere {
		for name := range strings.FieldsSeq(e.names) {
			if is(name) {
				return e.why
			}
		}
	}
	return ""
}
