package fakeserver

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"time"
)

// wrong spoils single events. Numbers count from 1 in the plan as it is before the first of these changes, save that an
// error is put in at last.
func (f *Fault) wrong(p *Plan) {
	at := func(n int) *Event {
		if n < 1 || n > len(p.Events) || p.Events[n-1].Section != nil {
			return nil
		}
		return &p.Events[n-1]
	}
	if e := at(f.PadEvent); e != nil {
		pad := `,"pad":"` + strings.Repeat("x", f.PadSize) + `"`
		if end := bytes.LastIndexByte(e.Data, '}'); end >= 0 {
			e.Data = []byte(string(e.Data[:end]) + pad + string(e.Data[end:]))
			e.Mark = MarkPadded
		}
	}
	if e := at(f.Truncated); e != nil {
		from, to := payload(e.Data)
		e.Data = []byte(string(e.Data[:from+(to-from)/2]) + string(e.Data[to:]))
		e.Mark = MarkTruncated
	}
	if e := at(f.Malformed); e != nil {
		from, to := payload(e.Data)
		e.Data = []byte(string(e.Data[:from]) + `{"malformed": "` + `no end` + string(e.Data[to:]))
		e.Mark = MarkMalformed
	}
	if n := f.Repeat; at(n) != nil {
		again := *at(n)
		again.Mark = MarkRepeated
		p.Events = slices.Insert(p.Events, n, again)
	}
	if n := f.Drop; at(n) != nil {
		if f.Repeat > 0 && f.Repeat < n {
			n++ // one more is in front of it
		}
		p.Events = slices.Delete(p.Events, n-1, n)
	}
	if f.Error != nil && isStream(p) {
		n := min(*f.Error, len(p.Events))
		due := p.HeadersAt
		if n > 0 {
			due = p.Events[n-1].At
		}
		if n < len(p.Events) {
			due = p.Events[n].At // it comes in the place of this one
		}
		rest := p.Events[n:]
		p.Events = append(slices.Clip(p.Events[:n]), f.errorAt(due))
		for _, e := range rest {
			if f.ErrorGoOn || e.Kind == KindDone {
				if !f.ErrorGoOn {
					e.At = due
				}
				p.Events = append(p.Events, e)
			}
		}
	}
}

// payload returns the range of an event's data: behind "data: " up to the line ends of a stream's event, else all of it.
func payload(data []byte) (from, to int) {
	if at := bytes.Index(data, []byte("data: ")); at == 0 || at > 0 && data[at-1] == '\n' {
		from = at + len("data: ")
	}
	return from, max(from, len(bytes.TrimRight(data, "\n")))
}

// errorAt makes the error event.
func (f *Fault) errorAt(at time.Duration) Event {
	body := f.ErrorBody
	if body == "" {
		body = string(errorBody("the fault asked for an error in the stream", "InternalServerError", 500))
	}
	name := ""
	if f.ErrorEvent {
		name = "event: error\n"
	}
	return Event{At: at, Data: []byte(name + "data: " + body + "\n\n"), Kind: KindError}
}

const byteOrderMark = "\ufeff"

// lines edits how the events of a stream are spelled. The planner writes "data: …" and line feeds.
func (f *Fault) lines(p *Plan) {
	for i := range p.Events {
		e := &p.Events[i]
		if e.Section != nil {
			continue
		}
		s := string(e.Data)
		if f.DataLines > 1 {
			s = dataLines(s, f.DataLines)
		}
		var fields string
		if f.EventName != "" && e.Kind != KindError {
			fields += "event: " + f.EventName + "\n"
		}
		if f.ID {
			fields += "id: " + strconv.Itoa(i+1) + "\n"
		}
		if f.Retry > 0 && i == 0 {
			fields += "retry: " + strconv.FormatInt(f.Retry.Milliseconds(), 10) + "\n"
		}
		s = fields + s
		if f.Spaces != nil {
			s = spaced(s, *f.Spaces)
		}
		if f.Unclosed > 0 && i == len(p.Events)-1 {
			s = s[:max(0, len(s)-f.Unclosed)]
		}
		s = lineEnds(s, f.LineEnd)
		if f.BOM && i == 0 {
			s = byteOrderMark + s
		}
		if s != string(e.Data) {
			e.Data = []byte(s)
		}
	}
}

// dataLines spreads JSON over lines, cut behind commas between its members, where white space may stand.
func dataLines(s string, n int) string {
	const data = "data: "
	var b strings.Builder
	for line := range strings.SplitAfterSeq(s, "\n") {
		if !strings.HasPrefix(line, data+"{") {
			b.WriteString(line)
			continue
		}
		quoted, lines := false, 1
		for i := 0; i < len(line); i++ {
			b.WriteByte(line[i])
			switch c := line[i]; {
			case c == '\\':
				i++
				b.WriteByte(line[i])
			case c == '"':
				quoted = !quoted
			case c == ',' && !quoted && lines < n:
				b.WriteString("\n" + data)
				lines++
			}
		}
	}
	return b.String()
}

// spaced sets the number of spaces behind the colon of data.
func spaced(s string, n int) string {
	var b strings.Builder
	for line := range strings.SplitAfterSeq(s, "\n") {
		if rest, ok := strings.CutPrefix(line, "data: "); ok {
			line = "data:" + strings.Repeat(" ", n) + rest
		}
		b.WriteString(line)
	}
	return b.String()
}

func lineEnds(s, kind string) string {
	switch kind {
	case "crlf":
		return strings.ReplaceAll(s, "\n", "\r\n")
	case "cr":
		return strings.ReplaceAll(s, "\n", "\r")
	case "mixed":
		body, blank := s, ""
		if strings.HasSuffix(s, "\n\n") {
			body, blank = s[:len(s)-1], "\n"
		}
		return strings.ReplaceAll(body, "\n", "\r\n") + blank
	}
	return s
}

// comments puts keep-alive comments into every silence.
func (f *Fault) comments(p *Plan) error {
	if f.CommentEvery == 0 || !isStream(p) {
		return nil
	}
	comment := f.Comment
	if comment == "" {
		comment = " keep-alive"
	}
	data := []byte(lineEnds(":"+comment+"\n\n", f.LineEnd))
	var out []Event
	last := p.HeadersAt
	silence := func(until time.Duration) bool {
		for at := last + f.CommentEvery; at < until; at += f.CommentEvery {
			out = append(out, Event{At: at, Data: data, Kind: KindComment})
			if len(out) > maxPlanned {
				return false
			}
		}
		last = until
		return true
	}
	for _, e := range p.Events {
		if !silence(e.At) {
			return tooMany("comment-every")
		}
		out = append(out, e)
	}
	if p.ContentLength >= 0 {
		p.ContentLength += size(out) - size(p.Events)
	}
	p.Events = out
	return nil
}
