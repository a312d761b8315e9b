package gate

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode"

	"golang.org/x/perf/benchunit"
)

// Heading names the cells of a row.
var Heading = []string{"benchmark", "unit", "base", "head", "delta", "interval", "p", "n", "sees", "verdict"}

// Folded reports whether a row is only counted where space is short: it is ok, or
// not gated and without a visible difference.
func (row Row) Folded() bool { return row.Verdict == OK || row.Verdict == Shown && !row.differs() }

// WriteText writes the report as a table, in the manner of benchstat's: medians
// with the half width of their 95 % intervals, the shift with its own interval,
// benchstat's p-value, the number of samples, and the smallest change for the
// worse that the noise would have let us see. Folded rows are only counted.
func (r *Report) WriteText(w io.Writer) error { return r.writeText(w, false) }

// Explain is WriteText without folding, and with the rule that decided each row.
func (r *Report) Explain(w io.Writer) error { return r.writeText(w, true) }

func (r *Report) writeText(w io.Writer, explain bool) error {
	var b strings.Builder
	tw := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	heading := Heading
	if explain {
		heading = append(slices.Clone(heading), "rule")
	}
	fmt.Fprintln(tw, strings.Join(heading, "\t"))
	ok, plain, listed := 0, 0, 0
	for _, row := range r.Rows {
		if !explain && row.Folded() {
			if row.Verdict == OK {
				ok++
			} else {
				plain++
			}
			continue
		}
		listed++
		cells := r.Cells(row)
		if explain {
			cells = append(cells, row.explanation())
		}
		fmt.Fprintln(tw, strings.Join(cells, "\t"))
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
		fmt.Fprintf(&out, "note: %s\n", Printable(n))
	}
	fmt.Fprintf(&out, "result: %s\n", r.Summary())
	_, err := io.WriteString(w, out.String())
	return err
}

// Summary counts the rows by verdict, worst first, on one line.
func (r *Report) Summary() string {
	if r.Identical {
		return "identical"
	}
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

// Cells are what a table shows of a row, one for each of Heading, without control
// characters.
func (r *Report) Cells(row Row) []string {
	name := row.Name
	if row.Config != "" {
		name += " (" + row.Config + ")"
	}
	cells := []string{name, row.Unit, row.value(row.Base), row.value(row.Head), row.delta(), row.interval(), "", "", row.sees(), row.Verdict.String()}
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
		cells[9] += ": " + row.Reason
	}
	for i, c := range cells {
		cells[i] = Printable(c)
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
	case row.Exact && row.Verdict != Incomparable && row.Base.N > 0 && row.Head.N > 0:
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

func (row Row) sees() string {
	switch s := row.Sees(); {
	case s <= 0, !row.Ratio && row.Base.Center == 0:
		return ""
	case math.IsInf(s, 0):
		return "nothing"
	case row.Better > 0:
		return row.shift(-s)
	default:
		return row.shift(s)
	}
}

// explanation is who decided how the row is judged, and what that was.
func (row Row) explanation() string {
	how := row.Rule
	switch {
	case row.Verdict == Accepted, row.Unit == "":
	case !row.Gated:
		how += ", not gated"
	case row.Exact:
		how += ", no change"
	default:
		how += fmt.Sprintf(", limit %s%%", plain(math.Round(row.Limit*1e6)/1e4))
		if row.Least > 0 {
			how += " and " + plain(row.Least)
		}
		how += map[int]string{-1: ", less is better", +1: ", more is better"}[row.Better]
	}
	return Printable(how)
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

// Printable replaces what could move cells or be a terminal's command: names
// come from files.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsGraphic(r) {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}
