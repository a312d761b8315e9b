package fakeserver

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// What the planner writes, as far as faults look for it. The bytes are this package's own, and a name of a model cannot
// imitate them: its quotes are escaped.
const (
	chatText       = `"delta":{"content":"`
	completionText = `,"text":"`
	emptyRole      = `"delta":{"role":"assistant","content":""}`
	finishMember   = `"finish_reason":"`
	noFinish       = `"finish_reason":null`
	usageMember    = `"usage":{`
	eventEnd       = "}\n\n"
)

// ofKind returns the numbers of the events of a kind, from 0.
func ofKind(p *Plan, kind Kind) (at []int) {
	for i, e := range p.Events {
		if e.Kind == kind {
			at = append(at, i)
		}
	}
	return at
}

// roles edits the role chunks of a chat.
func (f *Fault) roles(p *Plan) {
	roles := ofKind(p, KindRole)
	if len(roles) == 0 {
		return
	}
	if f.RoleAt != nil {
		first := p.Events[roles[len(roles)-1]].At // as the first token's
		for _, i := range roles {
			p.Events[i].At = min(first, max(p.HeadersAt, *f.RoleAt))
		}
	}
	switch f.Role {
	case "null-content":
		for _, i := range roles {
			p.Events[i].Data = replaced(p.Events[i].Data, emptyRole, `"delta":{"role":"assistant","content":null}`)
		}
	case "every":
		for _, i := range ofKind(p, KindToken) {
			p.Events[i].Data = replaced(p.Events[i].Data, `"delta":{`, `"delta":{"role":"assistant",`)
		}
	case "off":
		p.Events = slices.DeleteFunc(p.Events, func(e Event) bool { return e.Kind == KindRole })
	}
}

// tokens edits the events with output: how many tokens they hold, and whether these are text, reasoning or a tool call.
func (f *Fault) tokens(p *Plan) {
	if p.Choices == 0 {
		return
	}
	each := len(ofKind(p, KindToken)) / p.Choices
	if f.Reasoning > 0 {
		key := f.ReasoningKey
		if key == "" {
			key = "reasoning_content"
		}
		for n, i := range ofKind(p, KindToken) {
			if n/p.Choices < f.Reasoning {
				p.Events[i].Data = replaced(p.Events[i].Data, `"content":"`, `"`+key+`":"`)
			}
		}
	}
	if f.TokensPerEvent > 1 {
		f.group(p, each)
	}
	if f.ToolCalls {
		tokens := ofKind(p, KindToken)
		for n, i := range tokens {
			p.Events[i].Data = toolCall(p.Events[i].Data, n%p.Choices, n < p.Choices, n >= len(tokens)-p.Choices)
		}
	}
	if f.Empty {
		if tokens := ofKind(p, KindToken); f.Finish != "" && len(tokens) >= p.Choices {
			// The last ones stay for finish, which takes their text away.
			keep := tokens[len(tokens)-p.Choices:]
			for _, i := range keep {
				p.Events[i].Kind = KindFinish
			}
		}
		p.Events = slices.DeleteFunc(p.Events, func(e Event) bool { return e.Kind == KindToken })
		p.OutputTokens = 0
	}
}

// group joins the texts of so many tokens of a choice in the event of the last of them. Reasoning and text do not share
// an event.
func (f *Fault) group(p *Plan, each int) {
	tokens := ofKind(p, KindToken)
	texts := make([]string, p.Choices)
	drop := map[int]bool{}
	for n, i := range tokens {
		choice, k := n%p.Choices, n/p.Choices
		from, to, ok := outputText(p.Events[i].Data)
		if !ok {
			continue
		}
		texts[choice] += string(p.Events[i].Data[from:to])
		switch next := k + 1; {
		case next%f.TokensPerEvent != 0 && next != each && next != f.Reasoning:
			drop[i] = true
		default:
			data := p.Events[i].Data
			p.Events[i].Data = []byte(string(data[:from]) + texts[choice] + string(data[to:]))
			texts[choice] = ""
		}
	}
	kept := p.Events[:0:0]
	for i, e := range p.Events {
		if !drop[i] {
			kept = append(kept, e)
		}
	}
	p.Events = kept
}

// outputText finds the text of an event with output. Pieces need no escaping in JSON, so it ends at the next quote.
func outputText(data []byte) (from, to int, ok bool) {
	for _, open := range []string{chatText, completionText, `"reasoning_content":"`, `"reasoning":"`, `"delta":{"role":"assistant","content":"`} {
		if from, to, ok = between(data, open, `"`); ok {
			return from, to, true
		}
	}
	return 0, 0, false
}

// tokensIn counts the tokens that an event says: each piece begins with its only space.
func tokensIn(data []byte) int {
	from, to, ok := outputText(data)
	if !ok {
		from, to, _ = between(data, `"arguments":"`, `"}}]`)
	}
	return bytes.Count(data[from:max(from, to)], []byte(" "))
}

// toolCall turns the text of an event into a part of the arguments of a call: {"text":"…"} over all of them.
func toolCall(data []byte, choice int, first, last bool) []byte {
	at := bytes.Index(data, []byte(`"content":"`))
	from, to, ok := outputText(data)
	if at < 0 || !ok {
		return data
	}
	var b []byte
	b = append(b, data[:at]...)
	b = append(b, `"tool_calls":[{"index":0,`...)
	if first {
		b = fmt.Appendf(b, `"id":"call_%d","type":"function",`, choice)
	}
	b = append(b, `"function":{`...)
	if first {
		b = append(b, `"name":"say","arguments":"{\"text\":\"`...)
	} else {
		b = append(b, `"arguments":"`...)
	}
	b = append(b, data[from:to]...)
	if last {
		b = append(b, `\"}`...)
	}
	b = append(b, `"}}]`...)
	return setFinish(append(b, data[to+1:]...), "tool_calls")
}

func setFinish(data []byte, reason string) []byte {
	from, to, ok := between(data, finishMember, `"`)
	if !ok {
		return data
	}
	return []byte(string(data[:from]) + reason + string(data[to:]))
}

// finish moves the finish reason out of the events of the last tokens.
func (f *Fault) finish(p *Plan) {
	if f.Finish == "" || p.Choices == 0 {
		return
	}
	var out, ends []Event
	flush := func() {
		out = append(out, ends...)
		ends = nil
	}
	for _, e := range p.Events {
		from, to, ok := between(e.Data, finishMember, `"`)
		if !ok || e.Kind != KindToken && e.Kind != KindFinish {
			flush()
			out = append(out, e)
			continue
		}
		reason := string(e.Data[from:to])
		open := replaced(e.Data, finishMember+reason+`"`, noFinish)
		if e.Kind == KindToken {
			said := e
			said.Data = open
			out = append(out, said)
		}
		if f.Finish == "off" {
			continue
		}
		e.Kind, e.Data = KindFinish, f.withoutText(e.Data)
		ends = append(ends, e)
		if n := len(out); n > 0 && out[n-1].Kind == KindToken && !running(p) {
			out[n-1].Data = withoutUsage(out[n-1].Data) // it goes with the reason
		}
	}
	flush()
	p.Events = out
}

// running reports whether events carry usage before the last ones do.
func running(p *Plan) bool {
	n := 0
	for _, e := range p.Events {
		if (e.Kind == KindRole || e.Kind == KindToken) && bytes.Contains(e.Data, []byte(usageMember)) {
			n++
		}
	}
	return n > 1
}

// withoutText empties the delta, or the text for finish=empty and for completions, which have no delta.
func (f *Fault) withoutText(data []byte) []byte {
	if at := bytes.Index(data, []byte(`"delta":{`)); at >= 0 {
		end := bytes.Index(data[at:], []byte(`},"logprobs"`))
		if end < 0 {
			return data
		}
		delta := ""
		if f.Finish == "empty" {
			delta = `"content":""`
		}
		return []byte(string(data[:at]) + `"delta":{` + delta + string(data[at+end:]))
	}
	if from, to, ok := outputText(data); ok {
		return []byte(string(data[:from]) + string(data[to:]))
	}
	return data
}

// done edits the [DONE].
func (f *Fault) done(p *Plan) {
	at := slices.IndexFunc(p.Events, func(e Event) bool { return e.Kind == KindDone })
	if at < 0 {
		return
	}
	if f.DoneDelay > 0 {
		delay(p, at, f.DoneDelay)
	}
	switch f.Done {
	case "off":
		p.Events = slices.Delete(p.Events, at, at+1)
	case "twice":
		again := p.Events[at]
		again.Mark = MarkRepeated
		p.Events = slices.Insert(p.Events, at+1, again)
	}
}

// message edits the text of a plain chat.
func (f *Fault) message(p *Plan) {
	if p.Choices == 0 || f.Reasoning == 0 && !f.ToolCalls {
		return
	}
	const open = `"message":{"role":"assistant","content":"`
	var out []byte
	rest := text(p)
	for choice := 0; ; choice++ {
		from, to, ok := between(rest, open, `"`)
		if !ok {
			break
		}
		said := string(rest[from:to])
		out = append(out, rest[:from-1]...)
		rest = rest[to+1:]
		if f.ToolCalls {
			out = append(out, "null"...)
			call := fmt.Sprintf(`"tool_calls":[{"id":"call_%d","type":"function","function":{"name":"say","arguments":"{\"text\":\"%s\"}"}}]`, choice, said)
			rest = setFinish(replaced(rest, `"tool_calls":[]`, call), "tool_calls")
			continue
		}
		words := strings.SplitAfterN(said, " ", f.Reasoning+2) // each piece begins with a space
		thought, text := said, ""
		if len(words) == f.Reasoning+2 {
			text = " " + words[f.Reasoning+1]
			thought = said[:len(said)-len(text)]
		}
		key := f.ReasoningKey
		if key == "" {
			key = "reasoning_content"
		}
		out = append(out, `"`+text+`"`...)
		rest = replaced(rest, `"reasoning":null`, `"`+key+`":"`+thought+`"`)
	}
	setText(p, append(out, rest...))
}
