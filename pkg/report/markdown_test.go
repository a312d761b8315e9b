package report

import (
	"bytes"
	"fmt"
	"html"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"example.com/tokpace/pkg/gate"

	"github.com/stretchr/testify/require"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	goldhtml "github.com/yuin/goldmark/renderer/html"
)

// render makes HTML of Markdown, as GitHub does: tables, links that nobody marked
// as such, and HTML as it stands.
func render(t *testing.T, markdown []byte) string {
	t.Helper()
	var b bytes.Buffer
	md := goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithRendererOptions(goldhtml.WithUnsafe()))
	require.NoError(t, md.Convert(markdown, &b))
	return b.String()
}

var (
	tableRow  = regexp.MustCompile(`(?s)<tr>(.*?)</tr>`)
	tableCell = regexp.MustCompile(`(?s)<td>(.*?)</td>`)
	tag       = regexp.MustCompile(`</?([a-z0-9]+)`)
)

func TestNastyNamesInMarkdown(t *testing.T) {
	c := nastyComparison()
	page := c.Markdown(MaxSummary)
	require.NotContains(t, string(page), "\nCut, as")
	out := render(t, page)
	var rows [][]string
	for _, r := range tableRow.FindAllStringSubmatch(out, -1) {
		var cells []string
		for _, m := range tableCell.FindAllStringSubmatch(r[1], -1) {
			cells = append(cells, m[1])
		}
		if cells != nil {
			require.Len(t, cells, len(gate.Heading), r[1])
			rows = append(rows, cells)
		}
	}
	require.Len(t, rows, 2*len(nasty))
	for i, name := range nasty {
		want := ""
		if name = gate.Printable(name); strings.TrimSpace(name) != "" {
			want = "<code>" + html.EscapeString(clip(name, maxName)) + "</code>"
		}
		require.Equal(t, strings.ReplaceAll(want, "&#34;", "&quot;"), rows[i][1], "%q", name)
		require.Equal(t, rows[i][1], rows[len(nasty)+i][1], "folded, %q", name)
		require.Contains(t, rows[i][9], "<strong>regression</strong>")
	}
	// Nothing but what is ours has become markup.
	ours := map[string]bool{}
	for _, m := range tag.FindAllStringSubmatch(out, -1) {
		ours[m[1]] = true
	}
	for _, name := range []string{"h3", "p", "code", "strong", "table", "thead", "tbody", "tr", "th", "td", "ul", "li", "details", "summary", "pre"} {
		require.True(t, ours[name], name)
		delete(ours, name)
	}
	require.Empty(t, ours)
	require.Equal(t, 2, strings.Count(out, "<details>"))
	require.Equal(t, 2, strings.Count(out, "</details>"))
	require.Equal(t, 1, strings.Count(out, "<!--"))
	// GitHub looks for mentions and references outside of code.
	text := regexp.MustCompile(`(?s)<code.*?</code>`).ReplaceAllString(out, "")
	require.NotRegexp(t, `@[a-z]|#\d`, text)
	require.Contains(t, text, "@\u200boctocat")
	require.True(t, bytes.HasPrefix(page, []byte(Marker+"\n")))
}

// TestMarkdownIsCutByWholeRows: of any size, what is there is whole, and what is not
// is counted.
func TestMarkdownIsCutByWholeRows(t *testing.T) {
	const n = 3000
	r := &gate.Report{}
	for i := range n {
		r.Rows = append(r.Rows, gate.Row{Name: fmt.Sprintf("Open%d", i), Unit: "x", Verdict: gate.Regression, Reason: strings.Repeat("é", i%200)})
	}
	for i := range n {
		r.Rows = append(r.Rows, gate.Row{Name: fmt.Sprintf("Folded%d", i), Unit: "x", Verdict: gate.OK})
	}
	for i := range 100 {
		r.Notes = append(r.Notes, fmt.Sprintf("note %d %s", i, strings.Repeat("x", 400)))
	}
	c := &Comparison{Report: r, Command: "tokpace gate a b", Benchstat: strings.Repeat("a line of benchstat ```\n", n)}
	cut := regexp.MustCompile(`\nCut, as it was too long: (.*)\.\n$`)
	part := regexp.MustCompile(`(\d+) of (\d+) (changed rows|other rows|lines of benchstat)`)
	for _, limit := range []int{0, leastPage, 30001, MaxComment, 400000} {
		page := string(c.Markdown(limit))
		require.LessOrEqual(t, len(page), max(limit, leastPage))
		out := render(t, []byte(page))
		shown := map[string]int{
			"changed rows":       strings.Count(out, "<td><code>Open"),
			"other rows":         strings.Count(out, "<td><code>Folded"),
			"lines of benchstat": strings.Count(out, "a line of benchstat ```\n"),
		}
		require.Positive(t, shown["changed rows"])
		require.Equal(t, len(gate.Heading)*(shown["changed rows"]+shown["other rows"]), strings.Count(out, "<td>"))
		require.Equal(t, strings.Count(out, "<details>"), strings.Count(out, "</details>"))
		require.Contains(t, out, "tokpace gate a b\n</code></pre>", "the command is there at any size")
		m := cut.FindStringSubmatch(page)
		missing := map[string]int{}
		if m != nil {
			for _, p := range part.FindAllStringSubmatch(m[1], -1) {
				require.Equal(t, fmt.Sprint(n), p[2])
				var err error
				missing[p[3]], err = strconv.Atoi(p[1])
				require.NoError(t, err)
			}
		}
		for what, is := range shown {
			require.Equal(t, n-is, missing[what], "%s at %d", what, limit)
		}
		if limit == MaxComment {
			require.NotNil(t, m)
			require.Greater(t, len(page), MaxComment*9/10, "room is used")
		}
	}
}

// Whatever the names are, they are text.
func FuzzMarkdown(f *testing.F) {
	for _, name := range nasty {
		f.Add(name, 0)
	}
	f.Fuzz(func(t *testing.T, name string, limit int) {
		c := &Comparison{Report: &gate.Report{Notes: []string{name}, Rows: []gate.Row{
			{Name: "A" + name, Unit: name, Verdict: gate.Regression, Reason: name},
			{Name: name + "A", Unit: name, Verdict: gate.OK},
		}}, Base: name, Head: name, Command: name, Benchstat: name}
		page := c.Markdown(limit)
		if len(page) > max(limit, leastPage) {
			t.Fatal("too long")
		}
		if strings.Contains(string(page), "\nCut, ") {
			return
		}
		out := render(t, page)
		if n := strings.Count(out, "<td>"); n != 2*len(gate.Heading) {
			t.Fatalf("%d cells in %s", n, out)
		}
		if strings.Contains(out, "<a ") || strings.Contains(out, "<img") || strings.Contains(out, "<em>") {
			t.Fatalf("markup in %s", out)
		}
	})
}
