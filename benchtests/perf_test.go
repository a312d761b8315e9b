package benchtests

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// What make perf runs is a module of its own, which no other test would
// compile. Its tests say what it measures nothing without: that its servers and
// clients are right, and that README has what it promises.
func TestPerfModule(t *testing.T) {
	inModule := func(args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir = "../testdata/perf"
		cmd.Env = append(os.Environ(), "GOWORK=off")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := inModule("mod", "download"); err != nil {
		t.Skipf("the modules of testdata/perf are neither in the cache nor to be had: %s", out)
	}
	for _, args := range [][]string{{"mod", "tidy", "-diff"}, {"vet", "."}, {"test", "."}} {
		out, err := inModule(args...)
		require.NoError(t, err, "go %v: %s", args, out)
	}
}
