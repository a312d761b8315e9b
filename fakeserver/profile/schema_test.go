package profile

import (
	"encoding/json"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/invopop/jsonschema"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite the schema")

// comments returns what the source says about the fields of the types that a profile is made of.
func comments(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, pattern := range []string{"*.go", "../*.go"} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
			require.NoError(t, err)
			ast.Inspect(f, func(n ast.Node) bool {
				spec, ok := n.(*ast.TypeSpec)
				if !ok {
					return true
				}
				fields, ok := spec.Type.(*ast.StructType)
				if !ok {
					return false
				}
				for _, field := range fields.Fields.List {
					text := field.Doc.Text()
					if text == "" {
						text = field.Comment.Text()
					}
					for _, name := range field.Names {
						out[spec.Name.Name+"."+name.Name] = strings.Join(strings.Fields(text), " ")
					}
				}
				return false
			})
		}
	}
	return out
}

// schema generates the JSON Schema of profiles.
func schema(t *testing.T) []byte {
	t.Helper()
	said := comments(t)
	r := jsonschema.Reflector{
		Anonymous:    true,
		FieldNameTag: "yaml",
		Namer: func(t reflect.Type) string {
			if t == reflect.TypeFor[document]() {
				return "Profile"
			}
			return t.Name()
		},
		LookupComment: func(t reflect.Type, field string) string {
			if field == "" {
				return ""
			}
			return said[t.Name()+"."+field]
		},
		Mapper: func(t reflect.Type) *jsonschema.Schema {
			if t == reflect.TypeFor[time.Duration]() {
				return &jsonschema.Schema{Type: "string", Pattern: `^([0-9]+(\.[0-9]*)?(ns|us|µs|ms|s|m|h))+$`, Examples: []any{"50ms"}}
			}
			return nil
		},
	}
	b, err := json.MarshalIndent(r.Reflect(&document{}), "", "  ")
	require.NoError(t, err)
	return append(b, '\n')
}

// The schema in testdata is that of the types as they are.
func TestSchema(t *testing.T) {
	got := schema(t)
	file := filepath.Join(examples, "profile.schema.json")
	if *update {
		require.NoError(t, os.WriteFile(file, got, 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got), "run go test ./fakeserver/profile -run TestSchema -update")

	var s struct {
		Defs map[string]struct {
			Properties map[string]struct {
				Description string
			}
			AdditionalProperties bool
		} `json:"$defs"`
	}
	s.Defs = nil
	require.NoError(t, json.Unmarshal(got, &s))
	require.Len(t, s.Defs, 5, "Profile, Rule, Match, Fault, Step")
	for name, def := range s.Defs {
		require.NotEmpty(t, def.Properties, name)
		require.False(t, def.AdditionalProperties, name)
	}
	require.Contains(t, s.Defs["Fault"].Properties["stall"].Description, "nothing more comes")
}
