package fakeserver

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// apply edits the plan of a request for path. An error means that it cannot be done to this answer; the plan is then
// spoilt. The order is that of the groups of Fault, with these exceptions that come last because they need all bytes:
// gzip, and where the body and the connection end.
func (f *Fault) apply(path string, p *Plan) error {
	p.spell()
	p.Interim = max(p.Interim, f.Interim)
	if f.NoAnswer != "" {
		f.silence(p)
		return nil
	}
	f.answer(path, p)
	if isStream(p) {
		f.roles(p)
		f.tokens(p)
		f.finish(p)
		f.usage(p)
		f.done(p)
	} else {
		f.message(p)
		f.plainUsage(p)
		f.vectors(p)
	}
	f.wrong(p)
	if isStream(p) {
		f.lines(p)
	}
	if p.ContentLength >= 0 && p.End == EndClean && p.Raw == nil {
		p.ContentLength = size(p.Events) // whole, however early it will end
	}
	f.when(p)
	if err := f.comments(p); err != nil {
		return err
	}
	if err := f.writes(p); err != nil {
		return err
	}
	if err := f.encode(p); err != nil {
		return err
	}
	f.connection(p)
	if f.EndDelay > 0 {
		p.EndAt = p.endAt() + f.EndDelay
	}
	return nil
}

// isStream reports whether the plan is an event stream, by the events and not by the headers, which a fault may change.
func isStream(p *Plan) bool {
	return slices.ContainsFunc(p.Events, func(e Event) bool { return e.Kind != KindBody }) ||
		strings.HasPrefix(p.Header.Get("Content-Type"), "text/event-stream")
}

// size adds up what events write.
func size(events []Event) (n int64) {
	for _, e := range events {
		n += e.Size()
	}
	return n
}

// fixTimes lets no event be due before the one in front of it.
func fixTimes(p *Plan) {
	last := p.HeadersAt
	for i := range p.Events {
		last = max(last, p.Events[i].At)
		p.Events[i].At = last
	}
}

// delay moves all events from number i on, counted from 0, and the end.
func delay(p *Plan, i int, d time.Duration) {
	for ; i < len(p.Events); i++ {
		p.Events[i].At += d
	}
	if p.EndAt != 0 {
		p.EndAt += d
	}
}

// part returns the bytes from … to of an event as an event of its own.
func (e Event) part(from, to int64) Event {
	if e.Section != nil {
		e.Section = io.NewSectionReader(e.Section, from, to-from)
	} else {
		e.Data = e.Data[from:to:to]
	}
	return e
}

// bytes returns what the event writes.
func (e Event) bytes() ([]byte, error) {
	if e.Section == nil {
		return e.Data, nil
	}
	return io.ReadAll(io.NewSectionReader(e.Section, 0, e.Section.Size()))
}

// text returns a plain body, "" if it is one that need not be held in memory.
func text(p *Plan) []byte {
	if len(p.Events) == 1 {
		return p.Events[0].Data
	}
	var b []byte
	for _, e := range p.Events {
		if e.Section != nil {
			return nil
		}
		b = append(b, e.Data...)
	}
	return b
}

// setText gives a plain body another text in as many pieces.
func setText(p *Plan, b []byte) {
	n := len(p.Events)
	for i := range p.Events {
		p.Events[i].Data = b[i*len(b)/n : (i+1)*len(b)/n]
	}
}

// replaced returns data with the first old replaced, or data itself.
func replaced(data []byte, old, with string) []byte {
	before, after, ok := bytes.Cut(data, []byte(old))
	if !ok {
		return data
	}
	out := make([]byte, 0, len(data)-len(old)+len(with))
	return append(append(append(out, before...), with...), after...)
}

// between returns the range of the text between two markers.
func between(data []byte, open, shut string) (from, to int, ok bool) {
	from = bytes.Index(data, []byte(open))
	if from < 0 {
		return 0, 0, false
	}
	from += len(open)
	n := bytes.Index(data[from:], []byte(shut))
	return from, from + n, n >= 0
}

// repeated is a reader of one unit over and over.
type repeated []byte

func (r repeated) ReadAt(p []byte, off int64) (n int, err error) {
	for n < len(p) {
		n += copy(p[n:], r[(off+int64(n))%int64(len(r)):])
	}
	return n, nil
}

// endless is the size of what ends when the client leaves.
const endless = 1 << 60

func flood(unit string, n int64) *io.SectionReader {
	if n == 0 {
		n = endless
	}
	return io.NewSectionReader(repeated(unit), 0, n)
}

// tooMany reports a plan that grows over what is held in memory.
func tooMany(key string) error {
	return fmt.Errorf("%s: the answer would have over %d writes", key, maxPlanned)
}
