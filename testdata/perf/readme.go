package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// README's table stands between these lines.
const (
	tableBegin = "<!-- make perf: begin -->\n"
	tableEnd   = "<!-- make perf: end -->\n"
)

// promises are the table's lines for rows with a limit: all of the table that README has. Without a kept run they are
// what is promised and no more.
func promises(kept string) (string, error) {
	var b strings.Builder
	for line := range strings.Lines(newSheet().table(groups)) {
		cells := strings.Split(line, " | ")
		if strings.HasPrefix(line, "|---") || cells[0] == "| what" {
			b.WriteString(line)
			continue
		}
		if cells[1] == "" {
			continue // no limit
		}
		promise := strings.Join(cells[:3], " | ") + " | "
		if kept == "" {
			b.WriteString(promise + "| " + notMeasured + " |\n")
			continue
		}
		i := strings.Index(kept, "\n# "+promise)
		if i < 0 {
			return "", fmt.Errorf("the last run that is kept has no row %q: make perf measures it", promise)
		}
		line, _, _ := strings.Cut(kept[i+len("\n# "):], "\n")
		b.WriteString(line + "\n")
	}
	return b.String(), nil
}

// lastRun returns the newest file of results, "" if there is none.
func lastRun() (name, text string, err error) {
	names, err := filepath.Glob("20*.txt")
	if err != nil || len(names) == 0 {
		return "", "", err
	}
	name = slices.Max(names)
	data, err := os.ReadFile(name)
	return name, string(data), err
}

// writeReadme puts the last run into README's table.
func writeReadme() error {
	_, kept, err := lastRun()
	if err != nil {
		return err
	}
	table, err := promises(kept)
	if err != nil {
		return err
	}
	path := filepath.Join(root, "README.md")
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	head, rest, ok := strings.Cut(string(text), tableBegin)
	_, tail, ended := strings.Cut(rest, tableEnd)
	if !ok || !ended {
		return errors.New("README has no lines that the table stands between")
	}
	return os.WriteFile(path, []byte(head+tableBegin+table+tableEnd+tail), 0o666)
}
