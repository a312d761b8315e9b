package gate

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"example.com/tokpace/pkg/schematest"

	"github.com/stretchr/testify/require"
)

const examplePolicy = "../../testdata/gate.yaml"

// The schema in testdata is that of the types as they are.
func TestPolicySchema(t *testing.T) {
	got := schematest.Schema{
		Type:    reflect.TypeFor[policyFile](),
		Tag:     "yaml",
		Sources: []string{"*.go"},
		Names: map[reflect.Type]string{
			reflect.TypeFor[policyFile](): "Policy",
			reflect.TypeFor[ruleText]():   "Rule",
			reflect.TypeFor[acceptText](): "Acceptance",
		},
	}.Check(t, "../../testdata/gate.schema.json")

	var s struct {
		Defs map[string]struct {
			Properties           map[string]struct{ Description string }
			Required             []string
			AdditionalProperties bool
		} `json:"$defs"`
	}
	require.NoError(t, json.Unmarshal(got, &s))
	require.Len(t, s.Defs, 3)
	example, err := os.ReadFile(examplePolicy)
	require.NoError(t, err)
	for name, def := range s.Defs {
		require.False(t, def.AdditionalProperties, name)
		for key, p := range def.Properties {
			require.NotEmpty(t, p.Description, "%s.%s", name, key)
			require.Regexp(t, `(?m)^[ -]*`+key+`:`, string(example), "the example uses every key")
		}
	}
	require.Equal(t, []string{"unit", "name", "reason"}, s.Defs["Acceptance"].Required)
	require.Empty(t, s.Defs["Rule"].Required)
}

func TestExamplePolicy(t *testing.T) {
	p, err := LoadPolicy(examplePolicy)
	require.NoError(t, err)
	require.False(t, p.Strict)
	require.Equal(t, []Acceptance{{
		Unit: "allocs/op", Name: "Example/*", Reason: "one more header per request", From: examplePolicy,
	}}, p.Accept)
	// What it says is what holds for the rows that it speaks of.
	const results = "harness-metrics: v1\nUnit ok/op better=higher assume=exact\nUnit cost better=lower\n" +
		"BenchmarkExample/conc=8-2 10 5 ttft-p50-ns 5 ttft-p99-ns 5 e2e-p50-ns 5 tpot-p50-ns 5 B/op 5 allocs/op 1 ok/op 5 cost 5 score\n" +
		"BenchmarkImages/conc=1-2 10 5 ttft-p50-ns 5 e2e-p50-ns 5 tpot-p50-ns 5 B/op 5 allocs/op\n"
	set := readSet(t, results)
	r := Compare(set, set, p)
	how := map[string]string{}
	for _, row := range r.Rows {
		how[row.Name+" "+row.Unit] = row.explanation()
	}
	for row, want := range map[string]string{
		"Example/conc=8-2 ttft-p99-sec": ", not gated",
		"Example/conc=8-2 ttft-p50-sec": ", limit 10%, less is better",
		"Images/conc=1-2 ttft-p50-sec":  "default: latency, limit 5%, less is better",
		"Example/conc=8-2 B/op":         ", limit 2% and 64, less is better",
		"Example/conc=8-2 score":        ", limit 5%, more is better",
		"Example/conc=8-2 ok/op":        "default: exact, no change",
		"Example/conc=8-2 cost":         ", no change",
	} {
		require.True(t, strings.HasSuffix(how[row], want), "%s is %q", row, how[row])
	}
}

// TestPolicyMistakes: each is one line that tells line and column.
func TestPolicyMistakes(t *testing.T) {
	for text, message := range map[string]string{
		"stritc: true\n":                              `policy p.yaml: line 1, column 1: unknown field "stritc"`,
		"strict: perhaps\n":                           "policy p.yaml: line 1, column 9: ",
		"strict: true\nstrict: false\n":               `policy p.yaml: line 2, column 1: mapping key "strict" already defined at [1:1]`,
		"rules: 5\n":                                  "policy p.yaml: line 1, column 8: ",
		"rules:\n  - limits: 5%\n":                    `policy p.yaml: line 2, column 5: unknown field "limits"`,
		"rules:\n  - {unit: B/op}\n  - limit: 5\n":    `policy p.yaml: line 3, column 12: "5" is no limit: want a percentage from 0% to 1000%, as in 5%`,
		"rules:\n  - limit: -5%\n":                    `policy p.yaml: line 2, column 12: "-5%" is no limit`,
		"rules:\n  - limit: 2000%\n":                  `policy p.yaml: line 2, column 12: "2000%" is no limit`,
		"rules:\n  - limit: NaN%\n":                   `policy p.yaml: line 2, column 12: "NaN%" is no limit`,
		"rules:\n  - limit: \n":                       "policy p.yaml: line 2, column 12: a value is missing",
		"rules:\n  - least: -1\n":                     "policy p.yaml: line 2, column 12: least is -1, want a number from 0",
		"rules:\n  - least: .nan\n":                   "policy p.yaml: line 2, column 12: least is NaN, want a number from 0",
		"rules:\n  - least: .inf\n":                   "policy p.yaml: line 2, column 12: least is +Inf, want a number from 0",
		"rules:\n  - least: two\n":                    "policy p.yaml: line 2, column 12: ",
		"rules:\n  - better: faster\n":                `policy p.yaml: line 2, column 13: better is "faster", want higher or lower`,
		"rules:\n  - gate: often\n":                   "policy p.yaml: line 2, column 11: ",
		"rules:\n  - exact: [1]\n":                    "policy p.yaml: line 2, column 12: ",
		"accept:\n  - unit: B/op\n    name: Chat\n":   "policy p.yaml: line 2, column 5: reason is missing: an acceptance has a unit, a name and a reason",
		"accept:\n  - {name: Chat, reason: x}\n":      "policy p.yaml: line 2, column 6: unit is missing",
		"accept:\n  - {unit: '', name: a, reason: x}": "policy p.yaml: line 2, column 6: unit is missing",
		"accept:\n  - {unit: B/op, reason: x}\n":      "policy p.yaml: line 2, column 6: name is missing",
		"accept:\n  - {}\n":                           "policy p.yaml: line 2, column 5: unit is missing",
		"- 1\n":                                       "policy p.yaml: line 1, column 1: not a mapping of keys to values",
		"rules: [\n":                                  "policy p.yaml: line 1, column 8: ",
		"{}\n---\n{}\n":                               "policy p.yaml: line 3, column 1: a second document",
		strings.Repeat("[", 70):                       "policy p.yaml: nested over 64 deep",
		"#" + strings.Repeat("x", maxPolicy):          "policy p.yaml: over 1048576 bytes",
	} {
		_, err := ParsePolicy([]byte(text), "p.yaml")
		require.ErrorContains(t, err, message, "%.60q", text)
		require.NotContains(t, err.Error(), "\n")
	}
	for _, text := range []string{"", "# nothing\n", "---\n", "{}"} {
		p, err := ParsePolicy([]byte(text), "p.yaml")
		require.NoError(t, err)
		require.Equal(t, &Policy{}, p)
	}
	_, err := LoadPolicy(filepath.Join(t.TempDir(), "none.yaml"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

func policy(t *testing.T, text string) *Policy {
	t.Helper()
	p, err := ParsePolicy([]byte(text), "p.yaml")
	require.NoError(t, err)
	return p
}

// TestFirstRuleWins: over later ones, over Unit lines and over the defaults.
func TestFirstRuleWins(t *testing.T) {
	text := header + lines("BenchmarkA/x=1-8 10 %s ns/op", around(100, .01, 6)...)
	slower := header + lines("BenchmarkA/x=1-8 10 %s ns/op", around(108, .01, 6)...)
	for _, c := range []struct {
		name, policy, unitLine string
		want                   Verdict
		rule                   string
	}{
		{"default", "", "", Regression, "default: a unit with a direction"},
		{"Unit line", "", "gate=10%", OK, "Unit line"},
		{"Unit line, off", "", "gate=off", Shown, "Unit line"},
		{"Unit line, least", "", "least=20e-9", OK, "Unit line"},
		{"rule before Unit line", "rules: [{unit: ns/op, limit: 5%}]", "gate=off", Regression, "p.yaml, rule 1"},
		{"a rule that leaves out the limit has the default", "rules: [{unit: ns/op}]", "gate=20%", Regression, "p.yaml, rule 1"},
		{"first rule", "rules: [{unit: ns/op, limit: 10%}, {unit: ns/op, limit: 1%}]", "", OK, "p.yaml, rule 1"},
		{"first that matches", "rules: [{unit: B/op, limit: 10%}, {name: B*, gate: false}, {unit: sec/op, gate: false}]", "", Shown, "p.yaml, rule 3"},
		{"with Benchmark", "rules: [{name: BenchmarkA/x=1, gate: false}]", "", Shown, "p.yaml, rule 1"},
		{"with -N", "rules: [{name: A/x=1-8, gate: false}]", "", Shown, "p.yaml, rule 1"},
		{"with both", "rules: [{name: BenchmarkA/*-8, gate: false}]", "", Shown, "p.yaml, rule 1"},
		{"another -N", "rules: [{name: A/x=1-4, gate: false}]", "", Regression, "default: a unit with a direction"},
		{"part of a name", "rules: [{name: A, gate: false}]", "", Regression, "default: a unit with a direction"},
		{"star in the middle", "rules: [{name: 'A/*1', gate: false}]", "", Shown, "p.yaml, rule 1"},
		{"everything", "rules: [{name: '*', unit: '*', gate: false}]", "", Shown, "p.yaml, rule 1"},
		{"everything, unsaid", "rules: [{gate: false}]", "", Shown, "p.yaml, rule 1"},
		{"better", "rules: [{unit: ns/op, better: higher}]", "", Improvement, "p.yaml, rule 1"},
		{"exact", "rules: [{unit: ns/op, exact: true}]", "", Incomparable, "p.yaml, rule 1"},
		{"least", "rules: [{unit: sec/op, least: 20e-9}]", "", OK, "p.yaml, rule 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			unit := ""
			if c.unitLine != "" {
				unit = "Unit ns/op " + c.unitLine + "\n"
			}
			row := Compare(readSet(t, unit+text), readSet(t, unit+slower), policy(t, c.policy)).row(t, "sec/op")
			require.Equal(t, c.want, row.Verdict, row.Reason)
			require.Equal(t, c.rule, row.Rule)
		})
	}
}

// A rule with a unit gates what the defaults only show; one without does not.
func TestRuleGatesItsUnit(t *testing.T) {
	text := header + lines("BenchmarkA-8 10 %s score 5 ns/op", around(100, .01, 6)...)
	for rule, want := range map[string]string{
		"{unit: score, better: higher}":             OK.String(),
		"{unit: 'sc*', better: higher}":             OK.String(),
		"{name: A, better: higher}":                 Shown.String(),
		"{unit: '*', better: higher}":               Shown.String(),
		"{unit: score}":                             "incomparable: nothing says which way is better",
		"{unit: score, gate: false}":                Shown.String(),
		"{name: A, gate: true, better: lower}":      OK.String(),
		"{unit: score, limit: 5%, better: lower}":   OK.String(),
		"{unit: score, exact: true, gate: false}":   Shown.String(),
		"{unit: scores, better: higher}":            Shown.String(),
		"{name: BenchmarkA, unit: '', gate: false}": Shown.String(),
	} {
		row := Compare(readSet(t, text), readSet(t, text), policy(t, "rules: ["+rule+"]")).row(t, "score")
		got := row.Verdict.String()
		if row.Verdict == Incomparable {
			got += ": " + row.Reason
		}
		require.Equal(t, want, got, rule)
	}
}

// TestUnitLines that say how a unit is judged, and those that contradict.
func TestUnitLinesOfTheGate(t *testing.T) {
	text := lines("BenchmarkA-8 10 %s ns/op", around(100, .01, 6)...)
	row := judged(t, "Unit ns/op gate=on\n"+text, "Unit ns/op gate=off\n"+text).row(t, "sec/op")
	require.Equal(t, Incomparable, row.Verdict)
	require.Equal(t, "Unit sec/op gate=: on in base, off in head", row.Reason)
	for line, message := range map[string]string{
		"gate=often":  "gate=often: want on, off or a limit as in 5%",
		"gate=5":      "gate=5: want on, off or a limit as in 5%",
		"gate=":       "gate= has no value",
		"least=-1":    "least=-1: want a number from 0",
		"least=NaN":   "least=NaN: want a number from 0",
		"least=1e301": "least=1e301: want a number from 0",
	} {
		err := new(Set).Read(strings.NewReader("Unit ns/op "+line+"\n"+text), "f.txt")
		require.EqualError(t, err, "f.txt:1: "+message)
	}
}

func TestParseAcceptance(t *testing.T) {
	a, err := ParseAcceptance("  allocs/op:Chat/* one more header ", "here")
	require.NoError(t, err)
	require.Equal(t, Acceptance{Unit: "allocs/op", Name: "Chat/*", Reason: "one more header", From: "here"}, a)
	a, err = ParseAcceptance("*:Chat/url=a:b", "here")
	require.NoError(t, err)
	require.Equal(t, Acceptance{Unit: "*", Name: "Chat/url=a:b", From: "here"}, a)
	for _, s := range []string{"", " ", "allocs/op", ":Chat", "allocs/op:", "allocs/op: Chat"} {
		_, err := ParseAcceptance(s, "here")
		require.ErrorContains(t, err, "want UNIT:NAME and a reason", s)
	}
}

// TestAcceptances: each kind of finding that can be accepted, and those that
// cannot.
func TestAcceptances(t *testing.T) {
	ns := func(values []float64) string { return header + lines("BenchmarkA-8 10 %s ns/op", values...) }
	base := ns(around(100, .01, 6))
	wild := ns(around(100, .2, 6))
	for _, c := range []struct {
		name, base, head, accept string
		want                     Verdict
		reason                   string
	}{
		{"regression", base, ns(around(120, .01, 6)), "ns/op:A known", Accepted, "regression: known"},
		{"without a reason", base, ns(around(120, .01, 6)), "ns/op:A", Accepted, "regression"},
		{"tidied unit", base, ns(around(120, .01, 6)), "sec/op:BenchmarkA-8 known", Accepted, "regression: known"},
		{"changed", "Unit x assume=exact\nBenchmarkA-8 10 17 x\n", "Unit x assume=exact\nBenchmarkA-8 10 18 x\n", "x:A known", Accepted, "changed: known"},
		{"missing benchmark", base + "BenchmarkB-8 10 5 x\n", base, "*:B gone", Accepted, "missing: gone"},
		{"missing unit", strings.ReplaceAll(base, "ns/op", "ns/op 5 x"), base, "x:A gone", Accepted, "missing: gone"},
		{"suspect", wild, ns(around(107, .2, 6)), "ns/op:* known", Accepted, "suspect: known"},
		{"definitions", "harness-metrics: v1\n" + base, "harness-metrics: v2\n" + base, "harness-metrics:* v2", Accepted,
			"incomparable: v2"},
		{"definitions by another unit", "harness-metrics: v1\n" + base, "harness-metrics: v2\n" + base, "ns/op:* v2", Incomparable,
			"harness-metrics: v1 in base, v2 in head"},
		{"other machine", "cpu: x\n" + base, "cpu: y\n" + base, "*:* known", Incomparable, "cpu: x in base, y in head"},
		{"NaN", base, base + "BenchmarkA-8 1 NaN ns/op\n", "*:* known", Incomparable, "1 non-finite sample left out: NaN ns/op at f.txt:10"},
		{"too few", base, ns(around(120, .01, 5)), "*:* known", Incomparable, "too few samples: want 6 a side"},
		{"noisy", wild, wild, "*:* known", Noisy, ""},
		{"ok", base, base, "*:* known", OK, ""},
		{"improvement", base, ns(around(80, .01, 6)), "*:* known", Improvement, ""},
		{"other name", base, ns(around(120, .01, 6)), "ns/op:B known", Regression, ""},
		{"other unit", base, ns(around(120, .01, 6)), "B/op:A known", Regression, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, err := ParseAcceptance(c.accept, "-accept")
			require.NoError(t, err)
			r := Compare(readSet(t, c.base), readSet(t, c.head), &Policy{Accept: []Acceptance{a}})
			row := r.Rows[0]
			for _, other := range r.Rows {
				if other.Verdict == Accepted {
					row = other
				}
			}
			require.Equal(t, c.want, row.Verdict)
			if c.want == Accepted || c.want == Incomparable {
				require.Contains(t, row.Reason, c.reason)
			}
			note := "nothing to accept: " + a.Unit + ":" + a.Name + ", of -accept"
			if c.want == Accepted {
				require.Equal(t, "accepted by -accept", row.Rule)
				require.NotContains(t, r.Notes, note)
				require.Equal(t, CodePass, r.Code())
			} else {
				require.Contains(t, r.Notes, note)
			}
		})
	}
}

func TestStrict(t *testing.T) {
	wild := lines("BenchmarkA-8 10 %s ns/op", around(100, .2, 6)...)
	for strict, code := range map[string]int{"": CodePass, "strict: false": CodePass, "strict: true": CodeNoVerdict} {
		r := Compare(readSet(t, wild), readSet(t, wild), policy(t, strict))
		require.Equal(t, Noisy, r.Rows[0].Verdict)
		require.Equal(t, code, r.Code(), strict)
	}
}

// TestCompareExact: whatever the machine, exact values are what they were.
func TestCompareExact(t *testing.T) {
	run := func(keys, name, values string) string {
		return keys + "Unit x assume=exact\nUnit ok/op assume=exact better=higher\n" + strings.Repeat("Benchmark"+name+" 10 "+values+"\n", 2)
	}
	for _, c := range []struct {
		name, base, head string
		want             string
		code             int
	}{
		{"other machine", run("cpu: a\ngoos: linux\n", "A-8", "5 ns/op 17 x"), run("cpu: b\ngoos: windows\n", "A", "9 ns/op 17 x"), "1 ok", CodePass},
		{"changed", run("", "A-8", "17 x"), run("", "A-4", "18 x"), "1 changed", CodeWorse},
		{"better", run("", "A-8", "0.5 ok/op"), run("", "A-8", "1 ok/op"), "1 improvement", CodePass},
		{"missing row", run("", "A-8", "17 x 5 ok/op"), run("", "A-8", "17 x"), "1 missing, 1 ok", CodeNoVerdict},
		{"missing benchmark", run("", "A-8", "17 x") + run("", "B-8", "17 x"), run("", "A-8", "17 x"), "1 missing, 1 ok", CodeNoVerdict},
		{"new row", run("", "A-8", "17 x"), run("", "A-8", "17 x 5 ok/op"), "1 new, 1 ok", CodePass},
		{"definitions", run("harness-metrics: v1\n", "A-8", "17 x"), run("harness-metrics: v2\n", "A-8", "17 x"), "1 incomparable", CodeNoVerdict},
		{"nothing exact", "BenchmarkA-8 10 5 ns/op\n", "BenchmarkA-8 10 5 ns/op\n", "nothing to judge", CodeNoVerdict},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := CompareExact(readSet(t, c.base), readSet(t, c.head), nil)
			require.Equal(t, c.want, r.Summary())
			require.Equal(t, c.code, r.Code())
			require.NotContains(t, strings.Join(r.Notes, "\n"), "interleaved")
		})
	}
}

// FuzzParsePolicy: whatever the text, there is a policy that a comparison takes, or
// an error of one line.
func FuzzParsePolicy(f *testing.F) {
	example, err := os.ReadFile(examplePolicy)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(example)
	f.Add([]byte("a: &a [*a]\nrules: *a\n"))
	f.Add([]byte("rules: [{least: 1e999}]"))
	f.Add([]byte("rules: [{name: '***', unit: '-ns*ns'}]\naccept: [{unit: '*', name: '*', reason: x}]"))
	f.Add([]byte("<<: {strict: true}\nstrict: !!bool yes"))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := ParsePolicy(text, "p.yaml")
		if err != nil {
			if strings.ContainsAny(err.Error(), "\r\n") {
				t.Fatalf("more than one line: %q", err)
			}
			return
		}
		base := readSet(t, "Unit x assume=exact\n"+lines("BenchmarkA-8 10 %s ns/op 17 x 5 score 1 B/op", around(100, .2, 6)...))
		head := readSet(t, "Unit x assume=exact\n"+lines("BenchmarkA-8 10 %s ns/op 18 x 5 score 0 B/op", around(120, .2, 6)...))
		var b strings.Builder
		if err := Compare(base, head, p).Explain(&b); err != nil {
			t.Fatal(err)
		}
	})
}
