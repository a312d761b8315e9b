package fakeserver

import (
	"math/rand/v2"
	"strconv"
	"time"
)

// chunkFormat is how one API writes the chunks of a stream. All parts are JSON fragments.
type chunkFormat struct {
	head     string // up to the list of choices, from "data: "
	role     string // after a choice's index in the chunk that comes before token 0; "" = no such chunk
	roleEnd  string // after the list of choices in that chunk
	open     string // after a choice's index, up to the text of a token
	running  string // after the text while more follows
	finished string // after the text of the last token; the finish reason stands between these two
	closing  string
}

const doneEvent = "data: [DONE]\n\n"

// firstChoice is what follows the bracket of the list of choices, up to the number of the choice.
const firstChoice = `{"index":`

// tokenStream is the events of a stream, made one by one as they are written: held as a whole they would be most of the
// memory of a server with many slow streams.
type tokenStream struct {
	c *call
	g *generation
	f *chunkFormat
}

// stream plans an event stream.
func (c *call) stream(g *generation, f *chunkFormat) *Plan {
	p := newPlan(200, "text/event-stream; charset=utf-8")
	p.HeadersAt, p.Choices = c.cfg.Headers, g.choices
	p.InputTokens, p.OutputTokens, p.ImageTokens = g.usage.prompt, g.usage.output, g.usage.image
	p.finish, p.cached = g.finish, g.usage.cached
	p.stream = &tokenStream{c, g, f}
	return p
}

// spell puts the events of a stream that is not spelled out yet into the plan, for those who look at them or change them.
func (p *Plan) spell() *Plan {
	if s := p.stream; s != nil {
		p.stream = nil
		p.Events = make([]Event, 0, s.count())
		text := make([]byte, 0, s.size())
		for e := range s.events {
			from := len(text)
			text = append(text, e.Data...)
			e.Data = text[from:len(text):len(text)]
			p.Events = append(p.Events, *e)
		}
	}
	return p
}

// each yields the events of the plan. An event and its data are valid until the next.
func (p *Plan) each(yield func(*Event) bool) {
	if p.stream != nil {
		p.stream.events(yield)
		return
	}
	for i := range p.Events {
		if !yield(&p.Events[i]) {
			return
		}
	}
}

// count returns the number of events.
func (p *Plan) count() int {
	if p.stream != nil {
		return p.stream.count()
	}
	return len(p.Events)
}

func (s *tokenStream) count() int {
	n := s.g.choices*s.g.tokens + 1
	if s.f.role != "" {
		n += s.g.choices
	}
	if s.ownUsage() {
		n++
	}
	return n
}

// ownUsage reports whether the usage has a chunk of its own.
func (s *tokenStream) ownUsage() bool { return s.g.include && s.c.cfg.Usage == UsageOwnChunk }

// last returns when the last event is due.
func (s *tokenStream) last() time.Duration { return s.c.tokenAt(s.g.tokens - 1) }

// size estimates the bytes of a stream from above, so that a buffer for them never grows.
func (s *tokenStream) size() int {
	const slack = 40 // an index, a reason, the end of the event
	f := s.f
	event := len(f.head) + len(f.open) + pieceBytes + max(len(f.running), len(f.finished)+len(f.closing)) + slack
	if s.g.continuous {
		event += 120
	}
	role := len(f.head) + len(f.role) + len(f.roleEnd) + slack + 120
	return s.g.choices*(s.g.tokens*event+role) + len(f.head) + 400
}

// events yields the events. All have the same buffer.
func (s *tokenStream) events(yield func(*Event) bool) {
	c, g, f := s.c, s.g, s.f
	var (
		e   Event
		buf []byte
	)
	event := func(kind Kind, at time.Duration) bool {
		e = Event{At: at, Data: buf, Kind: kind}
		return yield(&e)
	}
	words := make([]rand.PCG, g.choices)
	for i := range words {
		words[i] = *c.words(i)
		if f.role != "" {
			buf = append(buf[:0], f.head...)
			buf = strconv.AppendInt(buf, int64(i), 10)
			buf = append(buf, f.role...)
			buf = append(buf, f.roleEnd...)
			if buf = s.end(buf, i, 0); !event(KindRole, c.tokenAt(0)) {
				return
			}
		}
	}
	for k := range g.tokens {
		for i := range g.choices {
			buf = append(buf[:0], f.head...)
			buf = strconv.AppendInt(buf, int64(i), 10)
			buf = append(buf, f.open...)
			buf = appendWords(buf, &words[i], 1)
			if k < g.tokens-1 {
				buf = append(buf, f.running...)
			} else {
				buf = append(buf, f.finished...)
				buf = append(buf, g.finish...)
				buf = append(buf, f.closing...)
			}
			if buf = s.end(buf, i, k+1); !event(KindToken, c.tokenAt(k)) {
				return
			}
		}
	}
	if s.ownUsage() {
		buf = append(buf[:0], f.head[:len(f.head)-len(firstChoice)]...)
		buf = append(buf, "],"...)
		buf = c.appendUsage(buf, g.usage, "")
		buf = append(buf, "}\n\n"...)
		if !event(KindUsage, s.last()) {
			return
		}
	}
	buf = append(buf[:0], doneEvent...)
	event(KindDone, s.last())
}

// end finishes the chunk of a choice that has said n tokens so far, with running usage if asked for; usage inside the
// last chunk with choices goes here too.
func (s *tokenStream) end(b []byte, choice, n int) []byte {
	c, g := s.c, s.g
	switch {
	case g.include && c.cfg.Usage == UsageWithChoices && choice == g.choices-1 && n == g.tokens:
		b = append(b, ',')
		b = c.appendUsage(b, g.usage, "")
	case g.continuous:
		// As vLLM: the figures of this choice and its prompt alone.
		b = append(b, ',')
		b = c.appendUsage(b, usage{prompt: g.prompts[choice/g.n], output: n}, "")
	}
	return append(b, "}\n\n"...)
}
