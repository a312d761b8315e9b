// Package report writes what pkg/gate has found out in the forms that machines
// and people of a CI system read: Markdown for a pull request or a job's summary,
// annotations of GitHub, JUnit and JSON. It stands on pkg/gate and knows no
// server. Each form comes in one piece, so that nothing half written has to be
// taken back:
//
//	c := report.Comparison{Report: gate.Compare(&base, &head, nil), Base: "main", Head: "a branch"}
//	err := os.WriteFile("comment.md", c.Markdown(report.MaxComment), 0o666)
//
// All forms tell the same verdict and exit code. Names and reasons come from
// files that somebody else may have written: in no form can they be anything but
// text.
package report

import (
	"example.com/tokpace/pkg/gate"
)

// Comparison is a report of the gate with what is said around it.
type Comparison struct {
	*gate.Report

	// Base and Head say what was compared: files, commits or targets.
	Base, Head string

	// Command makes the comparison again; empty if nothing would.
	Command string

	// Benchstat is the table that benchstat prints of the same results; may be
	// empty.
	Benchstat string
}

// Outcome is the exit code in words.
func (c *Comparison) Outcome() string {
	switch c.Code() {
	case gate.CodePass:
		return "pass"
	case gate.CodeWorse:
		return "worse"
	}
	return "no verdict"
}
