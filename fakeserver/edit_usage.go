package fakeserver

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
)

// usage edits where a stream tells its usage.
func (f *Fault) usage(p *Plan) {
	if p.Choices > 0 {
		f.placeUsage(p)
		f.shapeUsage(p)
	}
	if f.UsageDelay > 0 {
		if at := slices.IndexFunc(p.Events, func(e Event) bool { return e.Kind == KindUsage }); at >= 0 {
			delay(p, at, f.UsageDelay)
		}
	}
}

func (f *Fault) placeUsage(p *Plan) {
	if f.Usage == "" {
		if f.Empty {
			for i := range p.Events {
				if bytes.Contains(p.Events[i].Data, []byte(usageMember)) {
					p.Events[i].Data = setUsage(p.Events[i].Data, usageOf(p.InputTokens, 0))
				}
			}
		}
		return
	}
	full := usageOf(p.InputTokens, p.OutputTokens)
	var template []byte
	last := -1
	said := make([]int, max(p.Choices, 1))
	n := 0
	kept := p.Events[:0:0]
	for _, e := range p.Events {
		if e.Kind == KindUsage {
			if b := usageBytes(e.Data); b != nil && !f.Empty {
				full = string(b) // with its details
			}
			continue
		}
		if e.Kind == KindRole || e.Kind == KindToken || e.Kind == KindFinish {
			e.Data = withoutUsage(e.Data)
			template, last = e.Data, len(kept)
			if e.Kind == KindToken {
				said[n%len(said)] += tokensIn(e.Data)
				n++
			}
			switch f.Usage {
			case "running":
				of := 0
				if from, to, ok := between(e.Data, firstChoice, ","); ok {
					of, _ = strconv.Atoi(string(e.Data[from:to]))
				}
				e.Data = setUsage(e.Data, usageOf(p.InputTokens, said[min(of, len(said)-1)]))
			case "zeros":
				e.Data = setUsage(e.Data, usageOf(0, 0))
			case "nulls":
				e.Data = setUsage(e.Data, "null")
			}
		}
		kept = append(kept, e)
	}
	p.Events = kept
	if last < 0 {
		return
	}
	switch f.Usage {
	case "with-choices":
		p.Events[last].Data = setUsage(p.Events[last].Data, full)
	case "own-chunk", "running", "zeros", "nulls":
		at := bytes.Index(template, []byte(`"choices":[`))
		own := string(template[:at]) + `"choices":[],"usage":` + full + eventEnd
		p.Events = slices.Insert(p.Events, last+1, Event{At: p.Events[last].At, Data: []byte(own), Kind: KindUsage})
	}
}

// usageOf is a usage object as the planner writes it.
func usageOf(prompt, output int) string {
	return fmt.Sprintf(`{"prompt_tokens":%d,"total_tokens":%d,"completion_tokens":%d}`, prompt, prompt+output, output)
}

// usageRange finds the usage object; braces in it are only those of its details.
func usageRange(data []byte) (from, to int, ok bool) {
	from = bytes.LastIndex(data, []byte(usageMember))
	if from < 0 {
		return 0, 0, false
	}
	from += len(usageMember) - 1
	depth := 0
	for to = from; to < len(data); to++ {
		switch data[to] {
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return from, to + 1, true
			}
		}
	}
	return 0, 0, false
}

func usageBytes(data []byte) []byte {
	from, to, ok := usageRange(data)
	if !ok {
		return nil
	}
	return data[from:to]
}

// withoutUsage takes the member and one comma beside it away.
func withoutUsage(data []byte) []byte {
	from, to, ok := usageRange(data)
	if !ok {
		return data
	}
	from -= len(usageMember) - 1
	if from > 0 && data[from-1] == ',' {
		from--
	} else if to < len(data) && data[to] == ',' {
		to++
	}
	return []byte(string(data[:from]) + string(data[to:]))
}

// setUsage replaces the usage of a chunk or adds it at its end.
func setUsage(data []byte, usage string) []byte {
	if from, to, ok := usageRange(data); ok {
		return []byte(string(data[:from]) + usage + string(data[to:]))
	}
	body, ok := bytes.CutSuffix(data, []byte(eventEnd))
	if !ok {
		return data
	}
	return []byte(string(body) + `,"usage":` + usage + eventEnd)
}

// shapeUsage gives each usage other members.
func (f *Fault) shapeUsage(p *Plan) {
	if f.UsageShape == "" {
		return
	}
	for i := range p.Events {
		from, to, ok := usageRange(p.Events[i].Data)
		if !ok {
			continue
		}
		data := p.Events[i].Data
		shape := "{"
		if f.UsageShape == "prompt-zero" {
			shape = `{"prompt_tokens":0,`
		}
		a, b, _ := between(data[from:to], `"total_tokens":`, ",")
		if b < a {
			b = to - from - 1 // it is the last member
		}
		shape += `"total_tokens":` + string(data[from:to][a:b]) + "}"
		p.Events[i].Data = []byte(string(data[:from]) + shape + string(data[to:]))
	}
}

// plainUsage edits the usage of a JSON body.
func (f *Fault) plainUsage(p *Plan) {
	if f.Usage != "off" && f.UsageShape == "" {
		return
	}
	body := text(p)
	if usageBytes(body) == nil {
		return
	}
	if f.Usage == "off" {
		setText(p, withoutUsage(body))
		return
	}
	whole := &Plan{Events: []Event{{Data: body}}}
	f.shapeUsage(whole)
	setText(p, whole.Events[0].Data)
}
