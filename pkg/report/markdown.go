package report

import (
	"fmt"
	"strings"

	"example.com/tokpace/pkg/gate"
)

// What GitHub takes, in characters and in bytes; here both are bytes.
const (
	MaxComment = 64000   // of a comment, and 1536 for what a workflow adds
	MaxSummary = 1 << 20 // of a step's summary
)

// Marker is the first line of the Markdown, which is not shown: by it a comment
// finds its predecessor.
const Marker = "<!-- tokpace-gate -->"

// Lengths in bytes of what is shown of one thing.
const (
	maxName    = 300
	maxNote    = 500
	maxCommand = 2000
	leastPage  = 16 << 10
)

// Markdown returns the report as Markdown of GitHub's kind: the verdict, the
// table of changed rows, notes, the folded table of the other rows, benchstat's
// table folded too, and the command. It is at most limit bytes long, a limit under
// 16 KiB counting as that; what has no room is left out by whole rows and lines,
// and the last line says how much that was.
func (c *Comparison) Markdown(limit int) []byte {
	p := &page{room: max(limit, leastPage) - cutRoom}
	p.must(Marker + "\n### Benchmarks: " + c.Outcome() + "\n\n" + prose(c.Summary()) + "\n\n")
	if c.Base != "" || c.Head != "" {
		p.must("base: " + code(clip(c.Base, maxName)) + ", head: " + code(clip(c.Head, maxName)) + "\n\n")
	}
	command := ""
	if c.Command != "" {
		if line := clip(c.Command, maxCommand+len("…")); len(line) > maxCommand {
			p.cut = append(p.cut, "the command")
		} else {
			command = "Again, with\n\n" + fenced(line+"\n")
			p.room -= len(command)
		}
	}

	var open, folded []gate.Row
	for _, row := range c.Rows {
		if row.Folded() {
			folded = append(folded, row)
		} else {
			open = append(open, row)
		}
	}
	notes := c.notes(p.room / 4)
	p.room -= len(notes)
	c.table(p, "", open, "", "changed rows")
	p.room += len(notes)
	p.must(notes)
	c.table(p, details(fmt.Sprintf("rows that are ok, or not gated and without a visible difference: %d", len(folded))), folded, endDetails, "other rows")
	c.benchstat(p)
	p.room += len(command)
	p.must(command)
	if len(p.cut) > 0 {
		p.b.WriteString("\nCut, as it was too long: " + strings.Join(p.cut, ", ") + ".\n")
	}
	return []byte(p.b.String())
}

// cutRoom is kept for the line about what was cut.
const cutRoom = 300

// page is Markdown in the making.
type page struct {
	b    strings.Builder
	room int
	cut  []string // what had no room
}

// must writes what there is room for in any case.
func (p *page) must(s string) {
	p.b.WriteString(s)
	p.room -= len(s)
}

const endDetails = "\n</details>\n\n"

func details(title string) string { return "<details><summary>" + title + "</summary>\n\n" }

// most returns how many of the parts fit, given that the frame around them has to
// fit too.
func (p *page) most(frame int, parts []string) int {
	room := p.room - frame
	for i, s := range parts {
		if room -= len(s); room < 0 {
			return i
		}
	}
	return len(parts)
}

// table writes rows between two texts, as many as there is room for.
func (c *Comparison) table(p *page, before string, rows []gate.Row, after, what string) {
	if len(rows) == 0 {
		return
	}
	before += "| " + strings.Join(gate.Heading, " | ") + " |\n" + strings.Repeat("|---", len(gate.Heading)) + "|\n"
	after = "\n" + strings.TrimLeft(after, "\n")
	// Cells of rows that will never be shown cost time: p-values do.
	var parts []string
	room := p.room - len(before) - len(after)
	for _, row := range rows {
		s := c.row(row)
		if room -= len(s); room < 0 {
			break
		}
		parts = append(parts, s)
	}
	if len(parts) < len(rows) {
		p.cut = append(p.cut, fmt.Sprintf("%d of %d %s", len(rows)-len(parts), len(rows), what))
	}
	if len(parts) > 0 {
		p.must(before + strings.Join(parts, "") + after)
	}
}

func (c *Comparison) row(row gate.Row) string {
	cells := c.Cells(row)
	for i, s := range cells {
		s = clip(s, maxName)
		switch {
		case i < 2: // name and unit
			s = cell(code(s))
		case i == len(cells)-1: // verdict and reason
			if verdict, reason, ok := strings.Cut(s, ": "); ok {
				s = "**" + verdict + "**: " + prose(reason)
			} else {
				s = "**" + s + "**"
			}
		default:
			s = cell(s)
		}
		cells[i] = s
	}
	return "| " + strings.Join(cells, " | ") + " |\n"
}

// notes are as many as fit.
func (c *Comparison) notes(room int) string {
	if len(c.Notes) == 0 {
		return ""
	}
	var b strings.Builder
	for i, n := range c.Notes {
		s := "- " + prose(clip(n, maxNote)) + "\n"
		rest := fmt.Sprintf("- and %d more notes\n", len(c.Notes)-i)
		if b.Len()+len(s)+len(rest) > room {
			b.WriteString(rest)
			break
		}
		b.WriteString(s)
	}
	return b.String() + "\n"
}

// benchstat writes its table, as many lines as there is room for.
func (c *Comparison) benchstat(p *page) {
	all := lines(c.Benchstat)
	for len(all) > 0 && strings.TrimSpace(all[len(all)-1]) == "" {
		all = all[:len(all)-1]
	}
	if len(all) == 0 {
		return
	}
	before, after := details("benchstat"), endDetails
	frame := len(before) + len(after) + 2*(max(3, longestRun(c.Benchstat, '`')+1)+len("text\n"))
	n := p.most(frame, all)
	if n < len(all) {
		p.cut = append(p.cut, fmt.Sprintf("%d of %d lines of benchstat", len(all)-n, len(all)))
	}
	if n > 0 {
		p.must(before + fenced(strings.Join(all[:n], "")) + after)
	}
}
