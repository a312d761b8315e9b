package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// The peers that are programs. Those in Go are built into the user's cache, so that nothing of them is in this
// repository or in any go.mod.
var goTools = map[string]string{
	"hey":    "github.com/rakyll/hey@v0.1.5",
	"vegeta": "github.com/tsenart/vegeta/v12@v12.13.0",
}

func toolsDir() (string, error) {
	cache, err := os.UserCacheDir()
	return filepath.Join(cache, "tokpace", "perf-tools"), err
}

// findTool returns the path of a peer, "" if it is not there.
func findTool(name string) string {
	if dir, err := toolsDir(); err == nil {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return ""
	}
	return path
}

// installTools installs the peers that are missing.
func installTools(out io.Writer) error {
	dir, err := toolsDir()
	if err != nil {
		return err
	}
	for _, name := range []string{"hey", "vegeta"} {
		if path := findTool(name); path != "" {
			fmt.Fprintf(out, "%s: %s\n", name, path)
			continue
		}
		fmt.Fprintf(out, "%s: building %s into %s\n", name, goTools[name], dir)
		cmd := exec.Command("go", "install", goTools[name])
		// In a folder without go.mod, so that this module's has no say.
		cmd.Dir = os.TempDir()
		cmd.Env = append(os.Environ(), "GOBIN="+dir, "GOWORK=off", "GOFLAGS=")
		cmd.Stdout, cmd.Stderr = out, out
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if path := findTool("wrk"); path != "" {
		fmt.Fprintf(out, "wrk: %s\n", path)
		return nil
	}
	apt, err := exec.LookPath("apt-get")
	if err != nil || os.Geteuid() != 0 {
		return fmt.Errorf("wrk is not there: install it with your system's package manager, as in: sudo apt-get install wrk")
	}
	cmd := exec.Command(apt, "install", "-y", "--no-install-recommends", "wrk")
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("wrk: apt-get: %w (is a package list there? apt-get update gets one)", err)
	}
	return nil
}
