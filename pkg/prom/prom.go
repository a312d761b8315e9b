// Package prom reads Prometheus' text format, version 0.0.4: the answer of a
// server's /metrics. It knows as much of it as comparing two such answers needs,
// which is what each series' value is, and it brings no library along.
//
//	before, err := prom.Parse(body)
//	// … load …
//	after, err := prom.Parse(body)
//	tokens, ok := prom.Increase(before, after, "vllm:prompt_tokens_total")
//
// The format: https://prometheus.io/docs/instrumenting/exposition_formats/
package prom

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// A Sample is one series at one time.
type Sample struct {
	Name   string
	Labels string // as they stand between the braces: the same in every answer of one server
	Value  float64
}

// Metrics are the samples of one answer, in its order.
type Metrics []Sample

// Parse reads an answer. It is strict: an error names the first line that is not
// of the format, and nothing is returned beside it, since half of an answer
// would look like a server that lacks the other half. Timestamps, types and help
// texts are read over.
func Parse(text []byte) (Metrics, error) {
	var m Metrics
	type series struct{ name, labels string }
	seen := map[series]bool{}
	n := 0
	for line := range bytes.Lines(text) {
		n++
		s := strings.Trim(string(line), " \t\r\n")
		if s == "" || s[0] == '#' {
			continue
		}
		sample, err := parseSample(s)
		if err == nil {
			id := series{sample.Name, sample.Labels}
			if seen[id] {
				err = errors.New("the series is there twice")
			}
			seen[id] = true
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		m = append(m, sample)
	}
	return m, nil
}

func parseSample(s string) (Sample, error) {
	end := 0
	for end < len(s) && isNameByte(s[end], end == 0, true) {
		end++
	}
	if end == 0 {
		return Sample{}, errors.New("no metric's name at its beginning")
	}
	sample := Sample{Name: s[:end]}
	rest := strings.TrimLeft(s[end:], " \t")
	if strings.HasPrefix(rest, "{") {
		n, err := labels(rest[1:])
		if err != nil {
			return Sample{}, err
		}
		sample.Labels, rest = rest[1:1+n], rest[n+2:]
	} else if len(rest) == len(s[end:]) {
		return Sample{}, errors.New("no value behind the metric's name")
	}
	fields := strings.Fields(rest)
	if len(fields) != 1 && len(fields) != 2 {
		return Sample{}, errors.New("want a value, and perhaps a timestamp, behind the metric's name")
	}
	var err error
	if sample.Value, err = strconv.ParseFloat(fields[0], 64); err != nil {
		return Sample{}, errors.New("the value is no number")
	}
	if len(fields) == 2 {
		if _, err := strconv.ParseInt(fields[1], 10, 64); err != nil {
			return Sample{}, errors.New("the timestamp is no whole number")
		}
	}
	return sample, nil
}

// labels returns the length of the labels in front of the closing brace.
func labels(s string) (int, error) {
	i := 0
	skip := func() {
		for i < len(s) && (s[i] == ' ' || s[i] == '\t') {
			i++
		}
	}
	for {
		skip()
		if i < len(s) && s[i] == '}' {
			return i, nil
		}
		from := i
		for i < len(s) && isNameByte(s[i], i == from, false) {
			i++
		}
		if i == from {
			return 0, errors.New("no label's name where one should be")
		}
		skip()
		if !strings.HasPrefix(s[i:], "=") {
			return 0, errors.New("no = behind a label's name")
		}
		i++
		skip()
		if !strings.HasPrefix(s[i:], `"`) {
			return 0, errors.New("a label's value is not in quotes")
		}
		for i++; i < len(s) && s[i] != '"'; i++ {
			if s[i] == '\\' {
				i++
			}
		}
		if i >= len(s) {
			return 0, errors.New("a label's value has no closing quote")
		}
		i++
		skip()
		switch {
		case i < len(s) && s[i] == ',':
			i++
		case i < len(s) && s[i] == '}':
		default:
			return 0, errors.New("no comma or closing brace behind a label")
		}
	}
}

func isNameByte(c byte, first, colon bool) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_' || colon && c == ':' || !first && '0' <= c && c <= '9'
}

// Has reports whether there is a series of the name.
func (m Metrics) Has(name string) bool {
	for _, s := range m {
		if s.Name == name {
			return true
		}
	}
	return false
}

// Sum adds up the series of a name: a server of several engines has one for
// each. ok is false when there is none, or one that is not finite.
func (m Metrics) Sum(name string) (sum float64, ok bool) {
	for _, s := range m {
		if s.Name == name {
			sum, ok = sum+s.Value, true
		}
	}
	return sum, ok && !math.IsInf(sum, 0) && !math.IsNaN(sum)
}

// Max is the largest value of the series of a name; ok is as for Sum.
func (m Metrics) Max(name string) (largest float64, ok bool) {
	for _, s := range m {
		if s.Name != name {
			continue
		}
		if math.IsInf(s.Value, 0) || math.IsNaN(s.Value) {
			return 0, false
		}
		if !ok || s.Value > largest {
			largest, ok = s.Value, true
		}
	}
	return largest, ok
}

// Increase is by how much the counters of a name have grown together. One that
// was not there before began at 0, as a label's counter does when the label is
// seen for the first time. ok is false when there is none in after, or a sum is
// not finite.
func Increase(before, after Metrics, name string) (v float64, ok bool) {
	sum, ok := after.Sum(name)
	if !ok {
		return 0, false
	}
	if !before.Has(name) {
		return sum, true
	}
	was, ok := before.Sum(name)
	return sum - was, ok
}

// Restarted reports whether a counter of the name has fallen or gone, which it
// does only when its process is another one.
func Restarted(before, after Metrics, name string) bool {
	now := map[string]float64{}
	for _, s := range after {
		if s.Name == name {
			now[s.Labels] = s.Value
		}
	}
	for _, s := range before {
		if s.Name != name {
			continue
		}
		if v, ok := now[s.Labels]; !ok || v < s.Value {
			return true
		}
	}
	return false
}
