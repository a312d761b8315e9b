package fakeserver

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// FaultHeader is the request header that asks for a fault, for one request, in the text form of Fault. Such a request is
// neither tried against Config.Rules nor counted by them. A bad value is answered 400.
//
//	X-Fake-Fault: stall=3; stall-for=2s; line-end=crlf
const FaultHeader = "X-Fake-Fault"

// Fault is what a bad server, gateway or proxy does to an answer. The zero value does nothing; fields combine. It edits
// the [Plan] in the order of the groups below, whatever order it is written in.
//
// The text form is "key=value" pairs separated by ";", with the keys of the yaml tags; a value that holds one of ;"\ or
// a control character, or spaces at its ends, is quoted as in Go. A bool's key may stand alone. header and step may be
// repeated (header=NAME:VALUE, step=TIME:DATA); every other key is given once.
//
// Events are counted from 1 in the order of the plan as the fields of the group "what a stream says" leave it; comments,
// and the parts that an event is split into, do not count. In a body that is not a stream the pieces are the events. Keys
// about streams leave other answers alone, except where they say more.
type Fault struct {
	// # The answer as a whole

	// Status of the answer. From 300 on, with no body given, the body is an error in vLLM's shape, sent at once.
	Status int `yaml:"status,omitempty" jsonschema:"minimum=200,maximum=599"`
	// The body, sent at once in place of what was planned; its type stays, see content-type.
	Body *string `yaml:"body,omitempty"`
	// The body, repeated or cut to so many bytes. It is not held in memory.
	BodySize int64 `yaml:"body-size,omitempty" jsonschema:"minimum=1,maximum=1099511627776" needs:"body"`
	// A script in place of the planned events: what is written when, each step one write.
	Steps []Step `yaml:"step,omitempty"`
	// Content-Type of the answer; none leaves it out.
	ContentType string `yaml:"content-type,omitempty"`
	// Retry-After of the answer: seconds or a date.
	RetryAfter string `yaml:"retry-after,omitempty"`
	// More headers of the answer, or other values for those it has; an empty value takes the header away.
	Header map[string]string `yaml:"header,omitempty"`
	// A redirect with this status and an empty body. Without location it leads to itself: a loop.
	Redirect int `yaml:"redirect,omitempty" jsonschema:"enum=301,enum=302,enum=303,enum=307,enum=308"`
	// Location of the redirect.
	Location string `yaml:"location,omitempty" needs:"redirect"`
	// Name of a header filled up with pad-header-size bytes.
	PadHeader     string `yaml:"pad-header,omitempty" needs:"pad-header-size"`
	PadHeaderSize int    `yaml:"pad-header-size,omitempty" jsonschema:"minimum=1,maximum=67108864" needs:"pad-header"`
	// Status of an interim answer that is sent on arrival.
	Interim int `yaml:"interim,omitempty" jsonschema:"enum=100,enum=102,enum=103"`
	// Vectors of an embedding or pooling answer in JSON floats: null elements, a NaN literal, a last vector one element
	// short, the items in reverse order with their own index, the last item missing.
	Vectors string `yaml:"vectors,omitempty" jsonschema:"enum=nulls,enum=nan,enum=short,enum=reversed,enum=missing"`
	// No byte of an answer: when the headers are due the connection is closed or reset, or nothing ever happens.
	NoAnswer string `yaml:"no-answer,omitempty" jsonschema:"enum=close,enum=reset,enum=hang"`

	// # What a stream says

	// The role of a chat: no chunk of its own, one with "content":null, or in every delta.
	Role string `yaml:"role,omitempty" jsonschema:"enum=off,enum=null-content,enum=every"`
	// When the role chunk is due, since the arrival; never before the headers nor after the first token.
	RoleAt *time.Duration `yaml:"role-at,omitempty"`
	// So many tokens of each choice of a chat are reasoning; also in a plain answer.
	Reasoning int `yaml:"reasoning,omitempty" jsonschema:"minimum=1"`
	// The member that reasoning stands in; reasoning_content if not given.
	ReasoningKey string `yaml:"reasoning-key,omitempty" jsonschema:"enum=reasoning_content,enum=reasoning" needs:"reasoning"`
	// The text of a chat is the argument of one tool call; also in a plain answer.
	ToolCalls bool `yaml:"tool-calls,omitempty"`
	// So many tokens of a choice go out in one event, when the last of them is due.
	TokensPerEvent int `yaml:"tokens-per-event,omitempty" jsonschema:"minimum=2"`
	// No token at all, and usage says 0; with finish the stream still says why it ends.
	Empty bool `yaml:"empty,omitempty"`
	// The finish reason: in an event of its own, in one with an empty text, or never told.
	Finish string `yaml:"finish,omitempty" jsonschema:"enum=own,enum=empty,enum=off"`
	// Usage, asked for or not: off; own-chunk (vLLM's); with-choices (in the last chunk with choices); running (in every
	// chunk, and own-chunk); zeros (zeros in every chunk, then own-chunk); nulls ("usage":null in every chunk, then
	// own-chunk). Off takes it out of plain answers in JSON too.
	Usage string `yaml:"usage,omitempty" jsonschema:"enum=off,enum=own-chunk,enum=with-choices,enum=running,enum=zeros,enum=nulls"`
	// The members of usage: total_tokens alone, or prompt_tokens 0 beside it; also in a plain answer.
	UsageShape string `yaml:"usage-shape,omitempty" jsonschema:"enum=total-only,enum=prompt-zero"`
	// The usage chunk, and all after it, come so much later.
	UsageDelay time.Duration `yaml:"usage-delay,omitempty"`
	// [DONE]: left out or sent twice.
	Done string `yaml:"done,omitempty" jsonschema:"enum=off,enum=twice"`
	// [DONE] comes so much later.
	DoneDelay time.Duration `yaml:"done-delay,omitempty"`

	// # Events gone wrong

	// After so many events an error object comes in their place, then [DONE].
	Error *int `yaml:"error,omitempty" jsonschema:"minimum=0"`
	// The data of the error event; vLLM's shape with code 500 if not given.
	ErrorBody string `yaml:"error-body,omitempty" needs:"error"`
	// The error has a line "event: error".
	ErrorEvent bool `yaml:"error-event,omitempty" needs:"error"`
	// The stream goes on after the error.
	ErrorGoOn bool `yaml:"error-go-on,omitempty" needs:"error"`
	// This event is left out.
	Drop int `yaml:"drop,omitempty" jsonschema:"minimum=1"`
	// This event comes twice.
	Repeat int `yaml:"repeat,omitempty" jsonschema:"minimum=1"`
	// This event's data is no JSON.
	Malformed int `yaml:"malformed,omitempty" jsonschema:"minimum=1"`
	// The JSON of this event ends half way; the event itself is closed properly.
	Truncated int `yaml:"truncated,omitempty" jsonschema:"minimum=1"`
	// The JSON of this event has one more member of pad-size letters.
	PadEvent int `yaml:"pad-event,omitempty" jsonschema:"minimum=1" needs:"pad-size"`
	PadSize  int `yaml:"pad-size,omitempty" jsonschema:"minimum=1,maximum=67108864" needs:"pad-event"`

	// # How events are spelled

	// What ends a line: lf, crlf, cr, or mixed: crlf inside an event and lf for the blank line.
	LineEnd string `yaml:"line-end,omitempty" jsonschema:"enum=lf,enum=crlf,enum=cr,enum=mixed"`
	// The stream begins with a byte order mark.
	BOM bool `yaml:"bom,omitempty"`
	// Spaces after the colon of data; 1 is usual.
	Spaces *int `yaml:"spaces,omitempty" jsonschema:"minimum=0,maximum=8"`
	// An event: line before each data.
	EventName string `yaml:"event-name,omitempty"`
	// An id: line in each event, counting from 1.
	ID bool `yaml:"id,omitempty"`
	// A retry: line in the first event, in milliseconds.
	Retry time.Duration `yaml:"retry,omitempty"`
	// The JSON of each event lies on so many data lines, as far as it has commas.
	DataLines int `yaml:"data-lines,omitempty" jsonschema:"minimum=2,maximum=64"`
	// So many line ends are missing at the end of the stream.
	Unclosed int `yaml:"unclosed,omitempty" jsonschema:"minimum=1,maximum=2"`
	// A comment and a blank line every so often while nothing else comes, from the headers to the last event.
	CommentEvery time.Duration `yaml:"comment-every,omitempty"`
	// The text of the comments after their colon; " keep-alive" if not given.
	Comment string `yaml:"comment,omitempty" needs:"comment-every"`

	// # When

	// The headers, and all after them, come so much later.
	HeadersDelay time.Duration `yaml:"headers-delay,omitempty"`
	// The first event, and all after it, come so much later.
	FirstDelay time.Duration `yaml:"first-delay,omitempty"`
	// Each event, the first too, is so much more behind the one before it.
	EventDelay time.Duration `yaml:"event-delay,omitempty"`
	// This event comes late-by late; those after it keep their times, but not before it.
	Late   int           `yaml:"late,omitempty" jsonschema:"minimum=1" needs:"late-by"`
	LateBy time.Duration `yaml:"late-by,omitempty" needs:"late"`
	// After so many events nothing more comes: until the client leaves, or for the time of stall-for, by which all that
	// follows is late.
	Stall    *int          `yaml:"stall,omitempty" jsonschema:"minimum=0"`
	StallFor time.Duration `yaml:"stall-for,omitempty" needs:"stall"`
	// The end, of whatever kind, comes so much after the last event.
	EndDelay time.Duration `yaml:"end-delay,omitempty"`

	// # In which writes

	// So many events go out in one write, when the last of them is due.
	Merge int `yaml:"merge,omitempty" jsonschema:"minimum=2"`
	// Each event goes out in parts of so many bytes, each a write (and an HTTP chunk) of its own.
	Split int `yaml:"split,omitempty" jsonschema:"minimum=1"`
	// Each event goes out in two parts, cut after so many bytes; from its end if negative.
	SplitAt *int `yaml:"split-at,omitempty" jsonschema:"minimum=-67108864,maximum=67108864"`
	// Time between the parts of an event.
	SplitGap time.Duration `yaml:"split-gap,omitempty"`
	// The body goes out in parts of at most so many bytes, drip-every apart.
	Drip      int           `yaml:"drip,omitempty" jsonschema:"minimum=1,maximum=67108864" needs:"drip-every"`
	DripEvery time.Duration `yaml:"drip-every,omitempty" needs:"drip"`
	// A flood before the first event: comments, one line without an end, small events; or header lines.
	Flood string `yaml:"flood,omitempty" jsonschema:"enum=comments,enum=line,enum=events,enum=headers"`
	// Bytes of the flood, and of the inflated gzip bomb. Without it a flood ends when the client leaves, a bomb has 1 GiB.
	FloodSize int64 `yaml:"flood-size,omitempty" jsonschema:"minimum=1,maximum=1099511627776"`
	// gzip: on, hidden (the header does not say so), claimed (only the header says so), or a bomb of white space.
	Gzip string `yaml:"gzip,omitempty" jsonschema:"enum=on,enum=hidden,enum=claimed,enum=bomb"`

	// # How the connection serves it

	// How the body's end is told: chunked, by its length, by closing the connection, or so and by HTTP/1.0.
	Framing string `yaml:"framing,omitempty" jsonschema:"enum=chunked,enum=length,enum=close,enum=http10"`
	// The Content-Length is so much over what is sent, or under it if negative; then the connection is closed.
	LengthOff int64 `yaml:"length-off,omitempty" jsonschema:"minimum=-67108864,maximum=67108864"`
	// No proper HTTP: a broken status line, a header line without a colon, a chunk size that is no number, a chunk without
	// the line end behind it, two lengths that differ, a length and chunks.
	BadHTTP string `yaml:"bad-http,omitempty" jsonschema:"enum=status-line,enum=header,enum=chunk-size,enum=chunk-end,enum=two-lengths,enum=length-and-chunks"`
	// The body ends after so many bytes, with a proper end of HTTP.
	Truncate *int64 `yaml:"truncate,omitempty" jsonschema:"minimum=0,maximum=1099511627776"`
	// After so many events the connection is closed, inside the body.
	Cut *int `yaml:"cut,omitempty" jsonschema:"minimum=0"`
	// After so many bytes of the body the connection is closed; inside the HTTP chunk, if that is not at its end.
	CutByte *int64 `yaml:"cut-byte,omitempty" jsonschema:"minimum=0,maximum=1099511627776"`
	// Cuts are made by fin (the default) or rst. A reset can overtake what was sent just before it: see end-delay.
	CutWith string `yaml:"cut-with,omitempty" jsonschema:"enum=fin,enum=rst"`
	// The connection is kept, but closed when no request has come for so long after the answer.
	IdleClose *time.Duration `yaml:"idle-close,omitempty"`
}

// Step is one write of a script.
type Step struct {
	At   time.Duration `yaml:"at,omitempty"` // since the arrival
	Data string        `yaml:"data"`
}

// Check reports the first field that is out of its range, by its key, and fields that exclude or need one another.
func (f *Fault) Check() error {
	if err := f.checkFields(); err != nil {
		return err
	}
	bodies := 0
	for _, given := range []bool{f.Body != nil, len(f.Steps) > 0, f.Redirect != 0, f.NoAnswer != ""} {
		if given {
			bodies++
		}
	}
	last := time.Duration(0)
	for i, s := range f.Steps {
		if s.At < last || s.At > maxDelay {
			return fmt.Errorf("step: %v is not between %v and %v, the end", s.At, last, maxDelay)
		}
		last = f.Steps[i].At
	}
	for name, value := range f.Header {
		if err := checkHeader(name, value); err != nil {
			return fmt.Errorf("header: %w", err)
		}
	}
	for _, h := range []struct{ key, name, value string }{
		{"content-type", "Content-Type", f.ContentType}, {"retry-after", "Retry-After", f.RetryAfter},
		{"location", "Location", f.Location}, {"pad-header", f.PadHeader, ""},
	} {
		if h.name == "" {
			continue
		}
		if err := checkHeader(h.name, h.value); err != nil {
			return fmt.Errorf("%s: %w", h.key, err)
		}
	}
	for _, l := range []struct{ key, value string }{{"event-name", f.EventName}, {"comment", f.Comment}, {"error-body", f.ErrorBody}} {
		if strings.ContainsAny(l.value, "\r\n") {
			return fmt.Errorf("%s: more than one line", l.key)
		}
	}
	switch {
	case bodies > 1:
		return errors.New("body, step, redirect and no-answer exclude one another")
	case f.NoAnswer != "" && f.Status != 0:
		return errors.New("no-answer and status exclude each other")
	case f.Split != 0 && f.SplitAt != nil:
		return errors.New("split and split-at exclude each other")
	case f.SplitGap != 0 && f.Split == 0 && f.SplitAt == nil:
		return errors.New("split-gap needs split or split-at")
	case f.CutWith != "" && f.Cut == nil && f.CutByte == nil:
		return errors.New("cut-with needs cut or cut-byte")
	case f.Cut != nil && f.CutByte != nil:
		return errors.New("cut and cut-byte exclude each other")
	case f.Stall != nil && f.StallFor == 0 && (f.Cut != nil || f.CutByte != nil):
		return errors.New("a stall without stall-for and a cut exclude each other")
	case f.FloodSize != 0 && f.Flood == "" && f.Gzip != "bomb":
		return errors.New("flood-size needs flood or gzip=bomb")
	case f.ToolCalls && f.Reasoning != 0:
		return errors.New("tool-calls and reasoning exclude each other")
	case f.LengthOff != 0 && (f.Framing == "chunked" || f.Framing == "close" || f.BadHTTP != ""):
		return errors.New("length-off excludes bad-http and framing other than length")
	}
	return nil
}

// checkHeader keeps a fault from writing another header than it names: broken HTTP is asked for by bad-http.
func checkHeader(name, value string) error {
	if name == "" || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune(`()<>@,;:\"/[]?={}`, r) }) {
		return fmt.Errorf("%q is no name of a header", name)
	}
	if strings.ContainsAny(value, "\r\n\x00") {
		return fmt.Errorf("the value of %s has more than one line", name)
	}
	switch strings.ToLower(name) {
	case "content-length", "transfer-encoding":
		return fmt.Errorf("%s is set by framing and length-off", name)
	}
	return nil
}
