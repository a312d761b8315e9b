package benchtests

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// imports says which of our packages each may import, itself or through others.
// A package that is not listed may import none. All may import pkg/freelist.
var imports = map[string][]string{
	"pkg/api":         {"pkg/sse", "pkg/tokens"},
	"pkg/client":      {"pkg/api", "pkg/sse", "pkg/tokens", "pkg/h1"},
	"pkg/dataset":     {"pkg/api", "pkg/tokens", "pkg/sse"},
	"pkg/load":        {"pkg/client", "pkg/dataset", "pkg/pacer", "pkg/api", "pkg/sse", "pkg/tokens", "pkg/h1"},
	"pkg/metric":      {"pkg/client", "pkg/api", "pkg/sse", "pkg/tokens", "pkg/h1", "pkg/prom"},
	"fakeserver":      {"pkg/tokens", "pkg/memnet", "pkg/pacer"},
	"pkg/virtual":     {"fakeserver", "pkg/client", "pkg/memnet", "pkg/api", "pkg/sse", "pkg/tokens", "pkg/pacer", "pkg/h1"},
	"pkg/harness":     {"fakeserver", "pkg/memnet", "pkg/metric", "pkg/load", "pkg/dataset", "pkg/pacer", "pkg/client", "pkg/api", "pkg/sse", "pkg/tokens", "pkg/h1", "pkg/prom"},
	"pkg/cmd/tokpace": {"*"},
	"benchtests":      {"*"},
	"pkg/gate":        {"pkg/strictyaml"},
	"pkg/ab":          {"pkg/gate", "pkg/strictyaml"},
	"pkg/report":      {"pkg/gate", "pkg/strictyaml", "pkg/metric", "pkg/client", "pkg/api", "pkg/sse", "pkg/tokens", "pkg/h1"},

	"fakeserver/profile": {"fakeserver", "pkg/tokens", "pkg/pacer", "pkg/strictyaml"},
}

// light are the packages that users import: they bring the standard library,
// golang.org/x/sys and nothing else.
var light = []string{"fakeserver", "pkg/harness", "pkg/virtual"}

func TestLayout(t *testing.T) {
	var module struct{ Path string }
	list(t, &module, "-m", "-json")
	type pkg struct {
		ImportPath string
		Standard   bool
		Deps       []string
	}
	var ours []pkg
	dec := json.NewDecoder(bytes.NewReader(goList(t, "-json=ImportPath,Deps", module.Path+"/...")))
	for {
		var p pkg
		err := dec.Decode(&p)
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		ours = append(ours, p)
	}
	require.Greater(t, len(ours), 10)
	for _, p := range ours {
		name := strings.TrimPrefix(p.ImportPath, module.Path+"/")
		allowed := imports[name]
		for _, dep := range p.Deps {
			if rest, ok := strings.CutPrefix(dep, module.Path+"/"); ok {
				if rest != "pkg/freelist" && !slices.Contains(allowed, "*") {
					require.Contains(t, allowed, rest, "%s imports %s", name, rest)
				}
				continue
			}
			if slices.Contains(light, name) && strings.Contains(strings.Split(dep, "/")[0], ".") {
				require.True(t, strings.HasPrefix(dep, "golang.org/x/sys/"), "%s, which users import, brings %s", name, dep)
			}
		}
	}
}

func list(t *testing.T, v any, args ...string) {
	t.Helper()
	require.NoError(t, json.Unmarshal(goList(t, args...), v))
}

func goList(t *testing.T, args ...string) []byte {
	t.Helper()
	var stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list"}, args...)...)
	cmd.Env = append(os.Environ(), "GOWORK=off")
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	return out
}
