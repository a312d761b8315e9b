package fakeserver

import "strconv"

type completionRequest struct {
	generateRequest
	Prompt prompts `json:"prompt"`
}

// planCompletions answers /v1/completions. Choices are numbered prompt by prompt.
func planCompletions(c *call) (*Plan, error) {
	var r completionRequest
	if err := c.decode(&r); err != nil {
		return nil, err
	}
	if err := c.checkModel(r.Model); err != nil {
		return nil, err
	}
	if len(r.Prompt) == 0 {
		return nil, badParam("prompt", "prompt is missing")
	}
	if err := c.checkTruncate(r.TruncatePromptToken); err != nil {
		return nil, err
	}
	sizes := make([]int, len(r.Prompt))
	for i, p := range r.Prompt {
		sizes[i] = p.truncated(r.TruncatePromptToken, c.cfg.MaxModelLen-1)
	}
	g, err := c.generation(&r.generateRequest, r.MaxTokens, sizes, 0)
	if err != nil {
		return nil, err
	}
	if r.Stream {
		return c.stream(g, c.completionChunks()), nil
	}

	b := c.appendHead(make([]byte, 0, 1024+g.usage.output*pieceBytes), "cmpl-", "text_completion")
	b = append(b, `,"choices":[`...)
	for i := range g.choices {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"index":`...)
		b = strconv.AppendInt(b, int64(i), 10)
		b = append(b, `,"text":"`...)
		b = appendWords(b, c.words(i), g.tokens)
		b = append(b, `","logprobs":null,"finish_reason":"`...)
		b = append(b, g.finish...)
		b = append(b, `","stop_reason":null,"token_ids":null,"prompt_logprobs":null,"prompt_token_ids":null}`...)
	}
	b = append(b, `],"service_tier":null,"system_fingerprint":null`...)
	return c.plain(g, b, `,"kv_transfer_params":null}`), nil
}

// completionChunks is the format of vLLM's completion stream: no role chunk.
func (c *call) completionChunks() *chunkFormat {
	return &chunkFormat{
		head:     string(c.appendHead([]byte("data: "), "cmpl-", "text_completion")) + `,"choices":[` + firstChoice,
		open:     `,"text":"`,
		running:  `","logprobs":null,"finish_reason":null,"stop_reason":null,"prompt_token_ids":null,"token_ids":null}]`,
		finished: `","logprobs":null,"finish_reason":"`,
		closing:  `","stop_reason":null,"prompt_token_ids":null,"token_ids":null}]`,
	}
}
