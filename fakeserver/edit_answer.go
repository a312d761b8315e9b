package fakeserver

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// silence plans no answer.
func (f *Fault) silence(p *Plan) {
	p.Status, p.Header, p.ContentLength, p.Events = 0, http.Header{}, -1, nil
	p.saysNothing()
	p.HeadersAt += f.HeadersDelay
	p.End = map[string]End{"close": EndCut, "reset": EndReset, "hang": EndHang}[f.NoAnswer]
	if f.EndDelay > 0 {
		p.EndAt = p.HeadersAt + f.EndDelay
	}
}

// answer replaces status, headers and body.
func (f *Fault) answer(path string, p *Plan) {
	status := f.Status
	if f.Redirect != 0 {
		status = f.Redirect
	}
	if status != 0 {
		p.Status = status
	}
	switch {
	case f.Redirect != 0:
		f.instead(p, Event{})
		p.Header.Del("Content-Type")
		p.Header.Set("Location", path)
		if f.Location != "" {
			p.Header.Set("Location", f.Location)
		}
	case f.Body != nil && f.BodySize > 0 && *f.Body != "":
		f.instead(p, Event{Section: io.NewSectionReader(repeated(*f.Body), 0, f.BodySize)})
	case f.Body != nil:
		f.instead(p, Event{Data: []byte(*f.Body)})
	case len(f.Steps) > 0:
		p.Events = make([]Event, len(f.Steps))
		for i, s := range f.Steps {
			p.Events[i] = Event{At: s.At, Data: []byte(s.Data)}
			if strings.TrimSpace(strings.TrimPrefix(s.Data, "data:")) == "[DONE]" {
				p.Events[i].Kind = KindDone
			}
		}
		p.HeadersAt = 0
		p.saysNothing()
		fixTimes(p)
	case status >= 300:
		p.Header.Set("Content-Type", "application/json")
		f.instead(p, Event{Data: errorBody("the fault asked for "+fmt.Sprint(status), statusKind(status), status)})
	}
	if status == http.StatusNoContent || status == http.StatusNotModified {
		p.Events, p.ContentLength = nil, -1
	}
	for name, value := range map[string]string{"Content-Type": f.ContentType, "Retry-After": f.RetryAfter} {
		if value != "" {
			p.Header.Set(name, value)
		}
	}
	if f.ContentType == "none" {
		p.Header["Content-Type"] = nil // else net/http guesses one
	}
	for name, value := range f.Header {
		name = http.CanonicalHeaderKey(name)
		if value == "" {
			p.Header[name] = nil
		} else {
			p.Header.Set(name, value)
		}
	}
	if f.PadHeader != "" {
		p.Header.Set(f.PadHeader, strings.Repeat("x", f.PadHeaderSize))
	}
}

// instead makes e the body, sent as soon as the headers.
func (f *Fault) instead(p *Plan, e Event) {
	p.HeadersAt = 0
	p.saysNothing()
	p.Events = nil
	if e.Size() > 0 {
		p.Events = []Event{e}
	}
	p.ContentLength = e.Size()
}

// saysNothing forgets what the planned answer said, which will not be sent.
func (p *Plan) saysNothing() {
	p.Choices, p.InputTokens, p.OutputTokens, p.ImageTokens = 0, 0, 0, 0
}

func statusKind(status int) string {
	return strings.ReplaceAll(http.StatusText(status), " ", "")
}

// errorBody is an error in vLLM's shape.
func errorBody(message, kind string, code int) []byte {
	b := appendString([]byte(`{"error":{"message":`), message)
	b = appendString(append(b, `,"type":`...), kind)
	return fmt.Appendf(b, `,"param":null,"code":%d}}`, code)
}

// vectors spoils the float vectors of a JSON body.
func (f *Fault) vectors(p *Plan) {
	body := text(p)
	key := `"embedding":[`
	if !bytes.Contains(body, []byte(key)) {
		key = `"data":[` // of /pooling; the list of items has the same name
	}
	if f.Vectors == "" || !bytes.Contains(body, []byte(`"data":[{"index":0`)) {
		return
	}
	const open = `"data":[`
	head, rest, _ := bytes.Cut(body, []byte(open))
	at := bytes.LastIndex(rest, []byte("}]"))
	if at < 0 || !bytes.Contains(rest[:at], []byte(key)) {
		return
	}
	items := bytes.SplitAfter(rest[:at+1], []byte("]}"))
	tail := rest[at+1:]
	items = items[:len(items)-1] // what follows the last one
	for i := range items {
		items[i] = bytes.TrimPrefix(items[i], []byte(","))
	}
	last := len(items) - 1
	switch f.Vectors {
	case "nulls":
		for i, item := range items {
			from, to, _ := between(item, key, "]")
			n := bytes.Count(item[from:to], []byte(",")) + 1
			items[i] = []byte(string(item[:from]) + strings.Repeat("null,", n-1) + "null" + string(item[to:]))
		}
	case "nan":
		from, to, _ := between(items[0], key, "]")
		_, others, more := strings.Cut(string(items[0][from:to]), ",")
		if more {
			others = "," + others
		}
		items[0] = []byte(string(items[0][:from]) + "NaN" + others + string(items[0][to:]))
	case "short":
		from, to, _ := between(items[last], key, "]")
		elements := items[last][from:to]
		items[last] = []byte(string(items[last][:from]) + string(elements[:max(0, bytes.LastIndexByte(elements, ','))]) + string(items[last][to:]))
	case "reversed":
		for i := range len(items) / 2 {
			items[i], items[last-i] = items[last-i], items[i]
		}
	case "missing":
		items = items[:last]
	}
	out := append(append([]byte(nil), head...), open...)
	out = append(append(out, bytes.Join(items, []byte(","))...), tail...)
	setText(p, out)
}
