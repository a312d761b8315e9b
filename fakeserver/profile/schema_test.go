package profile

import (
	"encoding/json"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"example.com/tokpace/pkg/schematest"

	"github.com/invopop/jsonschema"
	"github.com/stretchr/testify/require"
)

// The schema in testdata is that of the types as they are.
func TestSchema(t *testing.T) {
	got := schematest.Schema{
		Type:    reflect.TypeFor[document](),
		Tag:     "yaml",
		Sources: []string{"*.go", "../*.go"},
		Names:   map[reflect.Type]string{reflect.TypeFor[document](): "Profile"},
		Own: map[reflect.Type]*jsonschema.Schema{
			reflect.TypeFor[time.Duration](): {Type: "string", Pattern: `^([0-9]+(\.[0-9]*)?(ns|us|µs|ms|s|m|h))+$`, Examples: []any{"50ms"}},
		},
	}.Check(t, filepath.Join(examples, "profile.schema.json"))

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
