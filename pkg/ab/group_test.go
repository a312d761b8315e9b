//go:build unix

package ab

import (
	"bufio"
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Who does not listen is killed, children included.
func TestStopGroupKills(t *testing.T) {
	cmd := shellCommand(`trap '' TERM; sh -c 'trap "" TERM; echo ready; while :; do sleep 100; done' & wait; while :; do sleep 100; done`)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "ready\n", line)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	stopGroup(cmd, ended, 50*time.Millisecond)
	err = syscall.Kill(-cmd.Process.Pid, 0)
	require.True(t, errors.Is(err, syscall.ESRCH) || onlyZombies(cmd.Process.Pid), "%v", err)
}
