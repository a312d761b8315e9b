package api

import "encoding/json"

// Usage is what the server said about tokens. A stream's usage is the last one
// it reported: a running total, never a sum.
type Usage struct {
	Input, Output        Opt[int64]
	Cached, Image, Audio Opt[int64] // parts of Input
	Reasoning            Opt[int64] // part of Output
}

type wireUsage struct {
	Prompt        Opt[int64] `json:"prompt_tokens"`
	Completion    Opt[int64] `json:"completion_tokens"`
	Total         Opt[int64] `json:"total_tokens"`
	PromptDetails struct {
		Cached Opt[int64] `json:"cached_tokens"`
		Image  Opt[int64] `json:"image_tokens"`
		Audio  Opt[int64] `json:"audio_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionDetails struct {
		Reasoning Opt[int64] `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

// read takes a usage object; absent and null leave u as it is. totalIsInput
// says that the API produces no tokens, so that a total given alone (or beside
// a prompt count of 0, as some rerank servers send it) is the input.
func (u *Usage) read(raw json.RawMessage, totalIsInput bool) *Failure {
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	var w wireUsage
	if err := json.Unmarshal(raw, &w); err != nil {
		return malformed("usage cannot be read (%v): %s", err, Snippet(raw))
	}
	if totalIsInput && w.Total.V > 0 && w.Prompt.V == 0 && w.Completion.V == 0 {
		w.Prompt = w.Total
	}
	if totalIsInput && w.Completion.V == 0 {
		w.Completion = Opt[int64]{} // no output was asked for, so 0 says nothing
	}
	for _, c := range []*Opt[int64]{&w.Prompt, &w.Completion, &w.PromptDetails.Cached, &w.PromptDetails.Image,
		&w.PromptDetails.Audio, &w.CompletionDetails.Reasoning} {
		if c.V < 0 {
			return malformed("usage has a negative count: %s", Snippet(raw))
		}
	}
	set(&u.Input, w.Prompt)
	set(&u.Output, w.Completion)
	set(&u.Cached, w.PromptDetails.Cached)
	set(&u.Image, w.PromptDetails.Image)
	set(&u.Audio, w.PromptDetails.Audio)
	set(&u.Reasoning, w.CompletionDetails.Reasoning)
	return nil
}

func set(dst *Opt[int64], v Opt[int64]) {
	if v.Known {
		*dst = v
	}
}
