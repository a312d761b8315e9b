//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package ab

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Two comparisons do not write to one folder.
func TestFolderIsLocked(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	first, err := openResults(dir, false)
	require.NoError(t, err)
	_, err = openResults(dir, true)
	require.EqualError(t, err, "another comparison is writing to "+dir+": wait for its end, or give another -out")
	require.DirExists(t, dir)
	require.NoError(t, first.discard())
	require.NoDirExists(t, filepath.Dir(dir))
	again, err := openResults(dir, false)
	require.NoError(t, err)
	require.NoError(t, again.discard())
}
