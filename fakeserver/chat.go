package fakeserver

import "strconv"

type chatRequest struct {
	generateRequest
	Messages            []message `json:"messages"`
	MaxCompletionTokens *int      `json:"max_completion_tokens"`
}

// planChat answers /v1/chat/completions.
func planChat(c *call) (*Plan, error) {
	var r chatRequest
	if err := c.decode(&r); err != nil {
		return nil, err
	}
	if err := c.checkModel(r.Model); err != nil {
		return nil, err
	}
	size, err := c.chatTokens(r.Messages, true)
	if err != nil {
		return nil, err
	}
	if err := c.checkTruncate(r.TruncatePromptToken); err != nil {
		return nil, err
	}
	size.tokens = prompt{tokens: size.tokens}.truncated(r.TruncatePromptToken, c.cfg.MaxModelLen-1)
	limit := r.MaxCompletionTokens
	if limit == nil {
		limit = r.MaxTokens
	}
	g, err := c.generation(&r.generateRequest, limit, []int{size.tokens}, size.images)
	if err != nil {
		return nil, err
	}
	if r.Stream {
		return c.stream(g, c.chatChunks()), nil
	}

	b := c.appendHead(make([]byte, 0, 1024+g.usage.output*pieceBytes), "chatcmpl-", "chat.completion")
	b = append(b, `,"choices":[`...)
	for i := range g.choices {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"index":`...)
		b = strconv.AppendInt(b, int64(i), 10)
		b = append(b, `,"message":{"role":"assistant","content":"`...)
		b = appendWords(b, c.words(i), g.tokens)
		b = append(b, `","refusal":null,"annotations":null,"audio":null,"function_call":null,"tool_calls":[],"reasoning":null},`+
			`"logprobs":null,"finish_reason":"`...)
		b = append(b, g.finish...)
		b = append(b, `","stop_reason":null,"token_ids":null}`...)
	}
	b = append(b, `],"service_tier":null,"system_fingerprint":null`...)
	return c.plain(g, b, `,"prompt_logprobs":null,"prompt_token_ids":null,"kv_transfer_params":null}`), nil
}

// chatChunks is the format of vLLM's chat stream: a chunk with the role before the first token, the finish reason in the
// chunk of the last.
func (c *call) chatChunks() *chunkFormat {
	return &chunkFormat{
		head:     string(c.appendHead([]byte("data: "), "chatcmpl-", "chat.completion.chunk")) + `,"choices":[` + firstChoice,
		role:     `,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]`,
		roleEnd:  `,"prompt_token_ids":null`,
		open:     `,"delta":{"content":"`,
		running:  `"},"logprobs":null,"finish_reason":null,"token_ids":null}]`,
		finished: `"},"logprobs":null,"finish_reason":"`,
		closing:  `","stop_reason":null,"token_ids":null}]`,
	}
}
