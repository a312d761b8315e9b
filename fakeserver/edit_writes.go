package fakeserver

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"slices"
	"time"
)

// when edits the times, and ends the plan early where it stalls for ever or is cut behind an event.
func (f *Fault) when(p *Plan) {
	if f.HeadersDelay > 0 {
		p.HeadersAt += f.HeadersDelay
		delay(p, 0, f.HeadersDelay)
	}
	if f.FirstDelay > 0 {
		delay(p, 0, f.FirstDelay)
	}
	if f.EventDelay > 0 {
		for i := range p.Events {
			p.Events[i].At += time.Duration(i+1) * f.EventDelay
		}
	}
	if f.Late > 0 && f.Late <= len(p.Events) {
		p.Events[f.Late-1].At += f.LateBy
		p.Events[f.Late-1].Mark = MarkLate
	}
	fixTimes(p)
	if f.Stall != nil && f.StallFor > 0 {
		if n := *f.Stall; n < len(p.Events) {
			delay(p, n, f.StallFor)
			p.Events[n].Mark = MarkStalled
		} else {
			p.EndAt = p.endAt() + f.StallFor
		}
	}
	switch {
	case f.Stall != nil && f.StallFor == 0:
		p.endAfter(*f.Stall, EndHang)
	case f.Cut != nil:
		p.endAfter(*f.Cut, f.cutEnd())
	}
}

// endAfter ends the plan behind n events.
func (p *Plan) endAfter(n int, end End) {
	p.Events = p.Events[:min(n, len(p.Events))]
	p.End = end
}

func (f *Fault) cutEnd() End {
	if f.CutWith == "rst" {
		return EndReset
	}
	return EndCut
}

// writes edits in which writes the events go out.
func (f *Fault) writes(p *Plan) error {
	if f.Merge > 1 {
		f.merge(p)
	}
	var out []Event
	room := maxPlanned
	add := func(e Event, at time.Duration, from, to int64) bool {
		part := e.part(from, to)
		part.At = at
		if from > 0 {
			part.Mark = MarkPart
		}
		out = append(out, part)
		room--
		return room >= 0
	}
	if f.Split > 0 || f.SplitAt != nil {
		for _, e := range p.Events {
			size, gap := e.Size(), time.Duration(0)
			step := int64(f.Split)
			if f.SplitAt != nil {
				step = int64(*f.SplitAt)
				if step < 0 {
					step += size
				}
				if step <= 0 || step >= size {
					step = size
				}
			}
			for from := int64(0); from < size || from == 0 && size == 0; {
				to := min(from+step, size)
				if f.SplitAt != nil && from > 0 {
					to = size
				}
				if !add(e, e.At+gap, from, to) {
					return tooMany("split")
				}
				from, gap = max(to, 1), gap+f.SplitGap
			}
		}
		p.Events = out
		fixTimes(p)
	}
	if f.Drip > 0 {
		out, room = nil, maxPlanned
		next := time.Duration(0)
		for _, e := range p.Events {
			for from := int64(0); from < e.Size(); from += int64(f.Drip) {
				at := max(e.At, next)
				next = at + f.DripEvery
				if !add(e, at, from, min(from+int64(f.Drip), e.Size())) {
					return tooMany("drip")
				}
			}
		}
		p.Events = out
	}
	return nil
}

// merge joins so many events, save for sections.
func (f *Fault) merge(p *Plan) {
	var out []Event
	n := 0
	for _, e := range p.Events {
		last := len(out) - 1
		if n > 0 && n < f.Merge && e.Section == nil && out[last].Section == nil {
			out[last] = Event{At: e.At, Data: slices.Concat(out[last].Data, e.Data), Kind: out[last].Kind, Mark: MarkMerged}
			n++
			continue
		}
		out = append(out, e)
		n = 1
	}
	p.Events = out
}

const (
	bombSize = 1 << 30
	bombUnit = 1 << 20
)

// encode floods and compresses the body.
func (f *Fault) encode(p *Plan) error {
	switch f.Flood {
	case "comments":
		f.floodWith(p, ": a comment that tells nothing\n", KindComment)
	case "line":
		f.floodWith(p, "x", KindBody)
	case "events":
		f.floodWith(p, "data: {\"choices\":[]}\n\n", KindBody)
	case "headers":
		p.raw().Flood = flood("X-Fake-Flood: "+string(bytes.Repeat([]byte("x"), 984))+"\r\n", roundUp(f.FloodSize, 1000))
	}
	switch f.Gzip {
	case "on", "hidden":
		if err := compress(p); err != nil {
			return err
		}
	case "bomb":
		n := f.FloodSize
		if n == 0 {
			n = bombSize
		}
		// Members of a gzip file may follow one another: one of them, repeated, is as large as can be.
		var member bytes.Buffer
		w, _ := gzip.NewWriterLevel(&member, gzip.BestCompression)
		w.Write(bytes.Repeat([]byte(" "), bombUnit))
		w.Close()
		at := p.HeadersAt
		if len(p.Events) > 0 {
			at = p.Events[0].At
		}
		bomb := io.NewSectionReader(repeated(member.Bytes()), 0, (n+bombUnit-1)/bombUnit*int64(member.Len()))
		p.Events = []Event{{At: at, Section: bomb, Mark: MarkFlood}}
		p.ContentLength = -1
	}
	if f.Gzip != "" && f.Gzip != "hidden" {
		p.Header.Set("Content-Encoding", "gzip")
	}
	return nil
}

func roundUp(n, unit int64) int64 { return (n + unit - 1) / unit * unit }

// floodWith puts a flood in front of the first event. A body with a length loses it: the flood is more than was told.
func (f *Fault) floodWith(p *Plan, unit string, kind Kind) {
	at := p.HeadersAt
	if len(p.Events) > 0 {
		at = p.Events[0].At
	}
	n := f.FloodSize
	if unit != "x" {
		n = roundUp(n, int64(len(unit)))
	}
	e := Event{At: at, Section: flood(unit, n), Kind: kind, Mark: MarkFlood}
	if f.Flood == "line" && isStream(p) {
		e.Section = io.NewSectionReader(lineFlood{}, 0, e.Section.Size())
	}
	p.Events = slices.Insert(p.Events, 0, e)
	p.ContentLength = -1
}

// lineFlood is a data line that does not end.
type lineFlood struct{}

func (lineFlood) ReadAt(p []byte, off int64) (int, error) {
	const open = "data: "
	n := 0
	if off < int64(len(open)) {
		n = copy(p, open[off:])
	}
	repeated("x").ReadAt(p[n:], off+int64(n))
	return len(p), nil
}

// compress encodes the body so that each event can be decoded as soon as it is there. An answer that is cut has no end of
// the encoding either.
func compress(p *Plan) error {
	if size(p.Events) > maxJSONBody {
		return fmt.Errorf("gzip: the body is over %d bytes", maxJSONBody)
	}
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	for i := range p.Events {
		e := &p.Events[i]
		data, err := e.bytes()
		if err != nil {
			return err
		}
		w.Write(data)
		if i == len(p.Events)-1 && p.End == EndClean {
			w.Close()
		} else {
			w.Flush()
		}
		e.Data, e.Section = bytes.Clone(b.Bytes()), nil
		b.Reset()
	}
	switch {
	case p.ContentLength >= 0 && p.End == EndClean:
		p.ContentLength = size(p.Events)
	case p.ContentLength >= 0:
		p.ContentLength = -1 // the size of what will never come is not known
	}
	return nil
}

// raw returns the plan's Raw and makes it one that is written past net/http.
func (p *Plan) raw() *Raw {
	if p.Raw == nil {
		p.Raw = &Raw{}
	}
	return p.Raw
}

// connection edits how the body's end is told, and what becomes of the connection.
func (f *Fault) connection(p *Plan) {
	if f.Truncate != nil {
		p.keep(*f.Truncate)
		if p.ContentLength >= 0 {
			p.ContentLength = size(p.Events)
		}
	}
	switch f.Framing {
	case "chunked":
		p.ContentLength = -1
	case "length":
		p.ContentLength = max(p.ContentLength, size(p.Events))
	case "close":
		p.raw().Framing, p.ContentLength = FramingClose, -1
	case "http10":
		p.raw().Framing, p.ContentLength = FramingHTTP10, -1
	}
	if f.LengthOff != 0 {
		p.raw()
		p.ContentLength = max(0, max(p.ContentLength, size(p.Events))+f.LengthOff)
	}
	if f.BadHTTP != "" {
		p.raw().Bad = badNames[f.BadHTTP]
		if f.BadHTTP == "chunk-size" || f.BadHTTP == "chunk-end" {
			p.ContentLength = -1
		}
	}
	if f.CutByte != nil {
		if missing := p.keep(*f.CutByte); missing > 0 && p.ContentLength < 0 {
			p.raw().Missing = missing
		}
		p.End = f.cutEnd()
	}
	if f.IdleClose != nil {
		p.IdleClose = f.IdleClose
	}
}

// keep leaves n bytes of the body and returns how many are missing to the end of the event that was cut.
func (p *Plan) keep(n int64) (missing int64) {
	for i := range p.Events {
		e := p.Events[i]
		if n < e.Size() {
			if n == 0 {
				p.Events = p.Events[:i]
				return 0
			}
			p.Events[i] = e.part(0, n)
			p.Events[i].Mark = MarkTruncated
			p.Events = p.Events[:i+1]
			return e.Size() - n
		}
		n -= e.Size()
	}
	return 0
}
