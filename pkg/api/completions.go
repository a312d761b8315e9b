package api

type completionBody struct {
	Model         string         `json:"model"`
	Prompt        string         `json:"prompt"`
	MaxTokens     int            `json:"max_tokens,omitempty"`
	N             int            `json:"n,omitempty"`
	Stream        bool           `json:"stream"`
	StreamOptions *streamOptions `json:"stream_options,omitempty"`
	IgnoreEOS     bool           `json:"ignore_eos,omitempty"`
}

// NewCompletion builds a /v1/completions request.
func NewCompletion(model, prompt string, g Generation) (*Request, error) {
	data, err := marshal(completionBody{
		Model: model, Prompt: prompt, MaxTokens: g.MaxTokens, N: g.choices(),
		Stream: g.Stream, StreamOptions: g.streamOptions(), IgnoreEOS: g.IgnoreEOS,
	})
	if err != nil {
		return nil, err
	}
	return &Request{API: Completions, Body: data, Stream: g.Stream}, nil
}
