package main

import (
	"strconv"
	"strings"
	"unicode"
)

// clean is s on one line and without anything that a terminal could take for a
// command or show in a misleading order.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\r' || r == '\t':
			return ' '
		case !unicode.IsGraphic(r):
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

// oneLine is the text of an error as one line.
func oneLine(s string) string {
	var lines []string
	for line := range strings.Lines(s) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, clean(line))
		}
	}
	return strings.Join(lines, "; ")
}

// shownText is how much of a generated text people are shown, in characters.
const shownText = 160

// quoted is the start of a generated text, quoted so that what is in it cannot
// be taken for anything else, and its whole length when that is more.
func quoted(s string) string {
	n := 0
	for i := range s {
		if n == shownText {
			return strconv.Quote(s[:i]) + "… (" + strconv.Itoa(len([]rune(s))) + " characters)"
		}
		n++
	}
	return strconv.Quote(s)
}
