package fakeserver

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"unicode/utf8"

	"example.com/tokpace/pkg/tokens"
)

// prompt is one text of a request with its length.
type prompt struct {
	text   string
	tokens int
}

// prompts is the union that "prompt" and "input" are: a text, a list of texts, token ids, or a list of those. nil if the
// field was absent or null.
type prompts []prompt

func (p *prompts) UnmarshalJSON(b []byte) error {
	var list []json.RawMessage
	switch {
	case string(b) == "null":
		return nil
	case b[0] == '"':
		list = []json.RawMessage{b}
	case b[0] == '[':
		if err := json.Unmarshal(b, &list); err != nil {
			return err
		}
		if len(list) == 0 {
			return badRequest("the list of prompts is empty")
		}
		if c := list[0][0]; c != '"' && c != '[' { // one prompt of token ids
			list = []json.RawMessage{b}
		}
	default:
		return badRequest("a prompt is a text, token ids, or a list of those")
	}
	*p = make(prompts, len(list))
	for i, raw := range list {
		one, err := decodePrompt(raw)
		if err != nil {
			return err
		}
		(*p)[i] = one
	}
	return nil
}

func decodePrompt(raw json.RawMessage) (prompt, error) {
	var p prompt
	if raw[0] == '"' {
		var err error
		if p.text, err = decodeString(raw); err == nil {
			p.tokens = tokens.Count(p.text)
		}
		return p, err
	}
	var ids []int
	if err := json.Unmarshal(raw, &ids); err != nil {
		return p, badRequest("a prompt is a text, token ids, or a list of those")
	}
	text, err := decodeTokens(ids)
	return prompt{text: text, tokens: len(ids)}, err
}

// decodeString decodes a JSON string that is known to be valid. Most hold no escapes and are copied: a decoder inside the
// decoder that calls this would cost more than all the rest of a request, and would double the stack that each
// connection keeps.
func decodeString(raw []byte) (s string, err error) {
	if plain := raw[1 : len(raw)-1]; bytes.IndexByte(plain, '\\') < 0 && utf8.Valid(plain) {
		return string(plain), nil
	}
	err = json.Unmarshal(raw, &s)
	return s, err
}

// truncated returns the prompt's length under truncate_prompt_tokens: nil cuts nothing, -1 cuts to the context.
func (p prompt) truncated(limit *int, maxLen int) int {
	switch {
	case limit == nil:
		return p.tokens
	case *limit == -1:
		return min(p.tokens, maxLen)
	default:
		return min(p.tokens, *limit)
	}
}

func (c *call) checkTruncate(limit *int) error {
	if limit != nil && (*limit < -1 || *limit > c.cfg.MaxModelLen) {
		return badParam("truncate_prompt_tokens", "truncate_prompt_tokens must be between -1 and %d, got %d.", c.cfg.MaxModelLen, *limit)
	}
	return nil
}

// message is one chat message; content is a text, a list of parts, or null.
type message struct {
	Role    string  `json:"role"`
	Content content `json:"content"`
}

type content struct {
	pieces []contentPiece
}

// contentPiece is a text, or an image if url is not empty.
type contentPiece struct {
	text string
	url  string
}

func (c *content) UnmarshalJSON(b []byte) error {
	switch {
	case string(b) == "null":
		return nil
	case b[0] == '"':
		c.pieces = make([]contentPiece, 1)
		var err error
		c.pieces[0].text, err = decodeString(b)
		return err
	case b[0] != '[':
		return badRequest("content is a text or a list of parts")
	}
	var parts []struct {
		Type     string `json:"type"`
		Text     string `json:"text"`
		ImageURL struct {
			URL string `json:"url"`
		} `json:"image_url"`
	}
	if err := json.Unmarshal(b, &parts); err != nil {
		return decodeError(err)
	}
	c.pieces = make([]contentPiece, len(parts))
	for i, p := range parts {
		switch p.Type {
		case "text":
			c.pieces[i].text = p.Text
		case "image_url":
			if p.ImageURL.URL == "" {
				return badRequest("an image_url part needs image_url.url")
			}
			c.pieces[i].url = p.ImageURL.URL
		default:
			return badRequest("unknown part type %q: this server takes text and image_url", p.Type)
		}
	}
	return nil
}

// headerBytes is how much of an image is decoded at first: enough for its header unless a JPEG begins with a preview.
const headerBytes = 4096

// imageURLSize returns the pixel size of the image in a data URL.
func imageURLSize(url string) (width, height int, err error) {
	rest, ok := strings.CutPrefix(url, "data:")
	if !ok {
		return 0, 0, badRequest("image_url: this server fetches nothing: send the image as a data URL, not %s", abbreviate(url))
	}
	meta, data, ok := strings.Cut(rest, ",")
	if !ok || !strings.HasSuffix(meta, ";base64") {
		return 0, 0, badRequest("image_url: a data URL must be base64, not %s", abbreviate(url))
	}
	// Only as much as needed is decoded: a test double must not spend milliseconds on pixels it never looks at.
	if cut := headerBytes / 3 * 4; len(data) > cut {
		if head, err := base64.StdEncoding.DecodeString(data[:cut]); err == nil {
			if width, height, err = tokens.ImageSize(head); !errors.Is(err, io.ErrUnexpectedEOF) {
				return width, height, imageError(err)
			}
		}
	}
	whole, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		return 0, 0, badRequest("image_url: broken base64: %v", err)
	}
	width, height, err = tokens.ImageSize(whole)
	return width, height, imageError(err)
}

func imageError(err error) error {
	if err == nil {
		return nil
	}
	return badRequest("image_url: cannot read the image: %v", err)
}

func abbreviate(url string) string {
	if len(url) > 40 {
		return strings.ToValidUTF8(url[:40], "") + "…"
	}
	return url
}
