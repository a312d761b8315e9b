package report

import (
	"fmt"
	"strings"

	"example.com/tokpace/pkg/gate"
)

// mostAnnotations of each level are shown by GitHub for one step.
const mostAnnotations = 10

// Annotations returns workflow commands of GitHub: lines on a step's standard
// output that become annotations, at the lines of the benchmarks' functions where
// places knows them; nil knows none. Regressions, changes, missing and incomparable
// rows are errors, suspect and noisy ones warnings. Of each level there are at most
// as many as GitHub shows; the last one counts the rest.
func (c *Comparison) Annotations(places *Places) []byte {
	var errs, warnings []gate.Row
	for _, row := range c.Rows {
		switch row.Verdict {
		case gate.Regression, gate.Changed, gate.Missing, gate.Incomparable:
			errs = append(errs, row)
		case gate.Suspect, gate.Noisy:
			warnings = append(warnings, row)
		}
	}
	var b strings.Builder
	for _, l := range []struct {
		name string
		rows []gate.Row
	}{{"error", errs}, {"warning", warnings}} {
		for i, row := range l.rows {
			if rest := len(l.rows) - i; i == mostAnnotations-1 && rest > 1 {
				fmt.Fprintf(&b, "::%s title=benchmarks::%s\n", l.name, data(fmt.Sprintf("%d more rows, see the table: %s", rest, c.Summary())))
				break
			}
			b.WriteString(c.annotation(l.name, row, places))
		}
	}
	if len(errs)+len(warnings) == 0 && c.Code() != gate.CodePass {
		fmt.Fprintf(&b, "::error title=benchmarks::%s\n", data(c.Summary()))
	}
	return []byte(b.String())
}

func (c *Comparison) annotation(level string, row gate.Row, places *Places) string {
	var props []string
	if file, line := places.Find(row.Package, row.Name); file != "" {
		props = append(props, "file="+property(file), fmt.Sprintf("line=%d", line))
	}
	props = append(props, "title="+property(clip(row.Verdict.String()+": "+strings.TrimSpace(row.Name+" "+row.Unit), maxName)))
	cells := c.Cells(row)
	text := cells[len(cells)-1] + ": " + strings.TrimSpace(cells[0]+" "+cells[1])
	if cells[2] != "" || cells[3] != "" {
		text += ": " + cells[2] + " → " + cells[3]
	}
	if cells[4] != "" {
		text += ", " + strings.TrimSpace(cells[4]+" "+cells[5])
	}
	if cells[6] != "" {
		text += ", p=" + cells[6]
	}
	return "::" + level + " " + strings.Join(props, ",") + "::" + data(clip(text, maxCommand)) + "\n"
}

// data and property escape what stands behind the second :: of a workflow
// command, and what stands before it: see escapeData and escapeProperty of
// GitHub's package @actions/core.
func data(s string) string { return dataEscaper.Replace(s) }

func property(s string) string { return propertyEscaper.Replace(s) }

var (
	dataEscaper     = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	propertyEscaper = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)
