package ab

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// What a benchmark can read counts, and only that.
func TestContent(t *testing.T) {
	top := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(top, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o777))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o666))
	}
	binary := filepath.Join(t.TempDir(), "binary")
	require.NoError(t, os.WriteFile(binary, []byte("x"), 0o666))
	write("bench/a_test.go", "1")
	write("go.mod", "1")
	of := func(rel string) string {
		sum, err := content(binary, top, rel, filepath.Join(top, "bench", "out"))
		require.NoError(t, err)
		require.Equal(t, sum, func() string { s, _ := content(binary, top, rel, filepath.Join(top, "bench", "out")); return s }())
		return sum
	}
	for _, name := range []string{"bench/a_test.go", "bench/out/base.txt", "go.mod", "other/x", "benches/x", "other/testdata.txt", ".git/testdata/x"} {
		before := of("bench")
		write(name, "2")
		require.Equal(t, before, of("bench"), name)
	}
	for _, name := range []string{"bench/a.json", "bench/sub/b", "bench/testdata/a.go", "testdata/a", "other/testdata/deep/a"} {
		before := of("bench")
		write(name, "2")
		with := of("bench")
		require.NotEqual(t, before, with, name)
		write(name, "3")
		require.NotEqual(t, with, of("bench"), name)
		require.NoError(t, os.Remove(filepath.Join(top, filepath.FromSlash(name))))
		require.Equal(t, before, of("bench"), name)
	}
	before := of("")
	write("other/y", "2")
	require.NotEqual(t, before, of(""), "of a package at the root")
	before = of("bench")
	if err := os.Symlink("a", filepath.Join(top, "bench", "link")); err == nil {
		require.NotEqual(t, before, of("bench"))
	}
	before = of("bench")
	require.NoError(t, os.WriteFile(binary, []byte("y"), 0o666))
	require.NotEqual(t, before, of("bench"))
}

// Settings are part of what is compared; secrets are in no digest of them.
func TestSettings(t *testing.T) {
	of := settings([]string{"TOKPACE_SEED=1", "HOME=/a", "TOKPACE_BASE_URL=http://u:one@h/v1?key=one"})
	require.Equal(t, of, settings([]string{"TOKPACE_BASE_URL=http://u:two@h/v1?key=two", "HOME=/b", "TOKPACE_SEED=1"}))
	require.NotEqual(t, of, settings([]string{"TOKPACE_SEED=2", "TOKPACE_BASE_URL=http://h/v1"}))
	require.NotEqual(t, of, settings([]string{"TOKPACE_SEED=1", "TOKPACE_BASE_URL=http://g/v1"}))
	key := settings([]string{"TOKPACE_API_KEY=one", "TOKPACE_HEADER=A=one"})
	require.Equal(t, key, settings([]string{"TOKPACE_API_KEY=two", "TOKPACE_HEADER=A=two"}))
}
