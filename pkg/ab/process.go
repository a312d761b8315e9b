package ab

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"
)

// killWait is how long a killed child's pipes are waited for.
const killWait = 5 * time.Second

// command prepares a child that leads a process group of its own where there
// are such groups: an interrupt of the terminal does not reach it, and the end
// of ctx kills it with all its descendants.
func command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.WaitDelay = killWait
	ownGroup(cmd)
	return cmd
}

// gitVariables tie a git command to one repository or index. A git hook sets
// them for what it runs, where they would hide the trees that Run works on.
var gitVariables = []string{
	"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX",
	"GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_COMMON_DIR",
}

// cleanEnv is the environment without gitVariables, and without PWD: children
// run in other folders.
func cleanEnv() []string {
	return slices.DeleteFunc(os.Environ(), func(kv string) bool {
		key, _, _ := strings.Cut(kv, "=")
		return key == "PWD" || slices.Contains(gitVariables, key)
	})
}

// childEnv is cleanEnv with temporary files below tmp, so that those of a
// killed compiler or benchmark go away too.
func childEnv(tmp string) []string {
	return append(cleanEnv(), "TMPDIR="+tmp, "TMP="+tmp, "TEMP="+tmp, "GOTMPDIR="+tmp)
}

// binaryName is the file name of a side's test binary.
func binaryName(side string) string {
	if runtime.GOOS == "windows" {
		return side + ".test.exe"
	}
	return side + ".test"
}

// removeAll removes path with all below it. A process that was just killed may
// still be creating a file, so it is tried more than once.
func removeAll(path string) error {
	var err error
	for wait := 10 * time.Millisecond; wait < time.Second; wait *= 2 {
		if err = os.RemoveAll(path); err == nil {
			return nil
		}
		time.Sleep(wait)
	}
	return err
}

// lastLines returns up to n last lines of text, without blank ones.
func lastLines(text []byte, n int) string {
	var lines []string
	for line := range bytes.Lines(text) {
		if line := strings.TrimRight(string(line), " \t\r\n"); line != "" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
