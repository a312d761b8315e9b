package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
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
	req.readAsked()
	return req
}

// readAsked notes what the body asks for.
func (r *Request) readAsked() {
	var asked struct {
		Stream   any `json:"stream"`
		Encoding any `json:"encoding_format"`
		DType    any `json:"embed_dtype"`
	}
	if json.Unmarshal(r.Body, &asked) == nil {
		r.Stream, _ = asked.Stream.(bool)
		r.Encoding, _ = asked.Encoding.(string)
		r.DType, _ = asked.DType.(string)
	}
}

// A Member is one member of a JSON object: sampling parameters, a model's
// adapter, whatever a server understands beside the API's own fields.
type Member struct {
	Name  string
	Value json.RawMessage
}

// ParseMembers reads the members of a JSON object, in their order. A name that
// comes twice is an error, since servers differ in which of the two they take.
func ParseMembers(object []byte) ([]Member, error) {
	dec := json.NewDecoder(bytes.NewReader(object))
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return nil, errors.New(`want a JSON object, as in {"top_k": 20}`)
	}
	var members []Member
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, err
		}
		m := Member{Name: name.(string)} // the decoder takes nothing else here
		if err := dec.Decode(&m.Value); err != nil {
			return nil, err
		}
		if slices.ContainsFunc(members, func(other Member) bool { return other.Name == m.Name }) {
			return nil, fmt.Errorf("%q is there twice", m.Name)
		}
		members = append(members, m)
	}
	if _, err := dec.Token(); err != nil {
		return nil, err
	}
	if rest := strings.TrimSpace(string(object[dec.InputOffset():])); rest != "" {
		return nil, errors.New("something follows the JSON object")
	}
	return members, nil
}

// Merge puts members into the request's body: one that the body has already is
// replaced where it stands, others follow at the end, and of several of one name
// the last wins. What the body then asks for counts. The body must be a JSON
// object.
func (r *Request) Merge(members []Member) error {
	if len(members) == 0 {
		return nil
	}
	all, err := ParseMembers(r.Body)
	if err != nil {
		return fmt.Errorf("request body: %w", err)
	}
	size := len(r.Body) + 2
	for _, m := range members {
		size += len(m.Name) + len(m.Value) + 8
		i := slices.IndexFunc(all, func(own Member) bool { return own.Name == m.Name })
		if i < 0 {
			all = append(all, m)
		} else {
			all[i].Value = m.Value
		}
	}
	body := append(make([]byte, 0, size), '{')
	for i, m := range all {
		if i > 0 {
			body = append(body, ',')
		}
		name, err := marshal(m.Name)
		if err != nil {
			return err
		}
		body = append(append(append(body, name...), ':'), m.Value...)
	}
	r.Body = append(body, '}')
	r.readAsked()
	return nil
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
