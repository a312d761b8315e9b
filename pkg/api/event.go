package api

import (
	"bytes"
	"unicode/utf8"

	"example.com/tokpace/pkg/sse"
)

// Most events of a stream bring a few characters and nothing else, and are like the
// event before but for them. So there are three ways to read an event, with one
// result: to decode it (generate.go), to walk over it and copy the text alone, and to
// compare it with an event that was walked over.

// texts are where a walk over an event found generated text.
type texts struct {
	index                       int  // of the choice
	any                         bool // there is a choice
	text, content               span // the answer is the one and then the other
	reasoningContent, reasoning span
	usage                       counts
	hasUsage                    bool
}

// fields are the known keys that an object was seen to have, each a bit.
type fields uint8

// first notes a known key, and reports whether it is there for the first time.
func (f *fields) first(bit fields) bool {
	seen := *f&bit != 0
	*f |= bit
	return !seen
}

// other reports whether key is none of the known names, in any case: encoding/json
// takes "Content" for "content".
func other(key []byte, known ...string) bool {
	for _, name := range known {
		if len(key) == len(name) && bytes.EqualFold(key, []byte(name)) {
			return false
		}
	}
	return true
}

// walkEvent finds the texts and the usage of an event that holds at most one choice,
// and neither an error, a tool call, a finish reason nor metrics. All others have to be decoded.
func walkEvent(data []byte, t *texts) bool {
	w := &walker{b: data}
	if !w.take('{') {
		return false
	}
	var seen fields
	for first := true; ; first = false {
		key, more, ok := w.key(first)
		if !ok {
			return false
		}
		if !more {
			return w.end()
		}
		switch string(key) {
		case "choices":
			ok = seen.first(1) && (w.null() || w.choices(t))
		case "usage":
			ok = seen.first(2) && w.usage(&t.usage)
			t.hasUsage = t.usage != counts{}
		case "error":
			ok = seen.first(4) && w.null()
		case "object":
			w.space()
			begin := w.i
			ok = seen.first(8) && w.value(0) && string(data[begin:w.i]) != `"error"`
		case "metrics":
			ok = seen.first(16) && w.null()
		default:
			ok = other(key, "choices", "usage", "error", "object", "metrics") && w.value(0)
		}
		if !ok {
			return false
		}
	}
}

func (w *walker) choices(t *texts) bool {
	if !w.take('[') {
		return false
	}
	if w.take(']') {
		return true
	}
	t.any = true
	return w.oneChoice(t) && w.take(']')
}

func (w *walker) oneChoice(t *texts) bool {
	if !w.take('{') {
		return false
	}
	var seen fields
	for first := true; ; first = false {
		key, more, ok := w.key(first)
		if !ok || !more {
			return ok
		}
		switch string(key) {
		case "index":
			ok = seen.first(1) && w.index(&t.index)
		case "text":
			ok = seen.first(2) && w.textOrNull(&t.text)
		case "delta":
			ok = seen.first(4) && (w.null() || w.delta(t))
		case "message":
			ok = seen.first(8) && w.null()
		case "finish_reason":
			var reason span
			ok = seen.first(16) && w.textOrNull(&reason) && reason.empty()
		case "error":
			ok = seen.first(32) && w.null()
		default:
			ok = other(key, "index", "text", "delta", "message", "finish_reason", "error") && w.value(0)
		}
		if !ok {
			return false
		}
	}
}

func (w *walker) delta(t *texts) bool {
	if !w.take('{') {
		return false
	}
	var seen fields
	for first := true; ; first = false {
		key, more, ok := w.key(first)
		if !ok || !more {
			return ok
		}
		switch string(key) {
		case "content":
			ok = seen.first(1) && w.textOrNull(&t.content)
		case "reasoning_content":
			ok = seen.first(2) && w.textOrNull(&t.reasoningContent)
		case "reasoning":
			ok = seen.first(4) && w.textOrNull(&t.reasoning)
		case "tool_calls":
			ok = seen.first(8) && (w.null() || w.take('[') && w.take(']'))
		default:
			ok = other(key, "content", "reasoning_content", "reasoning", "tool_calls") && w.value(0)
		}
		if !ok {
			return false
		}
	}
}

func (w *walker) textOrNull(s *span) bool {
	if w.null() {
		return true
	}
	var ok bool
	*s, ok = w.str()
	// What is no UTF-8 has to be replaced.
	return ok && (!s.wide || utf8.Valid(w.b[s.from:s.to]))
}

// index takes a small number without sign, point or exponent.
func (w *walker) index(n *int) bool {
	w.space()
	begin := w.i
	if !w.number() || w.i-begin > 4 {
		return false
	}
	for _, c := range w.b[begin:w.i] {
		if !isDigit(c) {
			return false
		}
		*n = *n*10 + int(c-'0')
	}
	return true
}

// walk takes an event, if that can be done without decoding it.
func (s *Stream) walk(data []byte, t *texts) bool {
	if !walkEvent(data, t) {
		return false
	}
	s.out = Output{Choices: s.out.Choices[:0]}
	if !t.any {
		s.usage.add(t.usage, false)
		return true
	}
	c, f := s.choice(t.index)
	if f != nil {
		return false
	}
	reasoning := t.reasoningContent
	if reasoning.empty() {
		reasoning = t.reasoning
	}
	if !s.DiscardText {
		c.content = appendSpan(c.content, data, t.text)
		c.content = appendSpan(c.content, data, t.content)
		c.reasoning = appendSpan(c.reasoning, data, reasoning)
	}
	s.usage.add(t.usage, false)
	answer := !t.text.empty() || !t.content.empty()
	if answer || !reasoning.empty() {
		if s.outputs == 0 && t.usage.Output.V > 0 {
			s.first = t.usage.Output
		}
		s.brought(t.index, answer, 1)
	}
	return true
}

func appendSpan(dst, data []byte, s span) []byte {
	if s.escaped {
		return unescape(dst, data[s.from:s.to])
	}
	return append(dst, data[s.from:s.to]...)
}

// brought notes output events of one choice.
func (s *Stream) brought(choice int, answer bool, events int) {
	s.out = Output{Choices: append(s.out.Choices[:0], choice), Answer: answer, Events: events}
	s.outputs += events
}

// A template is an event that was walked over and brought one text: head, text and
// tail are its bytes in the stream, line ends included.
type template struct {
	head, tail []byte
	choice     *choiceState
	reasoning  bool
}

const (
	// maxTemplates are kept at a time: choices take turns, reasoning and answer may.
	maxTemplates = 4
	// maxTemplate is the longest event that is worth to be kept, in bytes.
	maxTemplate = 4 << 10
)

// Next takes the next event of r, and returns it with what Event says of it. Output
// events that are alike and came with one read are taken all at once: then the event
// stands for all of them, Output.Events says how many they were, and it has no Data.
// The error is r's.
func (s *Stream) Next(r *sse.Reader) (sse.Event, Output, *Failure, error) {
	for len(s.templates) > 0 && s.failure == nil {
		n, more := s.repeat(r.Ahead())
		if n > 0 {
			return r.Skip(n), s.out, nil, nil
		}
		if !more || !r.More() {
			break
		}
	}
	ev, err := r.Next()
	if err != nil {
		return ev, Output{}, nil, err
	}
	out, f := s.event(ev.Data, ev.Type, r)
	return ev, out, f, nil
}

// learn keeps an event as a template if it can be one. at is where data, over which
// the walk went, begins in raw.
func (s *Stream) learn(raw []byte, at int, t *texts) {
	all := [...]span{t.text, t.content, t.reasoningContent, t.reasoning}
	one := -1
	for i, s := range all {
		switch {
		case s.empty():
		case one >= 0:
			return
		default:
			one = i
		}
	}
	if one < 0 || t.hasUsage || len(raw) > maxTemplate {
		return
	}
	c, f := s.choice(t.index)
	if f != nil {
		return
	}
	var to *template
	if len(s.templates) < maxTemplates {
		s.templates = append(s.templates, template{})
		to = &s.templates[len(s.templates)-1]
	} else {
		to = &s.templates[s.oldest]
		s.oldest = (s.oldest + 1) % maxTemplates
	}
	to.head = append(to.head[:0], raw[:at+all[one].from]...)
	to.tail = append(to.tail[:0], raw[at+all[one].to:]...)
	to.choice, to.reasoning = c, one >= 2
}

// repeat takes the events that b begins with and that are a template but for their
// text. It returns how many bytes they are, and if there is none whether b may be the
// beginning of one.
func (s *Stream) repeat(b []byte) (taken int, more bool) {
	for i := range s.templates {
		t := &s.templates[i]
		if !bytes.HasPrefix(b, t.head) {
			more = more || bytes.HasPrefix(t.head, b)
			continue
		}
		to := &t.choice.content
		if t.reasoning {
			to = &t.choice.reasoning
		}
		events := 0
		text := *to
		for bytes.HasPrefix(b[taken:], t.head) {
			rest := b[taken+len(t.head):]
			n := plainText(rest)
			odd := n < len(rest) && rest[n] != '"'
			if odd {
				n = oddText(rest)
			}
			// The tail begins with the quote that ends the text.
			if n == 0 || !bytes.HasPrefix(rest[n:], t.tail) {
				more = more || bytes.HasPrefix(t.tail, rest[n:])
				break
			}
			switch {
			case s.DiscardText:
			case odd:
				text = unescape(text, rest[:n])
			default:
				text = append(text, rest[:n]...)
			}
			taken += len(t.head) + n + len(t.tail)
			events++
		}
		*to = text
		if events > 0 {
			s.brought(t.choice.index, !t.reasoning, events)
			return taken, false
		}
	}
	return 0, more
}

// oddText is the length of the inside of a string that b begins with, 0 if it does not
// end in b or needs decoding.
func oddText(b []byte) int {
	w := walker{b: b}
	s, ok := w.inside()
	if !ok || s.wide && !utf8.Valid(b[:s.to]) {
		return 0
	}
	return s.to
}
