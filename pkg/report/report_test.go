package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"example.com/tokpace/pkg/gate"
	"example.com/tokpace/pkg/schematest"

	"github.com/stretchr/testify/require"
	"golang.org/x/perf/benchmath"
)

// set reads benchmark text.
func set(t testing.TB, text string) *gate.Set {
	t.Helper()
	s := &gate.Set{}
	require.NoError(t, s.Read(strings.NewReader(text), "f.txt"))
	return s
}

// every is a comparison with a row of every verdict.
func every(t testing.TB) *Comparison {
	t.Helper()
	const header = "pkg: example.test/b\nUnit tok/op assume=exact\nUnit gain better=higher\n"
	var base, head strings.Builder
	for _, b := range []*strings.Builder{&base, &head} {
		b.WriteString(header)
	}
	for i, d := range []float64{0, 3, 1, 4, 2, 5} {
		wild := 40 * d
		fmt.Fprintf(&base, "BenchmarkSlower/conc=8-2 10 %v ns/op 17 tok/op\n", 1000+d)
		fmt.Fprintf(&head, "BenchmarkSlower/conc=8-2 10 %v ns/op 18 tok/op\n", 1200+d)
		fmt.Fprintf(&base, "BenchmarkFaster-2 10 %v ns/op 5 score %d allocs/op\n", 1000+d, 10)
		fmt.Fprintf(&head, "BenchmarkFaster-2 10 %v ns/op 5 score %d allocs/op\n", 800+d, 12)
		fmt.Fprintf(&base, "BenchmarkWild-2 10 %v ns/op %v gain 0 B/op\n", 1000+wild, -10-d)
		fmt.Fprintf(&head, "BenchmarkWild-2 10 %v ns/op %v gain 0 B/op\n", 1000+wild, -10-d)
		fmt.Fprintf(&base, "BenchmarkWilder-2 10 %v ns/op\n", 1000+wild)
		fmt.Fprintf(&head, "BenchmarkWilder-2 10 %v ns/op\n", 1080+wild)
		fmt.Fprintf(&base, "BenchmarkGone-2 10 %v ns/op\n", 1000+d)
		fmt.Fprintf(&head, "BenchmarkFresh-2 10 %v ns/op\n", 1000+d)
		if i > 0 {
			fmt.Fprintf(&base, "BenchmarkFew-2 10 %v ns/op\n", 1000+d)
			fmt.Fprintf(&head, "BenchmarkFew-2 10 %v ns/op\n", 1000+d)
		}
	}
	a, err := gate.ParseAcceptance("allocs/op:Faster bought with memory", "-accept")
	require.NoError(t, err)
	r := gate.Compare(set(t, base.String()), set(t, head.String()), &gate.Policy{Accept: []gate.Acceptance{a}})
	require.Equal(t, "1 regression, 1 changed, 1 incomparable, 1 missing, 1 suspect, 2 noisy, 1 accepted, 1 improvement, 1 new, 1 not gated, 1 ok", r.Summary())
	return &Comparison{Report: r, Base: "base.txt", Head: "head.txt", Command: "tokpace gate base.txt head.txt",
		Benchstat: "          │ base.txt │ head.txt │\nSlower-2     1.00µ      1.20µ\n"}
}

// nasty is all that a name of a benchmark can do to the formats: what a benchmark
// file can hold, and what only a program could make.
var nasty = []string{
	"A|b", "A<img/src=x>", "A`b`|`", "``A|", "A*b*_c_~~d~~", "@octocat", "A@octocat", "#1", "A[x](https://example.test)", "A\\|b", `A\`, "A&lt;b",
	"A</details>", "A-->", "A<!--", "https://example.test/x", "www.example.test", "a@example.test", "A$x$", ":smile:", "::error::x", "A%0A::error::x", "A##[error]", "]]>", "A\x1b[2J", "A\x00b",
	"A\nB", "A\r\n\r\n# B", "A\u202eb", "A\xffb", "A\ufffe", "```", "A,line=1::", "- A", "+ A", "1. A", strings.Repeat("x", 5000), strings.Repeat("`", 400), "", " ",
}

func nastyComparison() *Comparison {
	r := &gate.Report{}
	for _, name := range nasty {
		r.Rows = append(r.Rows,
			gate.Row{Name: name, Unit: name, Package: name, Config: name, Verdict: gate.Regression, Reason: name, Rule: name, Gated: true,
				Base: gate.Summary{N: 6, Summary: benchmath.Summary{Center: 1, Lo: 1, Hi: 1}}, Head: gate.Summary{N: 6, Summary: benchmath.Summary{Center: 2, Lo: 2, Hi: 2}},
				Shift: gate.Interval{Center: math.Log(2), Lo: math.Log(1.9), Hi: math.Log(2.1), Level: .95}, Ratio: true},
			gate.Row{Name: name, Unit: name, Verdict: gate.OK, Reason: name, Rule: name})
		r.Notes = append(r.Notes, name)
	}
	all := strings.Join(nasty, "\n")
	return &Comparison{Report: r, Base: all, Head: all, Command: "tokpace gate " + all[:900], Benchstat: all}
}

func TestOutcome(t *testing.T) {
	for v, want := range map[gate.Verdict]string{gate.OK: "pass", gate.Changed: "worse", gate.Missing: "no verdict", gate.Shown: "no verdict"} {
		c := Comparison{Report: &gate.Report{Rows: []gate.Row{{Verdict: v}}}}
		require.Equal(t, want, c.Outcome())
	}
}

func TestGoldens(t *testing.T) {
	c := every(t)
	schematest.Golden(t, "testdata/report.md", c.Markdown(MaxComment))
	x, err := c.JUnit()
	require.NoError(t, err)
	schematest.Golden(t, "testdata/report.xml", x)
	j, err := c.JSON()
	require.NoError(t, err)
	schematest.Golden(t, "testdata/report.json", j)
	schematest.Golden(t, "testdata/annotations.txt", c.Annotations(NewPlaces(tree(t))))
}

// junitTotals are what a reader counts by itself.
func junitTotals(t *testing.T, text []byte) (out testSuites) {
	t.Helper()
	dec := xml.NewDecoder(bytes.NewReader(text))
	require.NoError(t, dec.Decode(&out))
	_, err := dec.Token()
	for err == nil { // white space
		_, err = dec.Token()
	}
	require.ErrorIs(t, err, io.EOF)
	require.Len(t, out.Suites, 1)
	require.Equal(t, out.totals, out.Suites[0].totals)
	require.Len(t, out.Suites[0].Cases, out.Tests)
	var n totals
	for _, c := range out.Suites[0].Cases {
		n.Tests++
		switch {
		case c.Failure != nil:
			n.Failures++
		case c.Error != nil:
			n.Errors++
		case c.Skipped != nil:
			n.Skipped++
		}
	}
	require.Equal(t, n, out.totals)
	return out
}

// TestJUnitTellsTheVerdict: failures and errors together are there if and only if
// the comparison does not pass.
func TestJUnitTellsTheVerdict(t *testing.T) {
	for v := gate.Regression; v <= gate.OK; v++ {
		for _, strict := range []bool{false, true} {
			c := Comparison{Report: &gate.Report{Strict: strict, Rows: []gate.Row{{Name: "A-2", Unit: "x", Verdict: v}}}}
			text, err := c.JUnit()
			require.NoError(t, err)
			out := junitTotals(t, text)
			require.Equal(t, c.Code() != gate.CodePass, out.Failures+out.Errors > 0, "%v %v", v, strict)
			if v == gate.Noisy && !strict {
				require.Equal(t, 1, out.Skipped)
			}
		}
	}
	c := Comparison{Report: &gate.Report{}}
	text, err := c.JUnit()
	require.NoError(t, err)
	out := junitTotals(t, text)
	require.Equal(t, "nothing to judge", out.Suites[0].Cases[0].Error.Message)
}

func TestNastyNamesInJUnit(t *testing.T) {
	text, err := nastyComparison().JUnit()
	require.NoError(t, err)
	out := junitTotals(t, text)
	require.Equal(t, len(nasty), out.Failures)
	require.Equal(t, "A</details> A</details> (A</details>)", out.Suites[0].Cases[2*index(t, "A</details>")].Name)
	require.NotContains(t, string(text), "\x1b")
	require.NotContains(t, string(text), "\x00")
}

func index(t *testing.T, name string) int {
	t.Helper()
	for i, n := range nasty {
		if n == name {
			return i
		}
	}
	require.Fail(t, "no such name", name)
	return 0
}

func TestNastyNamesInAnnotations(t *testing.T) {
	for _, name := range nasty {
		c := Comparison{Report: &gate.Report{Rows: []gate.Row{{Name: name, Unit: name, Package: name, Verdict: gate.Regression, Reason: name}}}}
		text := string(c.Annotations(nil))
		require.Equal(t, 1, strings.Count(text, "\n"), "%q", text)
		// As the runner takes it apart.
		rest, ok := strings.CutPrefix(strings.TrimSuffix(text, "\n"), "::error title=")
		require.True(t, ok, "%q", text)
		title, message, ok := strings.Cut(rest, "::")
		require.True(t, ok)
		require.NotContains(t, title, ":")
		require.NotContains(t, title, ",")
		require.NotContains(t, message, "\r")
		unescape := strings.NewReplacer("%0D", "\r", "%0A", "\n", "%3A", ":", "%2C", ",", "%25", "%")
		require.Equal(t, clip("regression: "+strings.TrimSpace(name+" "+name), maxName), unescape.Replace(title))
		require.Contains(t, message, "regression")
	}
}

// TestAnnotationsAreFew: GitHub shows no more than ten of a level.
func TestAnnotationsAreFew(t *testing.T) {
	for _, n := range []int{0, 1, 9, 10, 11, 500} {
		r := &gate.Report{}
		for i := range n {
			r.Rows = append(r.Rows, gate.Row{Name: fmt.Sprint("A", i), Unit: "x", Verdict: gate.Regression})
		}
		for i := range n {
			r.Rows = append(r.Rows, gate.Row{Name: fmt.Sprint("B", i), Unit: "x", Verdict: gate.Suspect})
		}
		r.Rows = append(r.Rows, gate.Row{Name: "C", Unit: "x", Verdict: gate.OK})
		text := string((&Comparison{Report: r}).Annotations(nil))
		require.Equal(t, min(n, 10), strings.Count(text, "::error "), text)
		require.Equal(t, min(n, 10), strings.Count(text, "::warning "), text)
		if n > 10 {
			require.Contains(t, text, fmt.Sprintf("::error title=benchmarks::%d more rows, see the table: %d regression", n-9, n))
		}
	}
	// No row is to blame, and yet it does not pass.
	require.Equal(t, "::error title=benchmarks::nothing to judge\n", string((&Comparison{Report: &gate.Report{}}).Annotations(nil)))
}

// tree is a module in a folder of a repository.
func tree(t testing.TB) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{
		".git/HEAD":                "",
		"mod/go.mod":               "module example.test/b\n",
		"mod/b.go":                 "package b\n\nfunc BenchmarkPlain() {}\n",
		"mod/b_test.go":            "package b\n\nimport \"testing\"\n\nfunc BenchmarkSlower(b *testing.B) {}\n\nfunc BenchmarkGone(b *testing.B) {}\n\nfunc (t) BenchmarkMethod(b *testing.B) {}\n",
		"mod/b_windows_test.go":    "package b\n\nfunc BenchmarkSlower(b *testing.B) {}\n",
		"mod/torn_test.go":         "package b\n\nfunc Benchmark(b *testing.B) {}\n\nfunc torn( {\n",
		"mod/no_test.go/a_test.go": "package b\n",
		"mod/inner/inner_test.go":  "package inner\n\nfunc BenchmarkInner(b *testing.B) {}\n",
		"outer_test.go":            "package outer\n\nfunc BenchmarkOuter(b *testing.B) {}\n",
	} {
		path := filepath.Join(root, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o777))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o666))
	}
	return filepath.Join(root, "mod")
}

func TestPlaces(t *testing.T) {
	mod := tree(t)
	for _, dir := range []string{mod, filepath.Join(mod, "inner")} {
		p := NewPlaces(dir)
		for _, c := range []struct {
			pkg, name, file string
			line            int
		}{
			{"example.test/b", "Slower/conc=8-2", "mod/b_test.go", 5},
			{"example.test/b", "Slower-2", "mod/b_test.go", 5},
			{"example.test/b", "Slower", "mod/b_test.go", 5},
			{"example.test/b", "Slow-2", "", 0},
			{"example.test/b", "-2", "mod/torn_test.go", 3},
			{"example.test/b", "Method-2", "", 0},
			{"example.test/b", "Plain-2", "", 0},
			{"example.test/b/inner", "Inner/x-2", "mod/inner/inner_test.go", 3},
			{"example.test/b/none", "Inner-2", "", 0},
			{"example.test/bb", "Slower-2", "", 0},
			{"example.test", "Slower-2", "", 0},
			{"example.test/b/..", "Outer-2", "", 0},
			{"", "Slower-2", "", 0},
		} {
			file, line := p.Find(c.pkg, c.name)
			require.Equal(t, c.file, file, "%s %s", c.pkg, c.name)
			require.Equal(t, c.line, line)
		}
	}
	for _, p := range []*Places{nil, NewPlaces(t.TempDir())} {
		file, line := p.Find("example.test/b", "Slower-2")
		require.Empty(t, file)
		require.Zero(t, line)
	}
}

// TestSchema: the schema in testdata is that of the type, and what is written has
// all keys that it asks for and no others.
func TestSchema(t *testing.T) {
	text := schematest.Schema{
		Type:    reflect.TypeFor[document](),
		Tag:     "json",
		Sources: []string{"*.go"},
		Names: map[reflect.Type]string{
			reflect.TypeFor[document]():  "Report",
			reflect.TypeFor[rowJSON]():   "Row",
			reflect.TypeFor[sideJSON]():  "Side",
			reflect.TypeFor[deltaJSON](): "Delta",
		},
	}.Check(t, filepath.Join("..", "..", "testdata", "gate-report.schema.json"))
	var root map[string]any
	require.NoError(t, json.Unmarshal(text, &root))
	require.Len(t, root["$defs"], 4)
	for _, c := range []*Comparison{every(t), nastyComparison(), {Report: &gate.Report{}}} {
		got, err := c.JSON()
		require.NoError(t, err)
		var value any
		require.NoError(t, json.Unmarshal(got, &value))
		conforms(t, root, root, value, "$")
	}
}

// conforms is as much of JSON Schema as our schemas use.
func conforms(t *testing.T, root, schema map[string]any, value any, at string) {
	t.Helper()
	if ref, ok := schema["$ref"].(string); ok {
		schema = root["$defs"].(map[string]any)[strings.TrimPrefix(ref, "#/$defs/")].(map[string]any)
	}
	if one, ok := schema["oneOf"].([]any); ok { // this, or null
		require.Len(t, one, 2, at)
		require.Equal(t, map[string]any{"type": "null"}, one[1], at)
		if value == nil {
			return
		}
		schema = one[0].(map[string]any)
		conforms(t, root, schema, value, at)
		return
	}
	if enum, ok := schema["enum"].([]any); ok {
		require.Contains(t, enum, value, at)
	}
	if c, ok := schema["const"]; ok {
		require.Equal(t, c, value, at)
	}
	switch schema["type"] {
	case "object":
		object, ok := value.(map[string]any)
		require.True(t, ok, at)
		properties := schema["properties"].(map[string]any)
		require.Len(t, object, len(properties), at)
		require.Len(t, schema["required"], len(properties), at)
		for k, v := range object {
			require.Contains(t, properties, k, at)
			conforms(t, root, properties[k].(map[string]any), v, at+"."+k)
		}
	case "array":
		list, ok := value.([]any)
		require.True(t, ok, at)
		for _, v := range list {
			conforms(t, root, schema["items"].(map[string]any), v, at+"[]")
		}
	case "string":
		require.IsType(t, "", value, at)
	case "number":
		require.IsType(t, 0.0, value, at)
	case "integer":
		require.IsType(t, 0.0, value, at)
		require.Equal(t, math.Trunc(value.(float64)), value, at)
	case "boolean":
		require.IsType(t, true, value, at)
	default:
		require.Fail(t, "no type", "%s: %v", at, schema)
	}
}

// TestJSONHasNoNumberThatIsNone: infinities, which are what too few samples have for
// an interval, are null.
func TestJSONHasNoNumberThatIsNone(t *testing.T) {
	inf := math.Inf(1)
	c := Comparison{Report: &gate.Report{Rows: []gate.Row{{
		Name: "A", Unit: "x/s", Better: +1, Verdict: gate.OK, Ratio: true, Shift: gate.Interval{Lo: -inf, Hi: inf, Level: 1},
		Base: gate.Summary{N: 1, Summary: benchmath.Summary{Center: 5, Lo: -inf, Hi: inf}},
		Head: gate.Summary{N: 1, Summary: benchmath.Summary{Center: math.NaN(), Lo: -inf, Hi: inf}},
	}}}}
	text, err := c.JSON()
	require.NoError(t, err)
	var d document
	require.NoError(t, json.Unmarshal(text, &d))
	five, zero, one := 5.0, 0.0, 1.0
	require.Equal(t, &sideJSON{N: 1, Center: &five}, d.Rows[0].Base)
	require.Equal(t, &sideJSON{N: 1}, d.Rows[0].Head)
	require.Equal(t, &deltaJSON{Relative: true, Center: &zero, Level: &one, P: &one}, d.Rows[0].Delta)
	require.Equal(t, "higher", d.Rows[0].Better)
}
