//go:build unix

package load_test

import (
	"os/signal"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// limitFileSize makes writes beyond a size fail, as they do on a full disk.
func limitFileSize(t *testing.T, size uint64) {
	t.Helper()
	var old syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old))
	signal.Ignore(syscall.SIGXFSZ)
	limited := old
	limited.Cur = size
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limited))
	t.Cleanup(func() {
		require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old))
		signal.Reset(syscall.SIGXFSZ)
	})
}
