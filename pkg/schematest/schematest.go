// Package schematest makes the JSON Schemas of testdata from the Go types that
// their files are read into or written from, and so keeps the two in step. It is
// for tests.
package schematest

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

	"github.com/invopop/jsonschema"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite schemas and goldens")

// Update reports whether the test was told to rewrite what it compares with.
func Update() bool { return *update }

// Schema says how types become a schema.
type Schema struct {
	Type reflect.Type // the whole file
	Tag  string       // that has the names of keys: yaml, json

	// Sources are patterns of Go files: what they say about a field is its
	// description.
	Sources []string

	// Names are those of types that have others in the schema.
	Names map[reflect.Type]string

	// Own are types with a schema of their own.
	Own map[reflect.Type]*jsonschema.Schema
}

// Generate returns the schema as it stands in a file.
func (s Schema) Generate(t *testing.T) []byte {
	t.Helper()
	said := s.comments(t)
	r := jsonschema.Reflector{
		Anonymous:    true,
		FieldNameTag: s.Tag,
		Namer: func(t reflect.Type) string {
			if name := s.Names[t]; name != "" {
				return name
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
			if own := s.Own[t]; own != nil {
				each := *own // the reflector adds what is said about the field
				return &each
			}
			return nil
		},
	}
	b, err := json.MarshalIndent(r.Reflect(reflect.New(s.Type).Interface()), "", "  ")
	require.NoError(t, err)
	return append(b, '\n')
}

// Check compares a file with the schema of the types as they are, and returns it.
func (s Schema) Check(t *testing.T, file string) []byte {
	t.Helper()
	got := s.Generate(t)
	Golden(t, file, got)
	return got
}

// Golden compares a file with what was made; with -update it is rewritten.
func Golden(t *testing.T, file string, got []byte) {
	t.Helper()
	if *update {
		require.NoError(t, os.WriteFile(file, got, 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got), "run this test with -update")
}

// comments returns what the sources say about the fields of types.
func (s Schema) comments(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, pattern := range s.Sources {
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
