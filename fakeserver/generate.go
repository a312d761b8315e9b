package fakeserver

import (
	"math/rand/v2"
	"strconv"

	"example.com/tokpace/pkg/tokens"
)

// generateRequest holds what chat and text completions share.
type generateRequest struct {
	Model         string `json:"model"`
	Stream        bool   `json:"stream"`
	StreamOptions *struct {
		IncludeUsage         bool `json:"include_usage"`
		ContinuousUsageStats bool `json:"continuous_usage_stats"`
	} `json:"stream_options"`
	MaxTokens           *int `json:"max_tokens"`
	MinTokens           int  `json:"min_tokens"`
	IgnoreEOS           bool `json:"ignore_eos"`
	N                   *int `json:"n"`
	TruncatePromptToken *int `json:"truncate_prompt_tokens"`
}

// generation is a completion ready to be written.
type generation struct {
	choices int    // in all, prompts × n
	tokens  int    // of each choice
	finish  string // reason
	usage   usage
	prompts []int // tokens of each prompt, for the running usage
	n       int   // choices per prompt

	include, continuous bool // what stream_options asks for, unless usage is off
}

// usage is what an answer's usage object says.
type usage struct {
	prompt, output, cached, image int
}

// generation checks the common fields. sizes are the prompts' lengths; limit is max_tokens under any of its names.
func (c *call) generation(r *generateRequest, limit *int, sizes []int, image int) (*generation, error) {
	g := &generation{n: 1, prompts: sizes}
	if r.StreamOptions != nil {
		if !r.Stream {
			return nil, badParam("stream_options", "Stream options can only be defined when `stream=True`.")
		}
		g.include = r.StreamOptions.IncludeUsage && c.cfg.Usage != UsageOff
		g.continuous = g.include && r.StreamOptions.ContinuousUsageStats
	}
	if r.N != nil {
		g.n = *r.N
	}
	if g.n < 1 || g.n > maxChoices {
		return nil, badParam("n", "n must be at least 1 and at most %d, got %d.", maxChoices, g.n)
	}
	longest := 0
	for _, size := range sizes {
		switch {
		case size < 1:
			return nil, badRequest("The prompt cannot be empty")
		case size >= c.cfg.MaxModelLen:
			return nil, c.contextError(size)
		}
		longest = max(longest, size)
		g.usage.prompt += size
	}
	if err := g.length(c, r, limit, longest); err != nil {
		return nil, err
	}
	g.choices = g.n * len(sizes) // each is below 1<<26
	if g.choices > maxChoices || g.choices*g.tokens > maxPlanned {
		return nil, badRequest("this server says at most %d tokens and %d choices in one answer", maxPlanned, maxChoices)
	}
	g.usage.output = g.choices * g.tokens
	g.usage.cached = min(c.cfg.CachedTokens, g.usage.prompt)
	g.usage.image = image
	return g, nil
}

// length decides how many tokens each choice says and why it stops: see Config.OutputTokens.
func (g *generation) length(c *call, r *generateRequest, limit *int, longest int) error {
	room := c.cfg.MaxModelLen - longest
	switch {
	case r.MinTokens < 0:
		return badParam("min_tokens", "min_tokens must be greater than or equal to 0, got %d.", r.MinTokens)
	case limit != nil && *limit < 1:
		return badParam("max_tokens", "max_tokens must be at least 1, got %d.", *limit)
	case limit != nil && *limit > room:
		return badParam("max_tokens", "'max_tokens' or 'max_completion_tokens' is too large: %d. This model's maximum context length is %d tokens "+
			"and your request has %d input tokens (%d > %d - %d).", *limit, c.cfg.MaxModelLen, longest, *limit, c.cfg.MaxModelLen, longest)
	case r.MinTokens > room || limit != nil && r.MinTokens > *limit:
		return badParam("min_tokens", "min_tokens must be less than or equal to max_tokens, got %d.", r.MinTokens)
	}
	natural := c.cfg.OutputTokens
	if natural == 0 {
		natural = defaultOutput
	}
	g.tokens, g.finish = max(natural, r.MinTokens), "stop"
	if r.IgnoreEOS {
		g.finish = "length"
	}
	if limit != nil && (r.IgnoreEOS || c.cfg.OutputTokens == 0 || *limit <= g.tokens) {
		g.tokens, g.finish = *limit, "length"
	}
	if g.tokens > room {
		g.tokens, g.finish = room, "length"
	}
	return nil
}

// words returns the source of a choice's tokens.
func (c *call) words(choice int) *rand.PCG {
	return rand.NewPCG(c.key, uint64(choice))
}

// appendWords appends n tokens of text; they need no escaping in JSON.
func appendWords(b []byte, words *rand.PCG, n int) []byte {
	for range n {
		_, piece := tokens.Word(words.Uint64())
		b = append(b, piece...)
	}
	return b
}

const pieceBytes = 5

// appendUsage appends a usage member without a comma. noDetails is put where the details are absent.
func (c *call) appendUsage(b []byte, u usage, noDetails string) []byte {
	b = append(b, `"usage":{"prompt_tokens":`...)
	b = strconv.AppendInt(b, int64(u.prompt), 10)
	b = append(b, `,"total_tokens":`...)
	b = strconv.AppendInt(b, int64(u.prompt+u.output), 10)
	b = append(b, `,"completion_tokens":`...)
	b = strconv.AppendInt(b, int64(u.output), 10)
	if c.cfg.PromptTokensDetails && u.cached+u.image > 0 {
		b = append(b, `,"prompt_tokens_details":{`...)
		if u.cached > 0 {
			b = append(b, `"cached_tokens":`...)
			b = strconv.AppendInt(b, int64(u.cached), 10)
			if u.image > 0 {
				b = append(b, ',')
			}
		}
		if u.image > 0 {
			b = append(b, `"image_tokens":`...)
			b = strconv.AppendInt(b, int64(u.image), 10)
		}
		b = append(b, '}')
	} else {
		b = append(b, noDetails...)
	}
	return append(b, '}')
}

// nullDetails is what plain answers say where there are no details.
const nullDetails = `,"prompt_tokens_details":null`

// plain plans a completion that is not a stream; body is everything up to the usage.
func (c *call) plain(g *generation, body []byte, tail string) *Plan {
	if c.cfg.Usage != UsageOff {
		body = append(body, ',')
		body = c.appendUsage(body, g.usage, nullDetails)
	}
	p := c.jsonPlan(c.readyAt(g.tokens), append(body, tail...))
	p.Choices = g.choices
	p.InputTokens, p.OutputTokens, p.ImageTokens = g.usage.prompt, g.usage.output, g.usage.image
	p.finish, p.cached = g.finish, g.usage.cached
	return p
}

// appendHead appends the members that begin every object of an answer.
func (c *call) appendHead(b []byte, prefix, object string) []byte {
	b = append(b, `{"id":"`...)
	b = c.appendID(b, prefix)
	b = append(b, `","object":"`...)
	b = append(b, object...)
	b = append(b, `","created":`...)
	b = strconv.AppendInt(b, c.created(), 10)
	b = append(b, `,"model":`...)
	return appendString(b, c.cfg.Model)
}
