package api

import (
	"bytes"
	"encoding/json"
	"slices"

	"example.com/tokpace/pkg/freelist"
	"example.com/tokpace/pkg/sse"
)

// A chunk is one event of a chat or completion stream, or the whole answer when
// it is not a stream; the two differ in delta and message.
type chunk struct {
	errorFields
	Choices []choice        `json:"choices"`
	Usage   json.RawMessage `json:"usage"`
	Metrics json.RawMessage `json:"metrics"`
}

type choice struct {
	Index        int             `json:"index"`
	Text         text            `json:"text"`
	Delta        message         `json:"delta"`
	Message      message         `json:"message"`
	FinishReason string          `json:"finish_reason"`
	Error        json.RawMessage `json:"error"` // where some gateways put it
}

// failedReason is the finish reason of a choice that the server gave up.
const failedReason = "error"

type message struct {
	Content          text           `json:"content"`
	ReasoningContent text           `json:"reasoning_content"`
	Reasoning        text           `json:"reasoning"`
	ToolCalls        []toolFragment `json:"tool_calls"`
}

func (m *message) reasoning() string {
	if m.ReasoningContent != "" {
		return string(m.ReasoningContent)
	}
	return string(m.Reasoning)
}

type toolFragment struct {
	Index    *int   `json:"index"`
	ID       string `json:"id"`
	Function struct {
		Name      string    `json:"name"`
		Arguments arguments `json:"arguments"`
	} `json:"function"`
}

// arguments are a string that holds JSON; some servers send the JSON itself.
type arguments string

func (a *arguments) UnmarshalJSON(data []byte) error {
	switch {
	case string(data) == "null":
		*a = ""
		return nil
	case data[0] == '"':
		return json.Unmarshal(data, (*string)(a))
	}
	*a = arguments(data)
	return nil
}

// text is content as servers send it: a string, null, or a list of parts of
// which the text counts.
type text string

func (t *text) UnmarshalJSON(data []byte) error {
	*t = ""
	switch {
	case string(data) == "null":
		return nil
	case data[0] == '"':
		return json.Unmarshal(data, (*string)(t))
	case data[0] == '[':
		var parts []struct {
			Text string `json:"text"`
		}
		if err := json.Unmarshal(data, &parts); err != nil {
			return err
		}
		for _, p := range parts {
			*t += text(p.Text)
		}
		return nil
	default:
		return malformed("text is neither a string nor a list of parts: %s", Snippet(data))
	}
}

// generateAnswer reads a chat or completion answer that is not a stream.
func generateAnswer(body []byte) (Answer, *Failure) {
	var c chunk
	if f := decode(body, &c); f != nil {
		return Answer{}, f
	}
	if f := c.failure(body); f != nil {
		return Answer{}, f
	}
	if len(c.Choices) == 0 {
		return Answer{}, malformed("the answer has no choices: %s", Snippet(body))
	}
	var st Stream
	if f := st.take(&c); f != nil {
		return Answer{}, f
	}
	return st.Answer(), nil
}

// A Stream gathers the events of one chat or completion stream.
type Stream struct {
	// DiscardText leaves generated text out of Answer. It must not change once an
	// event was taken.
	DiscardText bool

	usage    Usage
	times    Timings
	choices  []*choiceState // in the order of their index
	out      Output
	outputs  int
	first    Opt[int64]
	terminal bool
	failure  *Failure

	templates []template
	oldest    int // of them, once there are enough
}

type choiceState struct {
	index     int
	content   []byte
	reasoning []byte
	tools     []ToolCall
	finish    string
}

// Output says what one event brought.
type Output struct {
	// Choices are the indices of the choices for which the event holds
	// generated output; valid until the next event. Empty: no output event.
	Choices []int
	// Answer says that some of it is not reasoning.
	Answer bool
	// Events is the number of output events: 0, 1, or more that Next took together,
	// all for the same choice.
	Events int
}

// NewStream returns the reader of a stream of an API. Only chat and completions
// have streams; an event of another API's stream is malformed.
func NewStream(a *API) *Stream {
	st := &Stream{}
	if a.kind != kindGenerate {
		st.failure = malformed("%s answers are not event streams", a.Name)
	}
	return st
}

var done = []byte("[DONE]")

// maxChoices bounds the memory that an answer's choice indices can ask for.
const maxChoices = 1024

// maxToolCalls does the same for the tool calls of one choice.
const maxToolCalls = 4096

// Event takes one event: its data and its type, empty when it had none. A
// failure is final, but the server may go on sending.
func (s *Stream) Event(data []byte, typ string) (Output, *Failure) {
	return s.event(data, typ, nil)
}

// event is Event for the last event of r, if that is not nil.
func (s *Stream) event(data []byte, typ string, r *sse.Reader) (Output, *Failure) {
	whole := data
	if s.failure != nil {
		return Output{}, s.failure
	}
	data = bytes.TrimSpace(data)
	if typ == "error" {
		s.failure = inBand(data)
		var e errorFields
		if json.Unmarshal(data, &e) == nil {
			if f := e.failure(data); f != nil {
				s.failure = f
			}
		}
		return Output{}, s.failure
	}
	if len(data) == 0 {
		return Output{}, nil
	}
	if bytes.Equal(data, done) {
		s.terminal = true
		return Output{}, nil
	}
	var t texts
	if s.walk(data, &t) {
		if r != nil && t.any {
			if raw, at := r.Raw(); raw != nil {
				s.learn(raw, at+cap(whole)-cap(data), &t)
			}
		}
		return s.out, nil
	}
	return s.decode(data)
}

// decode takes an event by decoding all of it.
func (s *Stream) decode(data []byte) (Output, *Failure) {
	var c chunk
	f := decode(data, &c)
	if f == nil {
		f = c.errorFields.failure(data)
	}
	if f == nil {
		f = s.take(&c)
	}
	if f != nil {
		s.failure = f
		return Output{}, f
	}
	return s.out, nil
}

// take adds one chunk to the answer and leaves in s.out what it brought.
func (s *Stream) take(c *chunk) *Failure {
	s.out = Output{Choices: s.out.Choices[:0]}
	for i := range c.Choices {
		ch := &c.Choices[i]
		if isError(ch.Error) {
			return inBand(ch.Error)
		}
		if ch.FinishReason == failedReason {
			return &Failure{Class: ServerError, Message: "the finish reason is " + failedReason}
		}
		st, f := s.choice(ch.Index)
		if f != nil {
			return f
		}
		m := &ch.Delta
		if ch.Message.Content != "" || len(ch.Message.ToolCalls) > 0 || ch.Message.reasoning() != "" {
			m = &ch.Message
		}
		content, reasoning := string(ch.Text)+string(m.Content), m.reasoning()
		if !s.DiscardText {
			st.content = append(st.content, content...)
			st.reasoning = append(st.reasoning, reasoning...)
		}
		for _, t := range m.ToolCalls {
			if f := st.tool(t); f != nil {
				return f
			}
		}
		answer := content != "" || len(m.ToolCalls) > 0
		if answer || reasoning != "" {
			// A choice that an event holds twice has one output event.
			if !slices.Contains(s.out.Choices, ch.Index) {
				s.out.Choices = append(s.out.Choices, ch.Index)
			}
			s.out.Answer = s.out.Answer || answer
		}
		if ch.FinishReason != "" {
			st.finish = ch.FinishReason
			s.terminal = true
		}
	}
	var now Usage
	if f := now.read(c.Usage, false); f != nil {
		return f
	}
	if f := s.usage.read(c.Usage, false); f != nil {
		return f
	}
	s.times.read(c.Metrics)
	if len(s.out.Choices) > 0 {
		// A usage beside the first output is a running one; some servers put
		// zeros there, which tell nothing.
		if s.outputs == 0 && now.Output.V > 0 {
			s.first = now.Output
		}
		s.outputs++
		s.out.Events = 1
	}
	return nil
}

func (s *Stream) choice(index int) (*choiceState, *Failure) {
	i, found := slices.BinarySearchFunc(s.choices, index, func(c *choiceState, index int) int { return c.index - index })
	if found {
		return s.choices[i], nil
	}
	if index < 0 || len(s.choices) == maxChoices {
		return nil, malformed("choice index %d: no answer has more than %d choices, counted from 0", index, maxChoices)
	}
	st := &choiceState{index: index}
	if !s.DiscardText {
		st.content, st.reasoning = *textBuffers.Get(), *textBuffers.Get()
	}
	s.choices = slices.Insert(s.choices, i, st)
	return st, nil
}

// tool joins fragments by index; a fragment without one that has an id of its
// own begins a new call.
func (c *choiceState) tool(t toolFragment) *Failure {
	i := len(c.tools) - 1
	switch {
	case t.Index != nil:
		i = *t.Index
	case i < 0 || t.ID != "" && t.ID != c.tools[i].ID:
		i++
	}
	if i < 0 || i >= maxToolCalls {
		return malformed("tool call index %d: no answer has more than %d tool calls, counted from 0", i, maxToolCalls)
	}
	for len(c.tools) <= i {
		c.tools = append(c.tools, ToolCall{})
	}
	if t.ID != "" {
		c.tools[i].ID = t.ID
	}
	c.tools[i].Name += t.Function.Name
	c.tools[i].Arguments += string(t.Function.Arguments)
	return nil
}

// End says whether a stream whose body ended properly was a success: it needs a
// terminal mark (finish reason or [DONE]), and either output or a usage that
// says tokens were produced, as when the end token came first.
func (s *Stream) End() *Failure {
	switch {
	case s.failure != nil:
		return s.failure
	case !s.terminal:
		return &Failure{Class: Truncated, Message: "the stream ended without a finish reason or [DONE]"}
	case s.outputs == 0 && s.usage.Output.V == 0:
		return &Failure{Class: Empty, Message: "the stream ended without any output"}
	}
	return nil
}

// textBuffers hold text while it grows: its growth would else be most of what is
// allocated.
var textBuffers = freelist.List[*[]byte]{New: func() *[]byte { return new([]byte) }}

// Release gives the stream's memory to others. Only Answer's results may be used
// after it. It need not be called.
func (s *Stream) Release() {
	for _, c := range s.choices {
		for _, text := range [][]byte{c.content, c.reasoning} {
			if 0 < cap(text) && cap(text) <= maxText {
				text = text[:0]
				textBuffers.Put(&text)
			}
		}
	}
	*s = Stream{failure: released}
}

var released = &Failure{Class: Malformed, Message: "the stream was released"}

// maxText is the longest text whose buffer is kept.
const maxText = 1 << 20

// FirstTokens is the number of tokens in the first output event, known only
// when a running usage told it.
func (s *Stream) FirstTokens() Opt[int64] { return s.first }

// Outputs is the number of output events so far.
func (s *Stream) Outputs() int { return s.outputs }

// Answer is what the stream said so far. A usage of 0 output tokens beside
// output is a placeholder that never got its value, and so are the zeros with
// it: they are left out, with a warning.
func (s *Stream) Answer() Answer {
	a := Answer{Usage: s.usage, Times: s.times}
	if s.outputs > 0 && a.Usage.Output.Known && a.Usage.Output.V == 0 {
		a.Usage.Output = Opt[int64]{}
		if a.Usage.Input.V == 0 {
			a.Usage.Input = Opt[int64]{}
		}
		a.Warnings = append(a.Warnings, "the usage says 0 output tokens beside output: left out")
	}
	if len(s.choices) > 0 {
		c := s.choices[0]
		a.Text, a.Reasoning = string(c.content), string(c.reasoning)
		a.ToolCalls, a.FinishReason = c.tools, c.finish
	}
	for i, c := range s.choices {
		if i == 0 {
			a.Generated = append(a.Generated, a.Reasoning, a.Text)
		} else {
			a.Generated = append(a.Generated, string(c.reasoning), string(c.content))
		}
		for _, t := range c.tools {
			a.Generated = append(a.Generated, t.Arguments)
		}
	}
	return a
}
