package report

import (
	"encoding/xml"
	"fmt"
	"strings"

	"example.com/tokpace/pkg/gate"
)

// The elements of JUnit's XML that readers agree about.
type (
	testSuites struct {
		XMLName xml.Name `xml:"testsuites"`
		totals
		Suites []*testSuite `xml:"testsuite"`
	}
	testSuite struct {
		Name string `xml:"name,attr"`
		totals
		Properties []suiteProperty `xml:"properties>property"`
		Cases      []testCase      `xml:"testcase"`
		Out        string          `xml:"system-out"`
	}
	totals struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
		Errors   int `xml:"errors,attr"`
		Skipped  int `xml:"skipped,attr"`
	}
	suiteProperty struct {
		Name  string `xml:"name,attr"`
		Value string `xml:"value,attr"`
	}
	testCase struct {
		Class   string   `xml:"classname,attr"`
		Name    string   `xml:"name,attr"`
		Failure *problem `xml:"failure"`
		Error   *problem `xml:"error"`
		Skipped *problem `xml:"skipped"`
		Out     string   `xml:"system-out,omitempty"`
	}
	problem struct {
		Type    string `xml:"type,attr,omitempty"`
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
)

// JUnit returns the report as a JUnit file with a test case for each row: its
// class is the package, its name the benchmark and the unit.
//
//	failure   regression, changed, missing
//	error     incomparable, suspect; noisy if the report is strict
//	skipped   noisy, as there is nothing to do about one
//	passed    all others; the verdict, if it is none of ok and not gated, is in its output
//
// Where the report does not pass though no row is to blame, there is one more test
// case, in error, so that readers of the file come to the same end.
//
// (The structs of go-junit-report/v2 would serve as well, but for texts in CDATA
// sections, which encoding/xml does not clean of what XML forbids. Here every
// string goes through its escaping, which does.)
func (c *Comparison) JUnit() ([]byte, error) {
	s := &testSuite{Name: "tokpace gate", Out: strings.Join(append([]string{c.Summary()}, c.Notes...), "\n")}
	for _, p := range []suiteProperty{
		{"base", c.Base}, {"head", c.Head}, {"outcome", c.Outcome()}, {"exit-code", fmt.Sprint(c.Code())},
		{"strict", fmt.Sprint(c.Strict)}, {"command", c.Command},
	} {
		if p.Value != "" {
			s.Properties = append(s.Properties, p)
		}
	}
	for _, row := range c.Rows {
		s.add(c.testCase(row))
	}
	if s.Failures+s.Errors == 0 && c.Code() != gate.CodePass {
		s.add(testCase{Class: "tokpace", Name: "gate", Error: &problem{Type: c.Outcome(), Message: c.Summary()}})
	}
	out, err := xml.MarshalIndent(testSuites{totals: s.totals, Suites: []*testSuite{s}}, "", "  ")
	if err != nil {
		return nil, err
	}
	return append(append([]byte(xml.Header), out...), '\n'), nil
}

func (s *testSuite) add(c testCase) {
	s.Cases = append(s.Cases, c)
	s.Tests++
	switch {
	case c.Failure != nil:
		s.Failures++
	case c.Error != nil:
		s.Errors++
	case c.Skipped != nil:
		s.Skipped++
	}
}

func (c *Comparison) testCase(row gate.Row) testCase {
	t := testCase{Class: row.Package, Name: strings.TrimSpace(row.Name + " " + row.Unit)}
	if t.Class == "" {
		t.Class = "benchmarks"
	}
	if row.Config != "" {
		t.Name += " (" + row.Config + ")"
	}
	p := &problem{Type: row.Verdict.String(), Message: row.Verdict.String()}
	if row.Reason != "" {
		p.Message += ": " + row.Reason
	}
	switch row.Verdict {
	case gate.Regression, gate.Changed, gate.Missing:
		p.Text, t.Failure = c.numbers(row), p
	case gate.Incomparable, gate.Suspect:
		p.Text, t.Error = c.numbers(row), p
	case gate.Noisy:
		if c.Strict {
			p.Text, t.Error = c.numbers(row), p
		} else {
			t.Skipped = &problem{Message: p.Message}
		}
	case gate.OK, gate.Shown:
	default:
		t.Out = p.Message
	}
	return t
}

// numbers are the cells of a row that say something, a line each, and the rule.
func (c *Comparison) numbers(row gate.Row) string {
	var b strings.Builder
	b.WriteByte('\n')
	for i, s := range c.Cells(row) {
		if s != "" {
			fmt.Fprintf(&b, "%s: %s\n", gate.Heading[i], s)
		}
	}
	fmt.Fprintf(&b, "rule: %s\n", row.Rule)
	return b.String()
}
