package ab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// source is where both sides come from.
type source struct {
	top    string // root of the working tree; empty if it has nothing to do with git
	pkgDir string // the package's folder in the working tree
	rel    string // the same below top, with slashes; empty for the root
	base   string // full hash of the base commit
	out    string // absolute path of the results' folder
}

// locate resolves the configuration's names, and fails for whatever can be known
// to be wrong before the long part begins.
func locate(ctx context.Context, cfg Config) (*source, error) {
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return nil, err
	}
	s := &source{out: cfg.Out}
	if !filepath.IsAbs(s.out) {
		s.out = filepath.Join(dir, s.out)
	}
	if cfg.mode() == commits {
		if _, err := output(ctx, dir, "git", "rev-parse", "--show-toplevel"); err != nil {
			if errors.Is(err, exec.ErrNotFound) {
				return nil, err
			}
			return nil, inputError("%s is in no git working tree: %v", dir, err)
		}
		if s.base, err = resolve(ctx, dir, cfg.Base); err != nil {
			return nil, err
		}
	}

	listed, err := output(ctx, dir, "go", "list", "-f", "{{.Dir}}", "--", cfg.Package)
	if err != nil {
		return nil, inputError("package %s: %v", cfg.Package, err)
	}
	dirs := strings.Split(strings.TrimSpace(string(listed)), "\n")
	if len(dirs) != 1 || dirs[0] == "" {
		return nil, inputError("package %s stands for %d packages, want 1", cfg.Package, len(dirs))
	}
	s.pkgDir = strings.TrimSpace(dirs[0])
	if cfg.mode() == commits {
		err = s.locateBase(ctx, cfg)
	} else {
		s.rel = cfg.Package
	}
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(s.pkgDir)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(entries, func(e os.DirEntry) bool { return isTestFile(e.Name()) }) {
		return nil, inputError("package %s has no test files", cfg.Package)
	}
	return s, nil
}

// locateBase finds the package in the base commit.
func (s *source) locateBase(ctx context.Context, cfg Config) error {
	// Asked for in the package's own folder, so that neither symbolic links nor
	// a package of another repository can lead to a wrong path.
	where, err := output(ctx, s.pkgDir, "git", "rev-parse", "--show-toplevel", "--show-prefix")
	if err != nil {
		return inputError("package %s is in no git working tree: %v", cfg.Package, err)
	}
	top, prefix, _ := strings.Cut(strings.TrimSuffix(string(where), "\n"), "\n")
	s.top = filepath.FromSlash(strings.TrimSpace(top))
	s.rel = strings.TrimSuffix(strings.TrimSpace(prefix), "/")
	if cfg.BenchFromHead {
		return nil // it need not be there
	}
	files, err := output(ctx, s.top, "git", "ls-tree", "--name-only", "-z", s.base+":"+s.rel)
	if err != nil {
		if ctx.Err() != nil {
			return err
		}
		return inputError("package %s does not exist at base %s", cfg.Package, cfg.Base)
	}
	if !slices.ContainsFunc(strings.Split(string(files), "\x00"), isTestFile) {
		return inputError("package %s has no test files at base %s", cfg.Package, cfg.Base)
	}
	return nil
}

func isTestFile(name string) bool { return strings.HasSuffix(name, "_test.go") }

// gitTime bounds the git commands that no interrupt ends.
const gitTime = 5 * time.Minute

// addWorktree checks base out at path. An interrupt does not end it: git would
// leave a half-made worktree behind that it then refuses to prune.
func (s *source) addWorktree(path string) error {
	ctx, cancel := context.WithTimeout(context.Background(), gitTime)
	defer cancel()
	// A folder that does not exist holds no hooks: those of the user are made
	// for checkouts to work in.
	_, err := output(ctx, s.top, "git", "-c", "core.hooksPath="+path+"-hooks",
		"worktree", "add", "--detach", "--force", path, s.base)
	if err != nil {
		err = fmt.Errorf("checking out %.12s: %w", s.base, err)
		// As a rule git has removed what it could not complete.
		if _, statErr := os.Lstat(path); statErr == nil {
			err = errors.Join(err, s.removeWorktree(path))
		}
	}
	return err
}

// removeWorktree removes the worktree at path and git's record of it.
func (s *source) removeWorktree(path string) error {
	ctx, cancel := context.WithTimeout(context.Background(), gitTime)
	defer cancel()
	// The second --force is for a worktree that is still locked by its making.
	_, err := output(ctx, s.top, "git", "worktree", "remove", "--force", "--force", path)
	if err == nil {
		return nil
	}
	// Pruning also forgets other worktrees whose folders are missing, say on a
	// disk that is not mounted, so it is only the second choice.
	if err := removeAll(path); err != nil {
		return err
	}
	_, err = output(ctx, s.top, "git", "worktree", "prune")
	return err
}

// output runs a short command and returns what it printed. Its error is one
// line: the last that the command wrote to stderr.
func output(ctx context.Context, dir, name string, args ...string) ([]byte, error) {
	var stdout, stderr bytes.Buffer
	cmd := command(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = cleanEnv()
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		if said := lastLines(stderr.Bytes(), 1); said != "" && !errors.Is(err, exec.ErrNotFound) {
			return nil, fmt.Errorf("%s %s: %s", name, args[0], said)
		}
		return nil, fmt.Errorf("%s %s: %w", name, args[0], err)
	}
	return stdout.Bytes(), nil
}
