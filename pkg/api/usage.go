package api

import (
	"encoding/json"
	"math"
)

// Usage is what the server said about tokens. A stream's usage is the last one
// it reported: a running total, never a sum.
type Usage struct {
	Input, Output        Opt[int64]
	Cached, Image, Audio Opt[int64] // parts of Input
	Reasoning            Opt[int64] // part of Output
}

// An object is a JSON object whose keys count as they are written. Decoding
// into a struct would take "Prompt_Tokens" for "prompt_tokens" and mix the
// fields of keys that come twice; here the last of equal keys counts.
type object map[string]json.RawMessage

// object is the object under key; anything else there is an empty one.
func (o object) object(key string) object {
	var sub object
	if json.Unmarshal(o[key], &sub) != nil {
		return nil
	}
	return sub
}

// count is the whole number, not negative, under key. 12.0 and 1.2e1 are 12;
// what is neither such a number nor absent nor null is an error.
func (o object) count(key string) (Opt[int64], *Failure) {
	raw := o[key]
	if len(raw) == 0 || string(raw) == "null" {
		return Opt[int64]{}, nil
	}
	n, ok := wholeNumber(raw)
	if !ok || n < 0 {
		return Opt[int64]{}, malformed("usage: %s is no count: %s", key, Snippet(raw))
	}
	return Some(n), nil
}

// wholeNumber is the value of a JSON number that is an int64. Numbers written
// with a point or an exponent are taken as far as a float64 is exact.
func wholeNumber(raw []byte) (n int64, ok bool) {
	if json.Unmarshal(raw, &n) == nil {
		return n, true
	}
	const exact = 1 << 53
	var f float64
	if json.Unmarshal(raw, &f) != nil || f != math.Trunc(f) || math.Abs(f) > exact {
		return 0, false
	}
	return int64(f), true
}

// read takes a usage object; absent and null leave u as it is. totalIsInput
// says that the API produces no tokens, so that a total given alone (or beside
// a prompt count of 0, as some rerank servers send it) is the input.
func (u *Usage) read(raw json.RawMessage, totalIsInput bool) *Failure {
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	var o object
	if err := json.Unmarshal(raw, &o); err != nil {
		return malformed("usage is not an object: %s", Snippet(raw))
	}
	var (
		now counts
		in  = o.object("prompt_tokens_details")
		out = o.object("completion_tokens_details")
	)
	for _, c := range []struct {
		from object
		key  string
		to   *Opt[int64]
	}{
		{o, "prompt_tokens", &now.Input},
		{o, "completion_tokens", &now.Output},
		{o, "total_tokens", &now.total},
		{in, "cached_tokens", &now.Cached},
		{in, "image_tokens", &now.Image},
		{in, "audio_tokens", &now.Audio},
		{out, "reasoning_tokens", &now.Reasoning},
	} {
		var f *Failure
		if *c.to, f = c.from.count(c.key); f != nil {
			return f
		}
	}
	u.add(now, totalIsInput)
	return nil
}

// counts are what one usage object said.
type counts struct {
	Usage
	total Opt[int64]
}

// add takes what a usage object said.
func (u *Usage) add(now counts, totalIsInput bool) {
	if totalIsInput && now.total.V > 0 && now.Input.V == 0 && now.Output.V == 0 {
		now.Input = now.total
	}
	if totalIsInput && now.Output.V == 0 {
		now.Output = Opt[int64]{} // no output was asked for, so 0 says nothing
	}
	set(&u.Input, now.Input)
	set(&u.Output, now.Output)
	set(&u.Cached, now.Cached)
	set(&u.Image, now.Image)
	set(&u.Audio, now.Audio)
	set(&u.Reasoning, now.Reasoning)
}

// usage takes a usage object or null, if its counts are plain numbers. All others
// have to be decoded.
func (w *walker) usage(u *counts) bool {
	if w.null() {
		return true
	}
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
		case "prompt_tokens":
			ok = seen.first(1) && w.count(&u.Input)
		case "completion_tokens":
			ok = seen.first(2) && w.count(&u.Output)
		case "total_tokens":
			ok = seen.first(4) && w.count(&u.total)
		case "prompt_tokens_details":
			ok = seen.first(8) && w.usageDetails(&u.Usage, true)
		case "completion_tokens_details":
			ok = seen.first(16) && w.usageDetails(&u.Usage, false)
		default:
			ok = w.value(0)
		}
		if !ok {
			return false
		}
	}
}

// usageDetails takes what is said of the parts of the input or of the output.
func (w *walker) usageDetails(u *Usage, input bool) bool {
	if w.null() {
		return true
	}
	if !w.take('{') {
		return false
	}
	var seen fields
	for first := true; ; first = false {
		key, more, ok := w.key(first)
		if !ok || !more {
			return ok
		}
		switch name := string(key); {
		case input && name == "cached_tokens":
			ok = seen.first(1) && w.count(&u.Cached)
		case input && name == "image_tokens":
			ok = seen.first(2) && w.count(&u.Image)
		case input && name == "audio_tokens":
			ok = seen.first(4) && w.count(&u.Audio)
		case !input && name == "reasoning_tokens":
			ok = seen.first(8) && w.count(&u.Reasoning)
		default:
			ok = w.value(0)
		}
		if !ok {
			return false
		}
	}
}

// count takes a count without sign, point or exponent, or null.
func (w *walker) count(to *Opt[int64]) bool {
	if w.null() {
		return true
	}
	begin := w.i
	if !w.number() || w.i-begin > 18 {
		return false
	}
	*to = Some[int64](0)
	for _, c := range w.b[begin:w.i] {
		if !isDigit(c) {
			return false
		}
		to.V = to.V*10 + int64(c-'0')
	}
	return true
}

// set keeps what is known: a running total does not fall back to 0, so a 0
// after a count is a placeholder.
func set(dst *Opt[int64], v Opt[int64]) {
	if v.Known && (v.V > 0 || !dst.Known) {
		*dst = v
	}
}
