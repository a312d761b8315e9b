package ab_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"example.com/tokpace/pkg/ab"
	"example.com/tokpace/pkg/gate"

	"github.com/stretchr/testify/require"
)

// newOutside is a repository whose benchmark reports what a module beside it and
// the product within it say.
func newOutside(t *testing.T) *repo {
	r := newRepo(t)
	r.write("../beside/go.mod", "module example.com/beside\n\ngo 1.24\n\nrequire example.com/further v0.0.0\n\nreplace example.com/further => ../further\n")
	r.write("../beside/beside.go", "package beside\n\nimport \"example.com/further\"\n\nconst Weight = 10 * further.Weight\n")
	r.write("../further/go.mod", "module example.com/further\n\ngo 1.24\n")
	r.write("../further/further.go", "package further\n\nconst Weight = 1\n")
	r.write("product/go.mod", "module example.com/product\n\ngo 1.24\n")
	r.write("product/product.go", "package product\n\nconst Weight = 1\n")
	r.write("benchtests/bench_test.go", `package benchtests

import (
	"testing"

	"example.com/beside"
	"example.com/product"
)

func BenchmarkWeight(b *testing.B) {
	for b.Loop() {
	}
	b.ReportMetric(beside.Weight+product.Weight, "weight/op")
}
`)
	return r
}

// compareOutside changes the product and compares.
func (r *repo) compareOutside() {
	t := r.t
	t.Helper()
	cfg, _, _ := r.config("HEAD")
	cfg.Count = 1
	r.write("product/product.go", "package product\n\nconst Weight = 2\n")
	dirty := r.git("status", "--porcelain")
	require.NoError(t, run(t.Context(), cfg))
	require.Contains(t, r.read("out/base.txt"), " 11.00 weight/op")
	require.Contains(t, r.read("out/head.txt"), " 12.00 weight/op")
	require.Equal(t, dirty, r.git("status", "--porcelain"))
	r.requireClean()
}

const requireBoth = "module example.com/m\n\ngo 1.24\n\nrequire (\n\texample.com/beside v0.0.0\n\texample.com/further v0.0.0\n\texample.com/product v0.0.0\n)\n"

func TestReplaceOutside(t *testing.T) {
	r := newOutside(t)
	r.write("go.mod", requireBoth+`
replace (
	example.com/beside => ../beside
	example.com/further => ../further
	example.com/product => ./product
)
`)
	r.commit()
	cfg, _, _ := r.config("HEAD")
	cfg.Force = false
	report, err := ab.Run(t.Context(), cfg)
	require.NoError(t, err)
	require.True(t, report.Identical, "paths are part of a binary")
	r.compareOutside()

	// One that is not there is said at once.
	r.write("go.mod", strings.Replace(r.read("go.mod"), "=> ../further", "=> ../gone", 1))
	r.commit()
	r.write("go.mod", strings.Replace(r.read("go.mod"), "=> ../gone", "=> ../further", 1))
	cfg, _, _ = r.config("HEAD")
	err = run(t.Context(), cfg)
	requireCode(t, err, gate.CodeInput)
	require.EqualError(t, err, "base: go.mod replaces example.com/further by "+filepath.Join(filepath.Dir(r.root), "gone")+", and there is no module")
	r.requireClean()
}

func TestWorkspaceOutside(t *testing.T) {
	require.NoError(t, os.Unsetenv("GOWORK"))
	t.Cleanup(func() { os.Setenv("GOWORK", "off") })
	for name, file := range map[string]string{
		"above":   "../go.work",    // of the machine, over all its repositories
		"ignored": "go.work",       // of this checkout
		"tracked": "go.work",       // of the repository
		"named":   "../named.work", // by the variable, with absolute paths
	} {
		t.Run(name, func(t *testing.T) {
			r := newOutside(t)
			r.write("go.mod", requireBoth)
			above := strings.HasPrefix(file, "../")
			text := "go 1.24\n\nuse (\n\t.\n\t./product\n\t../beside\n\t../further\n)\n"
			if above {
				text = "go 1.24\n\nuse (\n\t./repo\n\t./repo/product\n\t./beside\n\t./further\n)\n"
			}
			if name == "named" {
				text = strings.ReplaceAll(text, "./", filepath.ToSlash(filepath.Dir(r.root))+"/")
				t.Setenv("GOWORK", filepath.Join(filepath.Dir(r.root), "named.work"))
			}
			if name == "ignored" {
				r.write(".gitignore", "/out/\ngo.work\n")
			}
			r.write(file, text)
			r.commit()
			r.compareOutside()
		})
	}
}
