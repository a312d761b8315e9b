//go:build !unix

package ab

import (
	"os/exec"
	"time"
)

// ownGroup leaves cmd as it is: the end of its context kills the child itself,
// and there is no portable way to reach its descendants.
func ownGroup(*exec.Cmd) {}

// shellCommand runs a line of the shell.
func shellCommand(line string) *exec.Cmd {
	cmd := exec.Command("cmd", "/c", line)
	cmd.WaitDelay = killWait
	return cmd
}

// stopGroup kills cmd: it cannot be asked to end.
func stopGroup(cmd *exec.Cmd, ended <-chan struct{}, _ time.Duration) {
	_ = cmd.Process.Kill()
	<-ended
}
