package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
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

// malformed makes a failure of a message that may quote the server.
func malformed(format string, args ...any) *Failure {
	return &Failure{Class: Malformed, Message: line([]byte(fmt.Sprintf(format, args...)), messageLen)}
}

// An Answer is what a complete answer said.
type Answer struct {
	Usage     Usage
	Times     Timings // that the server told of its own work
	Text      string  // content of the first choice
	Reasoning string  // reasoning content of the first choice
	ToolCalls []ToolCall
	// Generated is all generated text of all choices, reasoning and tool
	// arguments included: what a client that counts for itself has to count.
	Generated []string
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
	if isError(e.Error) {
		return inBand(e.Error)
	}
	if string(e.Object) == `"error"` {
		return inBand(whole)
	}
	return nil
}

// isError reports whether an error field tells an error: some servers send the
// field always, and leave it empty when all is well.
func isError(raw json.RawMessage) bool {
	switch string(raw) {
	case "", "null", `""`, "false":
		return false
	}
	return true
}

// inBand reads an error object ({"message","type","code"}) or string. Whatever
// its form, it is an error.
func inBand(raw []byte) *Failure {
	f := &Failure{Class: ServerError, Message: Snippet(raw)}
	var text string
	var obj struct {
		Message any `json:"message"`
		Code    any `json:"code"`
	}
	switch {
	case json.Unmarshal(raw, &text) == nil:
		f.Message = Snippet([]byte(text))
	case json.Unmarshal(raw, &obj) == nil:
		if m, ok := obj.Message.(string); ok && m != "" {
			f.Message = Snippet([]byte(m))
		}
		f.Status = code(obj.Code)
	}
	if f.Message == "" {
		f.Message = "an error without a message"
	}
	return f
}

// code is an error's code where that is a number, 0 for a word.
func code(v any) int {
	switch v := v.(type) {
	case float64:
		if v == math.Trunc(v) && math.Abs(v) <= math.MaxInt32 {
			return int(v)
		}
	case string:
		if n, err := strconv.ParseInt(v, 10, 32); err == nil {
			return int(n)
		}
	}
	return 0
}

// ErrorMessage is the message of an error answer's body: the one in its JSON,
// else the start of the body.
func ErrorMessage(body []byte) string {
	var list []json.RawMessage // some gateways wrap the error in a list
	if json.Unmarshal(body, &list) == nil && len(list) == 1 {
		body = list[0]
	}
	var e errorFields
	if json.Unmarshal(body, &e) == nil {
		if f := e.failure(body); f != nil {
			return f.Message
		}
		var obj struct {
			Detail, Message any
		}
		if json.Unmarshal(body, &obj) == nil {
			for _, v := range []any{obj.Detail, obj.Message} {
				if m, ok := v.(string); ok && m != "" {
					return Snippet([]byte(m))
				}
			}
		}
	}
	return Snippet(body)
}

// snippetLen is how much of a server's words a message repeats, in bytes;
// messageLen is how long a message of ours with such words in it can get.
const (
	snippetLen = 200
	messageLen = 400
)

// Snippet is the start of data as one line: white space folded, characters that
// could disturb a terminal or a benchmark's output replaced.
func Snippet(data []byte) string { return line(data, snippetLen) }

// line is at most limit bytes of data and a mark where it was cut.
func line(data []byte, limit int) string {
	const more = 4 // so that a cut inside white space still shows enough
	end := before(data, limit*more)
	cut := end < len(data)
	s := strings.Join(strings.Fields(strings.ToValidUTF8(string(data[:end]), "\uFFFD")), " ")
	s = strings.Map(func(r rune) rune {
		// Besides control characters these are the invisible ones, which can
		// turn the direction of writing.
		if !unicode.IsPrint(r) {
			return '\uFFFD'
		}
		return r
	}, s)
	if end = before([]byte(s), limit); end < len(s) {
		s, cut = s[:end], true
	}
	if cut {
		s += "…"
	}
	return s
}

// before is where data is cut so that at most n bytes are left and no character
// is cut in two.
func before(data []byte, n int) int {
	if len(data) <= n {
		return len(data)
	}
	for back := range utf8.UTFMax {
		if utf8.RuneStart(data[n-back]) {
			return n - back
		}
	}
	return n
}
