package api

import "encoding/base64"

// A Message is one chat message.
type Message struct {
	Role    string
	Content string
	// Images follow the text, as parts of the same message.
	Images []Image
}

// An Image is an encoded image, sent as a data URL.
type Image struct {
	MIME string // "image/png", "image/jpeg" or "image/webp"
	Data []byte
}

type chatBody struct {
	Model         string         `json:"model"`
	Messages      []chatMessage  `json:"messages"`
	MaxTokens     int            `json:"max_completion_tokens,omitempty"`
	N             int            `json:"n,omitempty"`
	Stream        bool           `json:"stream"`
	StreamOptions *streamOptions `json:"stream_options,omitempty"`
	IgnoreEOS     bool           `json:"ignore_eos,omitempty"`
}

type chatMessage struct {
	Role    string `json:"role"`
	Content any    `json:"content"`
}

type textPart struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

type imagePart struct {
	Type     string   `json:"type"`
	ImageURL imageURL `json:"image_url"`
}

type imageURL struct {
	URL string `json:"url"`
}

// NewChat builds a /v1/chat/completions request. Messages without images have
// plain string content, others a list of parts, text first.
func NewChat(model string, messages []Message, g Generation) (*Request, error) {
	body := chatBody{
		Model: model, MaxTokens: g.MaxTokens, N: g.choices(),
		Stream: g.Stream, StreamOptions: g.streamOptions(), IgnoreEOS: g.IgnoreEOS,
	}
	for _, m := range messages {
		msg := chatMessage{Role: m.Role, Content: m.Content}
		if len(m.Images) > 0 {
			parts := []any{textPart{Type: "text", Text: m.Content}}
			for _, img := range m.Images {
				url := "data:" + img.MIME + ";base64," + base64.StdEncoding.EncodeToString(img.Data)
				parts = append(parts, imagePart{Type: "image_url", ImageURL: imageURL{URL: url}})
			}
			msg.Content = parts
		}
		body.Messages = append(body.Messages, msg)
	}
	data, err := marshal(body)
	if err != nil {
		return nil, err
	}
	return &Request{API: Chat, Body: data, Stream: g.Stream}, nil
}
