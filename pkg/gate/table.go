package gate

import (
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
	"unicode"

	"golang.org/x/perf/benchunit"
)

// WriteText writes the report as a table, in the manner of benchstat's: medians
// with the half width of their 95 % intervals, then the shift with its own
// interval. Rows that are ok, and those that are not gated and show no
// difference, are only counted.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	tw := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprint(tw, "benchmark\tunit\tbase\thead\tdelta\tinterval\tp\tn\tverdict\n")
	ok, plain, listed := 0, 0, 0
	for _, row := range r.Rows {
		switch {
		case row.Verdict == OK:
			ok++
		case row.Verdict == Shown && !row.differs():
			plain++
		default:
			listed++
			fmt.Fprintln(tw, strings.Join(r.cells(row), "\t"))
		}
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	var out strings.Builder
	if listed > 0 {
		for line := range strings.Lines(b.String()) {
			out.WriteString(strings.TrimRight(line, " \n") + "\n")
		}
		out.WriteByte('\n')
	}
	if ok > 0 {
		fmt.Fprintf(&out, "%s ok: not worse beyond the limit\n", count(ok, "row"))
	}
	if plain > 0 {
		fmt.Fprintf(&out, "%s not gated and without a visible difference\n", count(plain, "row"))
	}
	for _, n := range r.Notes {
		fmt.Fprintf(&out, "note: %s\n", printable(n))
	}
	fmt.Fprintf(&out, "result: %s\n", r.Summary())
	_, err := io.WriteString(w, out.String())
	return err
}

// Summary counts the rows by verdict, worst first, on one line.
func (r *Report) Summary() string {
	var n [OK + 1]int
	for _, row := range r.Rows {
		n[row.Verdict]++
	}
	var parts []string
	for v, n := range n {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %v", n, Verdict(v)))
		}
	}
	if n[Shown]+n[New] == len(r.Rows) {
		parts = append(parts, "nothing to judge")
	}
	return strings.Join(parts, ", ")
}

// differs reports whether the interval leaves out 0.
func (row Row) differs() bool {
	if row.Exact {
		return row.Base.Center != row.Head.Center
	}
	return row.Shift.Level > 0 && (row.Shift.Lo > 0 || row.Shift.Hi < 0)
}

func (r *Report) cells(row Row) []string {
	name := row.Name
	if row.Config != "" {
		name += " (" + row.Config + ")"
	}
	cells := []string{name, row.Unit, row.value(row.Base), row.value(row.Head), row.delta(), row.interval(), "", "", row.Verdict.String()}
	if row.Shift.Level > 0 {
		cells[6] = fmt.Sprintf("%.3f", row.P())
	}
	switch {
	case row.Base.N == 0 && row.Head.N == 0:
	case r.Paired && row.Base.N == row.Head.N:
		cells[7] = count(row.Base.N, "pair")
	default:
		cells[7] = fmt.Sprintf("%d+%d", row.Base.N, row.Head.N)
	}
	if row.Reason != "" {
		cells[8] += ": " + row.Reason
	}
	for i, c := range cells {
		cells[i] = printable(c)
	}
	return cells
}

func (row Row) value(s Summary) string {
	switch {
	case s.N == 0:
		return ""
	case row.Exact:
		return plain(s.Center)
	}
	return benchunit.Scale(s.Center, benchunit.ClassOf(row.Unit)) + " ± " + s.PctRangeString()
}

func (row Row) delta() string {
	switch {
	case row.Exact && row.Verdict != Incomparable:
		if d := row.Head.Center - row.Base.Center; d > 0 {
			return "+" + plain(d)
		} else {
			return plain(d)
		}
	case row.Shift.Level == 0:
		return ""
	}
	return row.shift(row.Shift.Center)
}

func (row Row) interval() string {
	switch {
	case row.Shift.Level == 0:
		return ""
	case math.IsInf(row.Shift.Lo, 0):
		return "none"
	}
	return "[" + row.shift(row.Shift.Lo) + ", " + row.shift(row.Shift.Hi) + "]"
}

// shift is in percent, or in the unit itself where there is no ratio.
func (row Row) shift(x float64) string {
	if row.Ratio {
		return fmt.Sprintf("%+.2f%%", 100*math.Expm1(x))
	}
	return fmt.Sprintf("%+.4g", x)
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// printable replaces what could move cells or be a terminal's command: names
// come from files.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsGraphic(r) {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}
