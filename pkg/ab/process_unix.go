//go:build unix

package ab

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ownGroup makes cmd the leader of a new process group, all of which is killed
// when its context ends.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if cmd.Cancel == nil {
		return // it has no context
	}
	cmd.Cancel = func() error {
		err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		if errors.Is(err, syscall.ESRCH) {
			return os.ErrProcessDone
		}
		return err
	}
}

// shellCommand runs a line of the shell in a process group of its own.
func shellCommand(line string) *exec.Cmd {
	cmd := exec.Command("sh", "-c", line)
	cmd.WaitDelay = killWait
	ownGroup(cmd)
	return cmd
}

// stopGroup asks cmd's process group to end, and kills what is left of it after
// the grace. ended is closed when cmd itself has ended. Those that it leaves
// behind are waited for too: they may hold the address, or the GPU.
func stopGroup(cmd *exec.Cmd, ended <-chan struct{}, grace time.Duration) {
	group := -cmd.Process.Pid
	_ = syscall.Kill(group, syscall.SIGTERM)
	deadline := time.Now().Add(grace)
	select {
	case <-ended:
	case <-time.After(grace):
	}
	gone := func(deadline time.Time) bool {
		for wait := time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
			if err := syscall.Kill(group, 0); errors.Is(err, syscall.ESRCH) || onlyZombies(-group) {
				return true
			}
			if time.Now().After(deadline) {
				return false
			}
			time.Sleep(wait)
		}
	}
	if gone(deadline) {
		<-ended
		return
	}
	_ = syscall.Kill(group, syscall.SIGKILL)
	<-ended
	gone(time.Now().Add(killWait))
}

// onlyZombies reports whether all processes of a group have ended and wait for a
// parent that does not ask, as in a container whose first process is no init. It
// looks into Linux's /proc; where that is not, it does not know.
func onlyZombies(group int) bool {
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		// pid (name) state parent group …; the name may hold anything.
		f := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		if len(f) > 2 && f[2] == strconv.Itoa(group) && f[0] != "Z" && f[0] != "X" {
			return false
		}
	}
	return len(files) > 0
}
