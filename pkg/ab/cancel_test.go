//go:build unix

package ab_test

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"testing"

	"example.com/tokpace/pkg/gate"

	"github.com/stretchr/testify/require"
)

// An interrupt in the middle of a sample ends the benchmark and its own child,
// and leaves neither files nor a worktree.
func TestRunCanceledInTheMiddle(t *testing.T) {
	r := newRepo(t)
	r.write("benchtests/bench_test.go", `package benchtests

import (
	"io"
	"net"
	"os"
	"os/exec"
	"testing"
)

// call connects to the test and stays until the test lets it go.
func call(b *testing.B) {
	c, err := net.Dial("tcp", os.Getenv("AB_TEST_ADDR"))
	if err != nil {
		b.Fatal(err)
	}
	io.Copy(io.Discard, c)
}

func BenchmarkCall(b *testing.B) {
	b.TempDir()
	if os.Getenv("AB_TEST_CHILD") == "" {
		cmd := exec.Command(os.Args[0], os.Args[1:]...)
		cmd.Env = append(os.Environ(), "AB_TEST_CHILD=1")
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		defer cmd.Wait()
	}
	call(b)
}
`)
	r.commit()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	t.Setenv("AB_TEST_ADDR", l.Addr().String())

	ctx, cancel := context.WithCancelCause(t.Context())
	cfg, stdout, stderr := r.config("HEAD")
	cfg.Iters = 1
	cfg.Out = filepath.Join("out", "deeper")
	done := make(chan error, 1)
	go func() { done <- run(ctx, cfg) }()

	// Parent and child of a sample call once each. Those of the trial run and
	// of the first sample may go on; the second sample is held.
	var held []net.Conn
	for i := range 6 {
		c, err := l.Accept()
		require.NoError(t, err)
		if i < 4 {
			require.NoError(t, c.Close())
		} else {
			held = append(held, c)
		}
	}
	cancel(errors.New("interrupt signal received"))
	err = <-done
	requireCode(t, err, gate.CodeInput)
	require.EqualError(t, err, "interrupt signal received")
	for _, c := range held {
		// Ends only with the process at the other end.
		_, err := c.Read(make([]byte, 1))
		require.Error(t, err)
		require.NoError(t, c.Close())
	}
	require.Contains(t, stderr.String(), "expected: 3 pairs")
	require.Empty(t, stdout.String())
	require.NoDirExists(t, filepath.Join(r.root, "out"))
	r.requireClean()
}
