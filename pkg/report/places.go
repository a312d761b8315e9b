package report

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/modfile"
)

// Places finds the source of benchmarks in a working tree.
type Places struct {
	root   string // of the repository
	dir    string // of the module
	module string // its path; empty if there is none
	found  map[string]map[string]place
}

type place struct {
	file string // relative to root, with slashes
	line int
}

// NewPlaces is for the module that the folder dir is in. Where dir is in no
// module, nothing will be found.
func NewPlaces(dir string) *Places {
	p := &Places{found: map[string]map[string]place{}}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return p
	}
	for ; ; dir = filepath.Dir(dir) {
		if p.module == "" {
			if text, err := os.ReadFile(filepath.Join(dir, "go.mod")); err == nil {
				p.dir, p.module, p.root = dir, modfile.ModulePath(text), dir
			}
		}
		// A worktree has a file of this name.
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			p.root = dir
			return p
		}
		if filepath.Dir(dir) == dir {
			return p
		}
	}
}

// Find returns where the function of a benchmark stands: a file, relative to the
// root of the repository and with slashes, and the line. pkg is an import path, the
// name that of a row. The file is empty if it is not known.
func (p *Places) Find(pkg, name string) (file string, line int) {
	if p == nil || p.module == "" {
		return "", 0
	}
	rel, ok := strings.CutPrefix(pkg, p.module)
	if !ok || rel != "" && rel[0] != '/' || !filepath.IsLocal(filepath.FromSlash("."+rel)) {
		return "", 0
	}
	if p.found[pkg] == nil {
		p.found[pkg] = p.scan(filepath.Join(p.dir, filepath.FromSlash(rel)))
	}
	if i := strings.IndexAny(name, "/-"); i >= 0 { // sub-benchmark, GOMAXPROCS
		name = name[:i]
	}
	at := p.found[pkg]["Benchmark"+name]
	return at.file, at.line
}

// scan finds all benchmark functions of a folder. Of a file that cannot be parsed
// it takes what is there.
func (p *Places) scan(dir string) map[string]place {
	found := map[string]place{}
	files, _ := os.ReadDir(dir)
	for _, entry := range files {
		if !strings.HasSuffix(entry.Name(), "_test.go") || !entry.Type().IsRegular() {
			continue
		}
		path := filepath.Join(dir, entry.Name())
		set := token.NewFileSet()
		f, _ := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		rel, err := filepath.Rel(p.root, path)
		if f == nil || err != nil {
			continue
		}
		for _, decl := range f.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Benchmark") {
				if _, twice := found[fn.Name.Name]; !twice { // by another build tag
					found[fn.Name.Name] = place{filepath.ToSlash(rel), set.Position(fn.Name.Pos()).Line}
				}
			}
		}
	}
	return found
}
