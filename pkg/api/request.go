package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
)

// A Request is one request, ready to be sent.
type Request struct {
	API *API
	// Endpoint, when set, replaces the API's path.
	Endpoint string
	// Body goes out byte for byte.
	Body []byte
	// Header is added to the request's header.
	Header http.Header
	// InputTokens is the client's own count of the prompt's text tokens, for
	// servers that report no usage. Images and chat templates are not in it.
	InputTokens Opt[int64]

	// Stream, Encoding and DType repeat what the body asks for.
	Stream   bool
	Encoding string // encoding_format; empty means float
	DType    string // embed_dtype; empty means float32
}

// Target is the path that the request goes to.
func (r *Request) Target() string {
	if r.Endpoint != "" {
		return r.Endpoint
	}
	return r.API.Path
}

// NewRequest makes a request of a body that is used as it is. What the body
// asks for (stream, encoding_format, embed_dtype) is read from it; a body that
// is no JSON object asks for nothing, since sending broken JSON is a fair test
// of a server.
func NewRequest(a *API, body []byte) *Request {
	req := &Request{API: a, Body: body}
	var asked struct {
		Stream   any `json:"stream"`
		Encoding any `json:"encoding_format"`
		DType    any `json:"embed_dtype"`
	}
	if json.Unmarshal(body, &asked) == nil {
		req.Stream, _ = asked.Stream.(bool)
		req.Encoding, _ = asked.Encoding.(string)
		req.DType, _ = asked.DType.(string)
	}
	return req
}

// marshal encodes a body without escaping <, > and &, which would change the
// prompt's bytes on the wire for nothing.
func marshal(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("request body: %w", err)
	}
	return bytes.TrimRight(buf.Bytes(), "\n"), nil
}

// Generation holds what chat and completion requests have in common.
type Generation struct {
	// MaxTokens limits the output; 0 leaves it to the server.
	MaxTokens int
	// Stream asks for an event stream with a final usage.
	Stream bool
	// IgnoreEOS asks for exactly MaxTokens tokens (a vLLM extension). Servers
	// that reject unknown fields are asked without it.
	IgnoreEOS bool
	// N is the number of choices; 0 and 1 are not sent.
	N int
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

func (g Generation) streamOptions() *streamOptions {
	if !g.Stream {
		return nil
	}
	return &streamOptions{IncludeUsage: true}
}

func (g Generation) choices() int {
	if g.N == 1 {
		return 0
	}
	return g.N
}
