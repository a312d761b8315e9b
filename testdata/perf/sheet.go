package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// A group is rows that are measured together: in each round all its contestants, one after the other, so that the
// machine's moods meet all alike.
type group struct {
	name string
	rows []row
	// open starts what the rounds need.
	open func(m *machine) (*session, error)
}

type session struct {
	round func(s *sheet, n int) error
	close func()
}

// A sheet is what was measured.
type sheet struct {
	values map[string][]float64 // of each row, one for each round
	absent map[string]string    // why a row has none
	lines  []string             // in the benchmark format
}

func newSheet() *sheet {
	return &sheet{values: map[string][]float64{}, absent: map[string]string{}}
}

// add notes a round's figure of a row.
func (s *sheet) add(id string, v float64) { s.values[id] = append(s.values[id], v) }

// lack notes why a row has no figure.
func (s *sheet) lack(id, why string) { s.absent[id] = why }

// lackTool notes that a row's peer is not installed.
func (s *sheet) lackTool(id, tool string) { s.lack(id, tool+" is not installed: make perf-tools") }

// bench notes figures in the benchmark format: pairs of a value and its unit.
func (s *sheet) bench(name string, pairs ...any) {
	var b strings.Builder
	fmt.Fprintf(&b, "Benchmark%s 1", name)
	for i := 0; i+1 < len(pairs); i += 2 {
		var v float64
		switch n := pairs[i].(type) {
		case float64:
			v = n
		case int64:
			v = float64(n)
		}
		fmt.Fprintf(&b, "\t%s %s", strconv.FormatFloat(v, 'g', 6, 64), pairs[i+1])
	}
	s.lines = append(s.lines, b.String())
}

// failed reports whether a row with a limit misses its must, and whether one could not be told.
func (s *sheet) failed(groups []group) (miss, lack bool) {
	for _, g := range groups {
		for _, r := range g.rows {
			switch s.verdict(r) {
			case missed:
				miss = true
			case notMeasured:
				lack = true
			}
		}
	}
	return miss, lack
}

func (s *sheet) verdict(r row) string {
	values := s.values[r.id]
	if len(values) == 0 || s.absent[r.id] != "" {
		return notMeasured
	}
	return r.verdict(spreadOf(values).median)
}

// table writes the rows in Markdown.
func (s *sheet) table(groups []group) string {
	var b strings.Builder
	b.WriteString("| what | must | aim | measured, median [range] | |\n|---|---|---|---|---|\n")
	for _, g := range groups {
		for _, r := range g.rows {
			measured := s.absent[r.id]
			if values := s.values[r.id]; len(values) > 0 && measured == "" {
				measured = r.showSpread(spreadOf(values))
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", r.what, r.limit(r.must), r.limit(r.aim), measured, s.verdict(r))
		}
	}
	return b.String()
}

// rotated begins the list with another one in each round.
func rotated[T any](list []T, round int) []T {
	n := round % len(list)
	return append(append([]T{}, list[n:]...), list[:n]...)
}

const (
	micro = 1e3 // nanoseconds
	milli = 1e6
	kib   = 1 << 10
)

// hundredths cuts off what is below the precision of a count.
func hundredths(v float64) float64 { return math.Round(v*100) / 100 }
