package strictyaml

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

type settings struct {
	Name  string            `yaml:"name"`
	Count int               `yaml:"count"`
	Wait  time.Duration     `yaml:"wait"`
	On    *bool             `yaml:"on"`
	Tags  map[string]string `yaml:"tags"`
	Rules []struct {
		Unit string `yaml:"unit"`
		Max  int    `yaml:"max"`
	} `yaml:"rules"`
}

func decode(text string) (settings, *Document, error) {
	var s settings
	d, err := Parse([]byte(text))
	if err == nil {
		err = d.Decode(&s)
	}
	return s, d, err
}

func TestDecode(t *testing.T) {
	on := true
	want := settings{Name: "a b", Count: 3, Wait: time.Second, On: &on, Tags: map[string]string{"x": ""}}
	for _, text := range []string{
		"name: a b\ncount: 3\nwait: 1s\non: true\ntags: {x: ''}\n",
		"# first\n---\nname: 'a b' # why\r\ncount: 3\r\nwait: 1s\r\non: true\r\ntags:\r\n  x: \"\"\r\n",
		`{"name": "a b", "count": 3, "wait": "1s", "on": true, "tags": {"x": ""}}`,
	} {
		s, _, err := decode(text)
		require.NoError(t, err, text)
		require.Equal(t, want, s)
	}
	for _, text := range []string{"", "\n", "# only a comment", "---\n", "---\n# x\n...\n"} {
		s, _, err := decode(text)
		require.NoError(t, err, text)
		require.Zero(t, s)
	}
	kept := settings{Name: "before"}
	d, err := Parse([]byte("count: 1"))
	require.NoError(t, err)
	require.NoError(t, d.Decode(&kept))
	require.Equal(t, settings{Name: "before", Count: 1}, kept, "what the text leaves out stays")
}

// TestMistakes: one line each, with its place.
func TestMistakes(t *testing.T) {
	for text, message := range map[string]string{
		"nmae: a\n":                            `line 1, column 1: unknown field "nmae"`,
		"rules:\n  - unit: a\n    mx: 1\n":     `line 3, column 5: unknown field "mx"`,
		"name: a\nname: b\n":                   `line 2, column 1: mapping key "name" already defined at [1:1]`,
		"name:\n":                              "a value is missing",
		"rules:\n  - unit: ~\n":                "line 2, column 11: a value is missing",
		"tags: {a: null}\n":                    "line 1, column 11: a value is missing",
		"count: many\n":                        "line 1, column 8: ",
		"count: 1.5\n":                         "line 1, column 8: want a whole number, not 1.5",
		"rules: [{max: 1}, {max: 1.5}]\n":      "line 1, column 25: want a whole number, not 1.5",
		"rules:\n  - max: &x 1.5\n":            "line 2, column 13: want a whole number, not 1.5",
		"wait: soon\n":                         `line 1, column 7: time: invalid duration "soon"`,
		"wait: 5\n":                            "line 1, column 7: ",
		"- a\n":                                "line 1, column 1: not a mapping of keys to values",
		"a\n":                                  "line 1, column 1: not a mapping of keys to values",
		"name: a\n---\nname: b\n":              "line 3, column 1: a second document",
		"name: [\n":                            "line 1, column 7: ",
		"name: \"a\n":                          "line 1, column 7: ",
		strings.Repeat("[", maxDepth+1):        "nested over 64 deep",
		strings.Repeat("{a: ", maxDepth+1):     "nested over 64 deep",
		strings.Repeat("- ", maxDepth+1):       "nested over 64 deep",
		strings.Repeat("  ", maxDepth+1) + "a": "nested over 64 deep",
	} {
		_, _, err := decode(text)
		require.ErrorContains(t, err, message, "%.50q", text)
		require.NotContains(t, err.Error(), "\n", "%.50q", text)
	}
}

// TestAt: who checks values finds the place of each, of any form.
func TestAt(t *testing.T) {
	_, d, err := decode("name: a\nrules:\n  - unit: b\n    max: 5\n  - {unit: c}\ntags:\n  x: y\n")
	require.NoError(t, err)
	wrong := errors.New("wrong")
	for path, want := range map[string]string{
		"$.name":          "line 1, column 7: wrong",
		"$.rules[0].max":  "line 4, column 10: wrong",
		"$.rules[0]":      "line 3, column 5: wrong",
		"$.rules[1]":      "line 5, column 6: wrong",
		"$.rules[1].unit": "line 5, column 12: wrong",
		"$.tags":          "line 7, column 3: wrong",
		"$.rules[1].max":  "wrong",
		"$.rules[7]":      "wrong",
		"no path":         "wrong",
	} {
		err := d.At(path, wrong)
		require.EqualError(t, err, want, path)
		require.ErrorIs(t, err, wrong)
		require.Equal(t, want != "wrong", d.Has(path), path)
	}
}
