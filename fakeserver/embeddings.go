package fakeserver

import (
	"encoding/base64"
	"net/http"
	"strconv"
)

// maxJSONBody bounds answers that must be held in memory; binary ones need not be.
const maxJSONBody = 256 << 20

type poolRequest struct {
	Model               string    `json:"model"`
	Input               prompts   `json:"input"`
	Messages            []message `json:"messages"`
	AddGenerationPrompt bool      `json:"add_generation_prompt"`
	EncodingFormat      *string   `json:"encoding_format"`
	EmbedDtype          string    `json:"embed_dtype"`
	Endianness          string    `json:"endianness"`
	Dimensions          *int      `json:"dimensions"`
	TruncatePromptToken *int      `json:"truncate_prompt_tokens"`
}

// poolFormat is what differs between embeddings and pooling.
type poolFormat struct {
	prefix     string // of the id
	open       string // after an item's index, up to the value
	dimensions bool   // whether the field "dimensions" is taken
}

// planEmbeddings answers /v1/embeddings. "dimensions" cuts the vectors, at most to their length.
func planEmbeddings(c *call) (*Plan, error) {
	return c.pool(poolFormat{"embd-", `,"object":"embedding","embedding":`, true})
}

// planPooling answers /pooling with one vector per input.
func planPooling(c *call) (*Plan, error) {
	return c.pool(poolFormat{"pool-", `,"object":"pooling","data":`, false})
}

// pooled is a pooling request after all checks.
type pooled struct {
	keys   []uint64 // of the vectors
	tokens int
	image  int
	dim    int
	format elementFormat
}

func (c *call) pool(f poolFormat) (*Plan, error) {
	var r poolRequest
	if err := c.decode(&r); err != nil {
		return nil, err
	}
	if err := c.checkModel(r.Model); err != nil {
		return nil, err
	}
	v, err := c.pooled(&r, f)
	if err != nil {
		return nil, err
	}
	encoding := "float"
	if r.EncodingFormat != nil {
		encoding = *r.EncodingFormat
	}
	var p *Plan
	switch encoding {
	case "bytes", "bytes_only":
		body := &vectorsBody{keys: v.keys, dim: v.dim, format: v.format, index: -1}
		p = c.binaryPlan(c.cfg.TTFT, body, body.stride()*int64(len(v.keys)))
		if encoding == "bytes" {
			p.Header.Set("metadata", string(c.vectorMetadata(v, f)))
		}
	case "float", "base64":
		body, err := c.vectorsJSON(v, f, encoding == "base64")
		if err != nil {
			return nil, err
		}
		p = c.jsonPlan(c.cfg.TTFT, body)
	default:
		return nil, &apiError{
			status: http.StatusBadRequest, kind: "Bad Request", param: "encoding_format",
			message: "encoding_format: Input should be 'float', 'base64', 'bytes' or 'bytes_only', got " + strconv.Quote(encoding),
		}
	}
	p.InputTokens, p.ImageTokens = v.tokens, v.image
	return p, nil
}

func (c *call) pooled(r *poolRequest, f poolFormat) (*pooled, error) {
	v := &pooled{dim: c.cfg.Dim}
	var err error
	if v.format, err = parseElementFormat(r.EmbedDtype, r.Endianness); err != nil {
		return nil, err
	}
	if r.Dimensions != nil {
		switch d := *r.Dimensions; {
		case !f.dimensions:
			return nil, badParam("dimensions", "dimensions is currently not supported")
		case d < 1 || d > c.cfg.Dim:
			return nil, badParam("dimensions", "dimensions must be between 1 and %d, got %d.", c.cfg.Dim, d)
		default:
			v.dim = d
		}
	}
	if err := c.checkTruncate(r.TruncatePromptToken); err != nil {
		return nil, err
	}
	input := []prompt(r.Input)
	switch {
	case r.Messages != nil && input != nil:
		return nil, badRequest("input and messages exclude each other")
	case r.Messages != nil:
		size, err := c.chatTokens(r.Messages, r.AddGenerationPrompt)
		if err != nil {
			return nil, err
		}
		input = []prompt{{text: messagesText(r.Messages), tokens: size.tokens}}
		v.image = size.images
	case input == nil:
		return nil, badParam("input", "input is missing")
	}
	v.keys = make([]uint64, len(input))
	for i, p := range input {
		n := p.truncated(r.TruncatePromptToken, c.cfg.MaxModelLen)
		if err := c.checkPooled(n); err != nil {
			return nil, err
		}
		v.tokens += n
		// Of seed and text alone: a text has the same vector wherever and in whatever format it is asked for.
		v.keys[i] = hashBytes(mix(c.cfg.Seed, 'v'), p.text)
	}
	return v, nil
}

// messagesText is what the vector of a chat depends on.
func messagesText(messages []message) string {
	var b []byte
	for _, m := range messages {
		b = append(append(b, m.Role...), 0)
		for _, p := range m.Content.pieces {
			b = append(append(append(b, p.text...), p.url...), 0)
		}
	}
	return string(b)
}

// vectorsJSON writes the formats float and base64.
func (c *call) vectorsJSON(v *pooled, f poolFormat, inBase64 bool) ([]byte, error) {
	each := int64(v.dim) * 13
	if inBase64 {
		each = base64Len(int64(v.dim * v.format.size))
	}
	each += 80
	if each*int64(len(v.keys)) > maxJSONBody {
		return nil, badParam("encoding_format", "the answer would be over %d bytes of JSON: ask for bytes or bytes_only", maxJSONBody)
	}
	b := make([]byte, 0, each*int64(len(v.keys))+400)
	b = c.appendHead(b, f.prefix, "list")
	b = append(b, `,"data":[`...)
	var raw []byte
	for i, key := range v.keys {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"index":`...)
		b = strconv.AppendInt(b, int64(i), 10)
		b = append(b, f.open...)
		vec := newVector(key, v.dim)
		if inBase64 {
			raw = raw[:0]
			for d := range v.dim {
				raw = v.format.append(raw, vec.at(d))
			}
			b = append(b, '"')
			b = base64.StdEncoding.AppendEncode(b, raw)
			b = append(b, '"')
		} else {
			b = append(b, '[')
			for d := range v.dim {
				if d > 0 {
					b = append(b, ',')
				}
				b = strconv.AppendFloat(b, float64(vec.at(d)), 'g', -1, 32)
			}
			b = append(b, ']')
		}
		b = append(b, '}')
	}
	b = append(b, ']')
	if c.cfg.Usage != UsageOff {
		b = append(b, ',')
		b = c.appendUsage(b, c.poolUsage(v), nullDetails)
	}
	return append(b, '}'), nil
}

// poolUsage never has details: vLLM reports them for chat completions only.
func (c *call) poolUsage(v *pooled) usage { return usage{prompt: v.tokens} }

// vectorMetadata writes the header of the format bytes.
func (c *call) vectorMetadata(v *pooled, f poolFormat) []byte {
	b := append(make([]byte, 0, 300+120*len(v.keys)), `{"id":"`...)
	b = c.appendID(b, f.prefix)
	b = append(b, `","created":`...)
	b = strconv.AppendInt(b, c.created(), 10)
	b = append(b, `,"model":`...)
	b = appendString(b, c.cfg.Model)
	b = append(b, `,"data":[`...)
	stride := int64(v.dim) * int64(v.format.size)
	for i := range v.keys {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"index":`...)
		b = strconv.AppendInt(b, int64(i), 10)
		b = append(b, `,"embed_dtype":"`...)
		b = append(b, v.format.dtype...)
		b = append(b, `","endianness":"`...)
		b = append(b, v.format.endian...)
		b = append(b, `","start":`...)
		b = strconv.AppendInt(b, int64(i)*stride, 10)
		b = append(b, `,"end":`...)
		b = strconv.AppendInt(b, int64(i+1)*stride, 10)
		b = append(b, `,"shape":[`...)
		b = strconv.AppendInt(b, int64(v.dim), 10)
		b = append(b, `]}`...)
	}
	b = append(b, ']')
	if c.cfg.Usage != UsageOff {
		b = appendPromptUsage(b, v.tokens)
	}
	return append(b, '}')
}

// appendPromptUsage appends the short usage of metadata and rerank.
func appendPromptUsage(b []byte, n int) []byte {
	b = append(b, `,"usage":{"prompt_tokens":`...)
	b = strconv.AppendInt(b, int64(n), 10)
	b = append(b, `,"total_tokens":`...)
	b = strconv.AppendInt(b, int64(n), 10)
	return append(b, '}')
}
