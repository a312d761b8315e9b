package benchtests

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// cases are the publicly reported faults of streaming clients, HTTP clients, load
// generators and fake servers that are kept out by a test named after each.
var cases = []string{
	// framing
	"H01", "H02", "H03", "H04", "H05", "H07",
	// what a stream means
	"H11", "H12", "H13", "H15", "H16", "H17", "H18", "H19", "H20", "H21", "H22",
	// HTTP
	"H24", "H25", "H26", "H27", "H28", "H31", "H33", "H34",
	// embeddings, rerank, pooling
	"H36", "H38", "H40",
	// load generation and statistics
	"H43", "H44", "H45", "H46", "H47", "H48", "H49",
	// the fake server itself
	"H51",
}

// testFunctions are all test functions below a directory, each with its file.
func testFunctions(t *testing.T, dir string) map[*ast.FuncDecl]string {
	t.Helper()
	found := map[*ast.FuncDecl]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != dir && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".")):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") && f.Name.Name != "TestMain" {
				found[f] = path
			}
		}
		return nil
	}))
	return found
}

func TestEachCaseHasItsTest(t *testing.T) {
	name := regexp.MustCompile(`^TestCase(H\d\d)[A-Z]`)
	tested := map[string]bool{}
	for f := range testFunctions(t, "..") {
		if m := name.FindStringSubmatch(f.Name.Name); m != nil {
			tested[m[1]] = true
		}
	}
	for _, c := range cases {
		require.True(t, tested[c], "no test is named TestCase%s…", c)
	}
}

// A goroutine that outlives its test is found there, and not by luck at the end of
// all: each test of the client and of the fake begins with the look for it.
func TestEachTestLooksForLeaks(t *testing.T) {
	for _, dir := range []string{"../pkg/client", "../fakeserver"} {
		n := 0
		for f, path := range testFunctions(t, dir) {
			if filepath.Dir(path) != filepath.FromSlash(dir) {
				continue // a package below
			}
			n++
			require.True(t, beginsWith(f, "noLeaks"), "%s: %s does not begin with noLeaks(t)", path, f.Name.Name)
		}
		require.Greater(t, n, 20, dir)
	}
}

// beginsWith reports whether a function's first statement calls another.
func beginsWith(f *ast.FuncDecl, name string) bool {
	if f.Body == nil || len(f.Body.List) == 0 {
		return false
	}
	stmt, ok := f.Body.List[0].(*ast.ExprStmt)
	if !ok {
		return false
	}
	call, ok := stmt.X.(*ast.CallExpr)
	if !ok {
		return false
	}
	id, ok := call.Fun.(*ast.Ident)
	return ok && id.Name == name
}
