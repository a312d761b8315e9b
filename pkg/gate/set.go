package gate

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"

	"golang.org/x/perf/benchfmt"
	"golang.org/x/perf/benchunit"
)

// definitionKey is the configuration line that tells the version of the metric
// definitions. Results that have it are of this project's own harness.
const definitionKey = "harness-metrics"

// Set is the results of one side: what [Set.Read] has read so far. The zero
// value is empty.
type Set struct {
	reader  benchfmt.Reader
	files   int
	loose   bool // some result stands under no mark of a pair
	configs []config
	pairs   []pair // series refer to them by index + 1
	benches []*bench
	byKey   map[benchKey]*bench
}

// config is the key: value lines that hold for a result.
type config map[string]string

// pair identifies a pair among those of a side: the first file of base belongs
// to the first file of head.
type pair struct {
	file, number int
	order        string
}

func (p pair) String() string {
	if p.file > 1 {
		return fmt.Sprintf("pair %d %s of file %d", p.number, p.order, p.file)
	}
	return fmt.Sprintf("pair %d %s", p.number, p.order)
}

type benchKey struct {
	config int // index into Set.configs
	name   string
}

// bench is all results of one name under one configuration.
type bench struct {
	benchKey
	series []*series
}

// series is the values of one unit of a benchmark, in the order they were read.
type series struct {
	unit   string // as benchunit.Tidy has it, also of values that are 0
	values []float64
	pairs  []int32 // for each value its pair, 0 for none

	// What is no finite number is not among the values.
	nonFinite int
	first     string // says what the first one was, and where
}

// Read adds benchmark text in UTF-8 or UTF-16. The name is for messages.
//
// Text that is no part of the format is skipped. An error, an *[InputError]
// unless r failed, comes from what is damaged, from a failed run, from Unit lines
// that contradict each other, and from text without any result. Values that are
// no finite numbers are no error here: they are kept apart, and their rows
// cannot be compared.
func (s *Set) Read(r io.Reader, name string) error {
	t := newText(r, name)
	s.reader.Reset(t, name)
	s.files++
	var (
		key     []byte // of the configuration that holds
		number  = -1   // its index
		scratch []byte
		pairAt  = 0                // marks before the current line
		current int32              // pair of the current line
		results = 0                //
		orders  = map[int]string{} // of the pairs of this file
	)
	for s.reader.Scan() {
		switch rec := s.reader.Result().(type) {
		case *benchfmt.SyntaxError:
			return &InputError{File: name, Line: rec.Line, Msg: rec.Msg}
		case *benchfmt.UnitMetadata:
			if err := checkMetadata(rec); err != nil {
				return err
			}
		case *benchfmt.Result:
			results++
			_, line := rec.Pos()
			for pairAt < len(t.marks) && t.marks[pairAt].line < line {
				m := t.marks[pairAt]
				if o := orders[m.pair]; o != "" && o != m.order {
					return &InputError{File: name, Line: m.line, Msg: fmt.Sprintf("pair %d is %s here and %s before", m.pair, m.order, o)}
				}
				orders[m.pair] = m.order
				pairAt++
				s.pairs = append(s.pairs, pair{s.files, m.pair, m.order})
				current = int32(len(s.pairs))
			}
			scratch = scratch[:0]
			for _, c := range rec.Config {
				scratch = append(append(append(append(scratch, c.Key...), 0), c.Value...), 0)
			}
			if number < 0 || !bytes.Equal(scratch, key) {
				key = append(key[:0], scratch...)
				number = s.config(rec.Config)
			}
			s.loose = s.loose || current == 0
			s.add(rec, number, current, name, line)
		}
	}
	if err := s.reader.Err(); err != nil {
		if e := (*InputError)(nil); errors.As(err, &e) {
			return e
		}
		return err
	}
	switch {
	case results > 0:
		return nil
	case t.json:
		return &InputError{File: name, Msg: "no benchmark result: this is go test -json, give the text that goes without it"}
	}
	return &InputError{File: name, Msg: "no benchmark result"}
}

// checkMetadata refuses what would silently be no metadata at all.
func checkMetadata(u *benchfmt.UnitMetadata) error {
	file, line := u.Pos()
	switch {
	case u.Key == "better" && u.Value != "higher" && u.Value != "lower":
		return &InputError{file, line, fmt.Sprintf("better=%s: want higher or lower", u.Value)}
	case u.Key == "assume" && u.Value != "exact" && u.Value != "nothing":
		return &InputError{file, line, fmt.Sprintf("assume=%s: want exact or nothing", u.Value)}
	case u.Key == "gate", u.Key == "least":
		gate, least := u.Value, ""
		if u.Key == "least" {
			gate, least = "", u.Value
		}
		if _, err := unitRule(u.Unit, gate, least); err != nil || u.Value == "" {
			return &InputError{file, line, cmp.Or(err, errors.New(u.Key+"= has no value")).Error()}
		}
	}
	return nil
}

// config returns the index of a configuration.
func (s *Set) config(list []benchfmt.Config) int {
	c := make(config, len(list))
	for _, kv := range list {
		c[kv.Key] = string(kv.Value)
	}
	for i, known := range s.configs {
		if maps.Equal(known, c) {
			return i
		}
	}
	s.configs = append(s.configs, c)
	return len(s.configs) - 1
}

func (s *Set) add(res *benchfmt.Result, number int, current int32, file string, line int) {
	b := s.byKey[benchKey{number, string(res.Name)}]
	if b == nil {
		if s.byKey == nil {
			s.byKey = map[benchKey]*bench{}
		}
		b = &bench{benchKey: benchKey{number, string(res.Name)}}
		s.byKey[b.benchKey] = b
		s.benches = append(s.benches, b)
	}
	for i, v := range res.Values {
		unit := v.Unit
		if v.OrigUnit == "" && (v.Value == 0 || math.IsInf(v.Value, 0) || math.IsNaN(v.Value)) {
			// benchfmt does not see that these were given in another unit.
			_, unit = benchunit.Tidy(1, unit)
		}
		b.at(i, unit).add(v, current, file, line)
	}
}

// at returns the series of a unit, which in most lines has the same place.
func (b *bench) at(i int, unit string) *series {
	if i < len(b.series) && b.series[i].unit == unit {
		return b.series[i]
	}
	if s := b.find(unit); s != nil {
		return s
	}
	s := &series{unit: unit}
	b.series = append(b.series, s)
	return s
}

// find returns nil if the benchmark has no such unit.
func (b *bench) find(unit string) *series {
	for _, s := range b.series {
		if s.unit == unit {
			return s
		}
	}
	return nil
}

func (s *series) add(v benchfmt.Value, current int32, file string, line int) {
	if math.IsNaN(v.Value) || math.IsInf(v.Value, 0) {
		if s.nonFinite++; s.nonFinite == 1 {
			unit := v.Unit
			if v.OrigUnit != "" {
				unit = v.OrigUnit
			}
			s.first = fmt.Sprintf("%v %s at %s:%d", v.Value, unit, file, line)
		}
		return
	}
	s.values = append(s.values, v.Value)
	s.pairs = append(s.pairs, current)
}

// meta returns the value of a unit's metadata, or nothing.
func (s *Set) meta(unit, key string) string {
	if u := s.reader.Units().Get(unit, key); u != nil {
		return u.Value
	}
	return ""
}
