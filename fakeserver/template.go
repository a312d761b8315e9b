package fakeserver

import (
	"fmt"

	"example.com/tokpace/pkg/tokens"
)

// The chat template is ChatML as Qwen2.5 uses it:
//
//	<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n     only if the first message is not a system message
//	<|im_start|>user\n…<|im_end|>\n                                  for each message
//	<|im_start|>assistant\n                                          the generation prompt
//
// Its special pieces are one token each and have the ids after those of pkg/tokens.
const (
	tokStart = tokens.VocabSize + iota
	tokEnd
	tokNewline
	tokVisionStart
	tokVisionEnd
	tokImage
	tokRoles  // the first of len(roles)
	tokSystem = tokRoles + len(roles)
)

var (
	roles  = [...]string{"system", "user", "assistant", "tool", "developer", "function"}
	system = [...]string{"You", " are", " a", " helpful", " assistant", "."}

	specials = append(append([]string{
		"<|im_start|>", "<|im_end|>", "\n", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>",
	}, roles[:]...), system[:]...)
)

const (
	messageTokens    = 5 // start, role, newline … end, newline
	generationTokens = 3 // start, role, newline
)

// chatSize is the length of a chat prompt.
type chatSize struct {
	tokens int // all of it, images included
	images int // placeholder tokens, which usage reports as image_tokens
}

// chatTokens counts a chat prompt.
func (c *call) chatTokens(messages []message, generation bool) (chatSize, error) {
	var size chatSize
	if err := checkMessages(messages); err != nil {
		return size, err
	}
	if messages[0].Role != "system" {
		size.tokens += messageTokens + len(system)
	}
	for _, m := range messages {
		size.tokens += messageTokens
		for _, p := range m.Content.pieces {
			if p.url == "" {
				size.tokens += tokens.Count(p.text)
				continue
			}
			width, height, err := imageURLSize(p.url)
			if err != nil {
				return size, err
			}
			image, err := c.cfg.Vision.Count(width, height)
			if err != nil {
				return size, badRequest("image_url: %v", err)
			}
			size.tokens += image.Tokens + image.Markers
			size.images += image.Placeholder
		}
	}
	if generation {
		size.tokens += generationTokens
	}
	return size, nil
}

// chatIDs returns the token ids of a chat prompt. As in vLLM's /tokenize an image is one placeholder between its
// markers, whatever its size.
func chatIDs(messages []message, generation bool) ([]int, error) {
	if err := checkMessages(messages); err != nil {
		return nil, err
	}
	var ids []int
	open := func(role int) { ids = append(ids, tokStart, tokRoles+role, tokNewline) }
	shut := func() { ids = append(ids, tokEnd, tokNewline) }
	if messages[0].Role != "system" {
		open(0)
		for i := range system {
			ids = append(ids, tokSystem+i)
		}
		shut()
	}
	for _, m := range messages {
		open(roleIndex(m.Role))
		for _, p := range m.Content.pieces {
			if p.url != "" {
				ids = append(ids, tokVisionStart, tokImage, tokVisionEnd)
			} else {
				ids = append(ids, tokens.Encode(p.text)...)
			}
		}
		shut()
	}
	if generation {
		open(roleIndex("assistant"))
	}
	return ids, nil
}

func checkMessages(messages []message) error {
	if len(messages) == 0 {
		return badParam("messages", "messages must hold at least one message")
	}
	for i, m := range messages {
		if roleIndex(m.Role) < 0 {
			return badParam("messages", "messages[%d].role: %q is not one of %q", i, m.Role, roles)
		}
	}
	return nil
}

func roleIndex(role string) int {
	for i, r := range roles {
		if r == role {
			return i
		}
	}
	return -1
}

// decodeTokens returns the text of token ids, those of the chat template included.
func decodeTokens(ids []int) (string, error) {
	var b []byte
	for _, id := range ids {
		s, ok := tokenText(id)
		if !ok {
			return "", badRequest("Token id %d is out of vocabulary", id)
		}
		b = append(b, s...)
	}
	return string(b), nil
}

func tokenText(id int) (string, bool) {
	if id >= tokens.VocabSize && id < tokens.VocabSize+len(specials) {
		return specials[id-tokens.VocabSize], true
	}
	return tokens.Piece(id)
}

// contextError is vLLM's answer to a prompt that does not fit.
func (c *call) contextError(n int) error {
	return badParam("input_tokens", "This model's maximum context length is %d tokens. However, your request has %d input tokens. "+
		"Please reduce the length of the input messages.", c.cfg.MaxModelLen, n)
}

// checkPooled checks a prompt of the endpoints that say nothing, of which the whole context may be used.
func (c *call) checkPooled(n int) error {
	if n < 1 {
		return badRequest("The prompt cannot be empty")
	}
	if n > c.cfg.MaxModelLen {
		return c.contextError(n)
	}
	return nil
}

// planTokenize answers /tokenize for a prompt or a chat.
func planTokenize(c *call) (*Plan, error) {
	var r struct {
		Model               string    `json:"model"`
		Prompt              *string   `json:"prompt"`
		Messages            []message `json:"messages"`
		AddGenerationPrompt *bool     `json:"add_generation_prompt"`
		ReturnTokenStrs     bool      `json:"return_token_strs"`
	}
	if err := c.decode(&r); err != nil {
		return nil, err
	}
	if err := c.checkModel(r.Model); err != nil {
		return nil, err
	}
	var ids []int
	switch {
	case r.Prompt != nil:
		ids = tokens.Encode(*r.Prompt)
	default:
		var err error
		if ids, err = chatIDs(r.Messages, r.AddGenerationPrompt == nil || *r.AddGenerationPrompt); err != nil {
			return nil, err
		}
	}
	b := fmt.Appendf(nil, `{"count":%d,"max_model_len":%d,"tokens":[`, len(ids), c.cfg.MaxModelLen)
	for i, id := range ids {
		if i > 0 {
			b = append(b, ',')
		}
		b = fmt.Append(b, id)
	}
	if !r.ReturnTokenStrs {
		return instantPlan(200, append(b, `],"token_strs":null}`...)), nil
	}
	b = append(b, `],"token_strs":[`...)
	for i, id := range ids {
		if i > 0 {
			b = append(b, ',')
		}
		s, _ := tokenText(id)
		b = appendString(b, s)
	}
	return instantPlan(200, append(b, `]}`...)), nil
}

// planDetokenize answers /detokenize.
func planDetokenize(c *call) (*Plan, error) {
	var r struct {
		Model  string `json:"model"`
		Tokens *[]int `json:"tokens"`
	}
	if err := c.decode(&r); err != nil {
		return nil, err
	}
	if err := c.checkModel(r.Model); err != nil {
		return nil, err
	}
	if r.Tokens == nil {
		return nil, badParam("tokens", "tokens is missing")
	}
	text, err := decodeTokens(*r.Tokens)
	if err != nil {
		return nil, err
	}
	return instantPlan(200, append(appendString([]byte(`{"prompt":`), text), '}')), nil
}
