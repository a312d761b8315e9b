package ab

import (
	"regexp"
	"strings"
)

// topLevel returns the pattern for top-level names that a -bench pattern
// contains, for use with -test.list, which knows no sub-benchmarks. As in
// package testing, | separates alternatives and / separates levels unless they
// stand in brackets or parentheses.
func topLevel(bench string) string {
	var tops []string
	for _, alternative := range splitOutside(bench, '|') {
		tops = append(tops, splitOutside(alternative, '/')[0])
	}
	return strings.Join(tops, "|")
}

// maxPattern is how long an exact pattern may be, in bytes: systems limit the
// length of an argument, Linux to 128 KiB.
const maxPattern = 100_000

// exactly returns a -bench pattern for benchmarks of these names, which have
// neither "Benchmark" nor -N, and for no others; all is what to take if it would
// be too long.
func exactly(names []string, all string) string {
	var alternatives []string
	for _, name := range names {
		levels := strings.Split("Benchmark"+name, "/")
		for i, level := range levels {
			levels[i] = "^" + regexp.QuoteMeta(level) + "$"
		}
		// A name may end like -N itself, and the line of a benchmark that runs
		// with GOMAXPROCS=1 has no -N behind it.
		last := &levels[len(levels)-1]
		*last = strings.TrimSuffix(*last, "$") + "(-[0-9]+)?$"
		alternatives = append(alternatives, strings.Join(levels, "/"))
	}
	if pattern := strings.Join(alternatives, "|"); len(pattern) <= maxPattern {
		return pattern
	}
	return all
}

// checkPattern compiles each level of a -bench pattern.
func checkPattern(bench string) error {
	for _, alternative := range splitOutside(bench, '|') {
		for _, level := range splitOutside(alternative, '/') {
			if _, err := regexp.Compile(level); err != nil {
				return err
			}
		}
	}
	return nil
}

// splitOutside splits a regular expression at sep where that stands outside of
// brackets and parentheses and is not escaped.
func splitOutside(expr string, sep byte) []string {
	var parts []string
	start, brackets, parens := 0, 0, 0
	for i := 0; i < len(expr); i++ {
		switch c := expr[i]; {
		case c == '\\':
			i++
		case c == '[':
			brackets++
		case c == ']':
			// An unmatched one is a plain character.
			brackets = max(0, brackets-1)
		case c == '(' && brackets == 0:
			parens++
		case c == ')' && brackets == 0:
			parens--
		case c == sep && brackets == 0 && parens == 0:
			parts = append(parts, expr[start:i])
			start = i + 1
		}
	}
	return append(parts, expr[start:])
}
