package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const heldBenchmark = `package held

import (
	"io"
	"net"
	"os"
	"testing"
)

// The test lets each process go.
func BenchmarkHeld(b *testing.B) {
	c, err := net.Dial("tcp", os.Getenv("AB_TEST_ADDR"))
	if err != nil {
		b.Fatal(err)
	}
	io.Copy(io.Discard, c)
	for b.Loop() {
	}
}
`

// A signal keeps the finished pairs and ends all else; the progress is on the
// terminal alone.
func TestABInterrupted(t *testing.T) {
	cleanEnv(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	for _, tc := range []struct {
		signal os.Signal
		args   []string
		code   int
	}{
		{syscall.SIGHUP, nil, 2},
		{syscall.SIGTERM, []string{"-bisect", "-resume"}, 130},
	} {
		dir, tmp := t.TempDir(), t.TempDir()
		for name, text := range map[string]string{"go.mod": "module example.com/held\n\ngo 1.24\n", "held_test.go": heldBenchmark} {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666))
		}
		start := func(args ...string) (*exec.Cmd, *bytes.Buffer, *bytes.Buffer) {
			// The sides are two servers that nobody calls: that needs no repository.
			cmd := exec.Command("tokpace", append([]string{"ab", "-iters", "1",
				"-base-target", "http://127.0.0.1:1", "-head-target", "http://127.0.0.1:2"}, append(args, ".")...)...)
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "AB_TEST_ADDR="+l.Addr().String(), "TMPDIR="+tmp, "GOFLAGS=-ldflags=-w", "GOWORK=off")
			var stdout, stderr bytes.Buffer
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			return cmd, &stdout, &stderr
		}
		end := func(cmd *exec.Cmd, signal os.Signal, letGo int) {
			for range letGo {
				c, err := l.Accept()
				require.NoError(t, err)
				require.NoError(t, c.Close())
			}
			held, err := l.Accept()
			require.NoError(t, err)
			require.NoError(t, cmd.Process.Signal(signal))
			_ = cmd.Wait()
			_, err = held.Read(make([]byte, 1))
			require.ErrorIs(t, err, io.EOF, "the benchmark lives on")
			require.NoError(t, held.Close())
			left, err := os.ReadDir(tmp)
			require.NoError(t, err)
			require.Empty(t, left)
		}

		cmd, stdout, stderr := start()
		screen := terminal(t, cmd)
		require.NoError(t, cmd.Start())
		end(cmd, tc.signal, 3) // a trial and a pair
		shown := screen()
		require.Contains(t, shown, "\r\x1b[Kpair 1 of 10, look 1 of 4, done ")
		require.True(t, strings.HasSuffix(shown, "\r\x1b[K"), "%q", shown)
		require.Empty(t, stdout.String())
		require.NotContains(t, stderr.String(), "look")
		require.Equal(t, 2, cmd.ProcessState.ExitCode())
		require.Regexp(t, fmt.Sprintf(`\ntokpace: %v signal received; 1 finished pair kept in \S+: -resume goes on\n$`, tc.signal), stderr.String())

		if tc.args == nil {
			continue
		}
		cmd, _, stderr = start(tc.args...)
		require.NoError(t, cmd.Start())
		end(cmd, tc.signal, 3) // a trial and a pair again
		require.Equal(t, tc.code, cmd.ProcessState.ExitCode(), "%s", stderr)
		require.Contains(t, stderr.String(), "\nresuming after 1 pair\n")
		require.Contains(t, stderr.String(), "; 2 finished pairs kept in ")
	}
}

// terminal gives a command that has not started a terminal of its own. The result
// returns what was shown there, when the command has ended.
func terminal(t *testing.T, cmd *exec.Cmd) (screen func() string) {
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	require.NoError(t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	cmd.Stdin = slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
	shown := make(chan string, 1)
	go func() {
		text, _ := io.ReadAll(master) // an error when the last side is closed
		shown <- string(text)
	}()
	return func() string {
		require.NoError(t, slave.Close())
		defer master.Close()
		return <-shown
	}
}
