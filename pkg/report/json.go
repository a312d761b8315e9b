package report

import (
	"bytes"
	"encoding/json"
	"math"

	"example.com/tokpace/pkg/gate"
)

// Schema names the form of the JSON. Another version is another form; one with
// more keys is the same.
const Schema = "tokpace-gate/v1"

// document is the JSON. What is not known, or no finite number, is null.
type document struct {
	// The name and version of this form.
	Schema string `json:"schema" jsonschema:"const=tokpace-gate/v1"`
	// What was compared.
	Base string `json:"base"`
	Head string `json:"head"`
	// The command that compares again; may be empty.
	Command string `json:"command"`
	// The exit code in words.
	Outcome string `json:"outcome" jsonschema:"enum=pass,enum=worse,enum=no verdict"`
	// 0 pass, 1 a regression or a change, 3 no verdict.
	ExitCode int `json:"exit_code" jsonschema:"enum=0,enum=1,enum=3"`
	// The number of rows of each verdict, on one line.
	Summary string `json:"summary"`
	// Samples were compared pair by pair.
	Paired bool `json:"paired"`
	// Noisy rows count as having no verdict.
	Strict bool `json:"strict"`
	// Worst first.
	Rows []rowJSON `json:"rows"`
	// What else a reader should know.
	Notes []string `json:"notes"`
}

type rowJSON struct {
	// Import path; may be empty.
	Package string `json:"package"`
	// What tells benchmarks of one name apart; mostly empty.
	Config string `json:"config"`
	// Without Benchmark, with -GOMAXPROCS.
	Name string `json:"name"`
	// As benchstat shows it; empty for a whole benchmark, which is on one side only or cannot be compared.
	Unit string `json:"unit"`
	// What was found out.
	Verdict string `json:"verdict"`
	// Why, on one line; may be empty.
	Reason string `json:"reason"`
	// Who decided how the row is judged.
	Rule string `json:"rule"`
	// A change decides about the exit code.
	Gated bool `json:"gated"`
	// Any change at all counts.
	Exact bool `json:"exact"`
	// The largest relative change that is none; null for exact rows and whole benchmarks.
	Limit *float64 `json:"limit" jsonschema:"nullable"`
	// A smaller absolute change is none either; null for exact rows and whole benchmarks.
	Least *float64 `json:"least" jsonschema:"nullable"`
	// Which way is better; empty where nobody knows.
	Better string `json:"better" jsonschema:"enum=higher,enum=lower,enum="`
	// The sides; null for one without a finite value.
	Base *sideJSON `json:"base" jsonschema:"nullable"`
	Head *sideJSON `json:"head" jsonschema:"nullable"`
	// The difference; null where none can be told. Exact rows have none but that of their sides.
	Delta *deltaJSON `json:"delta" jsonschema:"nullable"`
}

type sideJSON struct {
	// Number of samples.
	N int `json:"n"`
	// The median, and its 95 % interval where there are enough samples.
	Center *float64 `json:"center" jsonschema:"nullable"`
	Lo     *float64 `json:"lo" jsonschema:"nullable"`
	Hi     *float64 `json:"hi" jsonschema:"nullable"`
}

type deltaJSON struct {
	// The numbers are relative: 0.05 is 5 % more in head. Else they are in the row's unit.
	Relative bool `json:"relative"`
	// The estimate, and its interval where there are enough samples.
	Center *float64 `json:"center" jsonschema:"nullable"`
	Lo     *float64 `json:"lo" jsonschema:"nullable"`
	Hi     *float64 `json:"hi" jsonschema:"nullable"`
	// Confidence of the interval.
	Level *float64 `json:"level" jsonschema:"nullable"`
	// The smallest change for the worse that the noise would have let us see.
	Sees *float64 `json:"sees" jsonschema:"nullable"`
	// As benchstat has it.
	P *float64 `json:"p" jsonschema:"nullable"`
}

// JSON returns the report as JSON; testdata/gate-report.schema.json of this
// module describes it.
func (c *Comparison) JSON() ([]byte, error) {
	d := document{Schema: Schema, Base: c.Base, Head: c.Head, Command: c.Command, Outcome: c.Outcome(), ExitCode: c.Code(),
		Summary: c.Summary(), Paired: c.Paired, Strict: c.Strict, Rows: []rowJSON{}, Notes: append([]string{}, c.Notes...)}
	for _, row := range c.Rows {
		d.Rows = append(d.Rows, toJSON(row))
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(d)
	return b.Bytes(), err
}

func toJSON(row gate.Row) rowJSON {
	r := rowJSON{Package: row.Package, Config: row.Config, Name: row.Name, Unit: row.Unit, Verdict: row.Verdict.String(),
		Reason: row.Reason, Rule: row.Rule, Gated: row.Gated, Exact: row.Exact, Base: sideOf(row.Base), Head: sideOf(row.Head)}
	switch {
	case row.Better > 0:
		r.Better = "higher"
	case row.Better < 0:
		r.Better = "lower"
	}
	if row.Unit != "" && !row.Exact {
		r.Limit, r.Least = finite(row.Limit), finite(row.Least)
	}
	if row.Shift.Level > 0 {
		scale := func(x float64) *float64 { return finite(x) }
		if row.Ratio {
			scale = func(x float64) *float64 { return finite(math.Expm1(x)) }
		}
		sees := row.Sees()
		if row.Better > 0 {
			sees = -sees
		}
		r.Delta = &deltaJSON{Relative: row.Ratio, Center: scale(row.Shift.Center), Level: finite(row.Shift.Level), P: finite(row.P())}
		if !math.IsInf(row.Shift.Lo, 0) && !math.IsInf(row.Shift.Hi, 0) {
			r.Delta.Lo, r.Delta.Hi, r.Delta.Sees = scale(row.Shift.Lo), scale(row.Shift.Hi), scale(sees)
		}
	}
	return r
}

func sideOf(s gate.Summary) *sideJSON {
	if s.N == 0 {
		return nil
	}
	return &sideJSON{N: s.N, Center: finite(s.Center), Lo: finite(s.Lo), Hi: finite(s.Hi)}
}

// finite is null for what JSON has no number for.
func finite(x float64) *float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return &x
}
