package report

import (
	"strings"
	"unicode/utf8"

	"example.com/tokpace/pkg/gate"
)

// clip makes one line of at most n bytes of a text, without control characters.
func clip(s string, n int) string {
	s = gate.Printable(strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' }), " "))
	if len(s) <= n {
		return s
	}
	n -= len("…")
	for !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

// code is a text as a code span: nothing in it is Markdown, HTML, a mention or a
// reference.
func code(s string) string {
	if strings.TrimSpace(s) == "" {
		return ""
	}
	fence := strings.Repeat("`", longestRun(s, '`')+1)
	if strings.HasPrefix(s, "`") || strings.HasSuffix(s, "`") || strings.HasPrefix(s, " ") && strings.HasSuffix(s, " ") {
		s = " " + s + " " // a reader takes one space off each end
	}
	return fence + s + fence
}

// cell is Markdown as a cell of a table. Of GitHub's tables, a bar behind a
// backslash is a bar everywhere in them, in code spans too.
func cell(markdown string) string { return strings.ReplaceAll(markdown, "|", `\|`) }

// fenced is a block of text as it stands.
func fenced(text string) string {
	fence := strings.Repeat("`", max(3, longestRun(text, '`')+1))
	return fence + "text\n" + text + fence + "\n"
}

// lines are those of a text, without control characters, each with its end.
func lines(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		parts := strings.Split(strings.TrimRight(line, "\r\n"), "\t")
		for i, p := range parts {
			parts[i] = gate.Printable(p)
		}
		out = append(out, strings.Join(parts, "\t")+"\n")
	}
	return out
}

func longestRun(s string, c rune) int {
	longest, n := 0, 0
	for _, r := range s {
		if n++; r != c {
			n = 0
		}
		longest = max(longest, n)
	}
	return longest
}

// prose is a sentence in which nothing is Markdown, HTML, a mention or a
// reference.
func prose(s string) string {
	s = strings.TrimSpace(s)
	digits := len(s) - len(strings.TrimLeft(s, "0123456789"))
	var b strings.Builder
	for i, r := range s {
		switch {
		case strings.ContainsRune("\\`*_[]<>|~$&@#", r),
			i == 0 && (r == '-' || r == '+'),               // a list
			i == digits && i > 0 && (r == '.' || r == ')'), // a numbered list
			r == ':' && strings.HasPrefix(s[i:], "://"),    // a link
			r == '.' && i >= 3 && strings.EqualFold(s[i-3:i], "www"):
			b.WriteByte('\\')
		}
		b.WriteRune(r)
		if r == '@' || r == '#' {
			// GitHub looks for mentions when it has done with Markdown.
			b.WriteRune('\u200b')
		}
	}
	return b.String()
}
