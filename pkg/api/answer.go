package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A Class says in one word why an exchange failed.
type Class string

// The classes.
const (
	Connect     Class = "connect"      // no connection, or TLS failed
	HTTPStatus  Class = "http_status"  // a status other than 2xx
	ServerError Class = "server_error" // an error inside a 2xx answer
	Truncated   Class = "truncated"    // the answer ended before it was complete
	Malformed   Class = "malformed"    // the answer cannot be read as what it should be
	Empty       Class = "empty"        // a stream that ended properly without output
	Timeout     Class = "timeout"      // the request's time was up
	Canceled    Class = "canceled"     // the caller gave up
)

// A Failure is why an exchange failed.
type Failure struct {
	Class Class `json:"class"`
	// Status is the HTTP status of an http_status failure, or the code inside
	// an in-band error; 0 when there is none.
	Status int `json:"status,omitzero"`
	// Message is one short line for people.
	Message string `json:"message"`
}

func (f *Failure) Error() string {
	if f.Status != 0 {
		return fmt.Sprintf("%s %d: %s", f.Class, f.Status, f.Message)
	}
	return fmt.Sprintf("%s: %s", f.Class, f.Message)
}

func malformed(format string, args ...any) *Failure {
	return &Failure{Class: Malformed, Message: fmt.Sprintf(format, args...)}
}

// An Answer is what a complete answer said.
type Answer struct {
	Usage     Usage
	Text      string // content of the first choice
	Reasoning string // reasoning content of the first choice
	ToolCalls []ToolCall
	// FinishReason is the first choice's.
	FinishReason string
	Results      Opt[int] // items of a rerank answer
	Vectors, Dim Opt[int] // vectors and their dimension
	Warnings     []string
}

// A ToolCall is one tool call, its fragments joined.
type ToolCall struct {
	ID        string `json:"id,omitempty"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// Plain reads a complete JSON answer to req.
func Plain(req *Request, body []byte) (Answer, *Failure) {
	switch req.API.kind {
	case kindVectors:
		return vectorAnswer(body, req.DType)
	case kindRerank:
		return rerankAnswer(body)
	default:
		return generateAnswer(body)
	}
}

// decode reads one JSON value and nothing after it.
func decode(body []byte, v any) *Failure {
	if len(bytes.TrimSpace(body)) == 0 {
		return malformed("the body is empty")
	}
	err := json.Unmarshal(body, v)
	var syntax *json.SyntaxError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &syntax):
		return malformed("not valid JSON at byte %d (%v): %s", syntax.Offset, syntax, Snippet(body))
	case errors.Is(err, io.ErrUnexpectedEOF):
		return malformed("JSON ends too early: %s", Snippet(body))
	default:
		var f *Failure
		if errors.As(err, &f) {
			return f
		}
		return malformed("unexpected JSON (%v)", err)
	}
}

// errorFields are the places where servers put an error inside an answer.
type errorFields struct {
	Error  json.RawMessage `json:"error"`
	Object json.RawMessage `json:"object"`
}

// failure is the in-band error that an answer holds, or nil.
func (e *errorFields) failure(whole []byte) *Failure {
	if len(e.Error) > 0 && string(e.Error) != "null" {
		return inBand(e.Error)
	}
	if string(e.Object) == `"error"` {
		return inBand(whole)
	}
	return nil
}

// inBand reads an error object ({"message","type","code"}) or string. Whatever
// its form, it is an error.
func inBand(raw []byte) *Failure {
	f := &Failure{Class: ServerError, Message: Snippet(raw)}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		f.Message = Snippet([]byte(text))
		return f
	}
	var obj struct {
		Message any `json:"message"`
		Code    any `json:"code"`
	}
	if json.Unmarshal(raw, &obj) == nil {
		if m, ok := obj.Message.(string); ok && m != "" {
			f.Message = Snippet([]byte(m))
		}
		if c, ok := obj.Code.(float64); ok && c == float64(int(c)) {
			f.Status = int(c)
		}
	}
	return f
}

// ErrorMessage is the message of an error answer's body: the one in its JSON,
// else the start of the body.
func ErrorMessage(body []byte) string {
	var e errorFields
	if json.Unmarshal(body, &e) == nil {
		if f := e.failure(body); f != nil {
			return f.Message
		}
		for _, key := range []string{"detail", "message"} {
			var obj map[string]any
			if json.Unmarshal(body, &obj) == nil {
				if m, ok := obj[key].(string); ok && m != "" {
					return Snippet([]byte(m))
				}
			}
		}
	}
	return Snippet(body)
}

// snippetLen is how much of a server's words a message repeats, in bytes.
const snippetLen = 200

// Snippet is the start of data as one line: white space folded, characters that
// could disturb a terminal or a benchmark's output replaced.
func Snippet(data []byte) string {
	const more = 4 // so that a cut inside white space still shows enough
	cut := len(data) > snippetLen*more
	if cut {
		data = data[:snippetLen*more]
	}
	s := strings.Join(strings.Fields(strings.ToValidUTF8(string(data), "\uFFFD")), " ")
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return '\uFFFD'
		}
		return r
	}, s)
	if len(s) > snippetLen {
		end := snippetLen
		for !utf8.RuneStart(s[end]) {
			end--
		}
		s, cut = s[:end], true
	}
	if cut {
		s += "…"
	}
	return s
}
