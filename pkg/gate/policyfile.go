package gate

import (
	"fmt"
	"io"
	"os"

	"example.com/tokpace/pkg/strictyaml"
)

// policyFile is a policy as it is written.
type policyFile struct {
	// Noisy rows then have the exit code of rows without a verdict.
	Strict bool `yaml:"strict,omitempty"`
	// How rows are judged. The first rule that matches decides.
	Rules []ruleText `yaml:"rules,omitempty"`
	// Findings that are known and wanted.
	Accept []acceptText `yaml:"accept,omitempty"`
}

type ruleText struct {
	// Benchmarks, * for any text; all if not given. With or without "Benchmark" and -N.
	Name string `yaml:"name,omitempty"`
	// Units, * for any text; all if not given. As printed (-ns) or as benchstat shows them (-sec).
	Unit string `yaml:"unit,omitempty"`
	// Whether a change decides about the exit code. If not given, true for a rule with a unit, else as by default.
	Gate *bool `yaml:"gate,omitempty"`
	// The largest relative change that is none.
	Limit string `yaml:"limit,omitempty" jsonschema:"pattern=^[0-9]+(\\.[0-9]+)?%$,example=5%"`
	// A smaller absolute change is none either; in the unit as benchstat shows it.
	Least *float64 `yaml:"least,omitempty" jsonschema:"minimum=0"`
	// Which way is better.
	Better string `yaml:"better,omitempty" jsonschema:"enum=higher,enum=lower"`
	// Whether any change at all counts.
	Exact *bool `yaml:"exact,omitempty"`
}

type acceptText struct {
	// Units, * for any text; harness-metrics for a new version of the metric definitions.
	Unit string `yaml:"unit"`
	// Benchmarks, * for any text.
	Name string `yaml:"name"`
	// Why it is accepted; the report shows it.
	Reason string `yaml:"reason"`
}

// maxPolicy of a policy file in bytes.
const maxPolicy = 1 << 20

// ParsePolicy reads a policy file, YAML or JSON. An empty one is the zero Policy.
// The name is for messages. Unknown and repeated keys, keys without a value and
// bad values are errors of one line that tell line and column.
func ParsePolicy(data []byte, name string) (*Policy, error) {
	p, err := parsePolicy(data, name)
	if err != nil {
		return nil, fmt.Errorf("policy %s: %w", name, err)
	}
	return p, nil
}

// LoadPolicy is ParsePolicy of a file.
func LoadPolicy(path string) (*Policy, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxPolicy+1))
	if err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	return ParsePolicy(data, path)
}

func parsePolicy(data []byte, name string) (*Policy, error) {
	if len(data) > maxPolicy {
		return nil, fmt.Errorf("over %d bytes", maxPolicy)
	}
	doc, err := strictyaml.Parse(data)
	if err != nil {
		return nil, err
	}
	var text policyFile
	if err := doc.Decode(&text); err != nil {
		return nil, err
	}
	p := &Policy{Strict: text.Strict}
	for i, t := range text.Rules {
		at := fmt.Sprintf("$.rules[%d]", i)
		r := Rule{Name: t.Name, Unit: t.Unit, Gate: t.Gate, Least: t.Least, Better: t.Better, Exact: t.Exact}
		r.From = fmt.Sprintf("%s, rule %d", name, i+1)
		if t.Limit != "" {
			limit, err := parsePercent(t.Limit)
			if err != nil {
				return nil, doc.At(at+".limit", err)
			}
			r.Limit = &limit
		}
		if t.Least != nil && !(*t.Least >= 0 && *t.Least <= maxLeast) {
			return nil, doc.At(at+".least", fmt.Errorf("least is %v, want a number from 0", *t.Least))
		}
		switch t.Better {
		case "", "higher", "lower":
		default:
			return nil, doc.At(at+".better", fmt.Errorf("better is %.40q, want higher or lower", t.Better))
		}
		p.Rules = append(p.Rules, r)
	}
	for i, t := range text.Accept {
		at := fmt.Sprintf("$.accept[%d]", i)
		for _, f := range []struct{ key, value string }{{"unit", t.Unit}, {"name", t.Name}, {"reason", t.Reason}} {
			if f.value == "" {
				return nil, doc.At(at, fmt.Errorf("%s is missing: an acceptance has a unit, a name and a reason", f.key))
			}
		}
		p.Accept = append(p.Accept, Acceptance{Unit: t.Unit, Name: t.Name, Reason: t.Reason, From: name})
	}
	return p, nil
}
