package ab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// modules is how the go command finds the modules of a side: what is outside of
// the repository is not beside the worktree of base. Where go.mod or go.work lead
// out of the tree, both sides are built with copies that hold absolute paths; in
// the working tree too, as paths are part of a binary.
type modules struct {
	flags, env []string
}

// moduleFile is what matters of `go mod edit -json` and `go work edit -json`.
type moduleFile struct {
	Use     []struct{ DiskPath string }
	Replace []replacement
}

type replacement struct {
	Old, New struct{ Path, Version string }
}

func (r replacement) flag(path string) string {
	old := r.Old.Path
	if r.Old.Version != "" {
		old += "@" + r.Old.Version
	}
	return "-replace=" + old + "=" + path
}

// local reports whether the replacement is a folder.
func (r replacement) local() bool { return r.New.Version == "" }

// tree is a side's copy of the working tree, which for head is the working tree
// itself.
type tree struct {
	name, dir, top string
}

// place returns where a path of the working tree is for the side. Other paths
// are the same for both.
func (t tree) place(path string) string {
	if rel, ok := within(path, t.top); ok {
		return filepath.Join(t.dir, rel)
	}
	return path
}

// within returns path relative to dir if it is dir or below.
func within(path, dir string) (string, bool) {
	rel, err := filepath.Rel(dir, path)
	return rel, err == nil && filepath.IsLocal(rel)
}

// resolve returns where a path of a file in the folder dir leads, as a path of the
// working tree or outside of it, and whether it is outside.
func (t tree) resolve(dir, path string) (full string, outside bool) {
	if rel, ok := within(dir, t.dir); ok {
		dir = filepath.Join(t.top, rel)
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, filepath.FromSlash(path))
	}
	_, inside := within(path, t.top)
	return path, !inside
}

// outside finds the modules of the side whose tree is in dir.
func (r *runner) outside(ctx context.Context, src *source, dir, name string) (modules, error) {
	t := tree{name: name, dir: dir, top: src.top}
	work, err := r.workspace(ctx, src, t)
	if err != nil {
		return modules{}, err
	}
	if work != "" {
		return r.editWorkspace(ctx, t, work)
	}
	pkg := filepath.Join(dir, filepath.FromSlash(src.rel))
	mod, err := goEnv(ctx, pkg, "GOMOD")
	if err != nil || mod == "" || mod == os.DevNull {
		return modules{}, err // the build will tell
	}
	root := filepath.Dir(mod)
	off := []string{"GOWORK=off"}
	if name == "head" {
		off = nil // as it is
	}
	if _, err := os.Stat(filepath.Join(root, "vendor", "modules.txt")); err == nil {
		return modules{env: off}, nil // all is inside
	}
	edits, err := t.replacements(ctx, mod)
	if err != nil || len(edits) == 0 {
		return modules{env: off}, err
	}
	file := filepath.Join(r.tmp, name+".mod")
	if err := copyWith(mod, file, "go.sum", name+".sum"); err != nil {
		return modules{}, err
	}
	if _, err := output(ctx, r.tmp, "go", append(append([]string{"mod", "edit"}, edits...), file)...); err != nil {
		return modules{}, err
	}
	return modules{flags: []string{"-modfile=" + file}, env: off}, nil
}

// workspace returns the go.work file of a side, which may be one that git does
// not know, in the working tree or above it. It is empty if there is none.
func (r *runner) workspace(ctx context.Context, src *source, t tree) (string, error) {
	work, err := goEnv(ctx, src.pkgDir, "GOWORK")
	if err != nil {
		return "", err
	}
	if work == "off" {
		return "", nil
	}
	if work == "" {
		// Base may have one that is gone by now.
		own, err := goEnv(ctx, filepath.Join(t.dir, filepath.FromSlash(src.rel)), "GOWORK")
		if _, inside := within(own, t.dir); err != nil || own == "" || !inside {
			return "", err
		}
		return own, nil
	}
	rel, inside := within(work, t.top)
	if !inside {
		return work, nil
	}
	own := filepath.Join(t.dir, rel)
	if _, err := os.Stat(own); err == nil {
		return own, nil
	}
	if _, err := output(ctx, src.top, "git", "ls-files", "--error-unmatch", "--", rel); err == nil {
		return "", nil // base is older than its workspace
	}
	return work, ctx.Err()
}

// editWorkspace makes a go.work for a side if its own leads outside.
func (r *runner) editWorkspace(ctx context.Context, t tree, work string) (modules, error) {
	var f moduleFile
	if err := goJSON(ctx, &f, "work", work); err != nil {
		return modules{}, err
	}
	_, needed := within(work, t.dir)
	needed = !needed
	dir := filepath.Dir(work)
	edits := []string{}
	for _, u := range f.Use {
		full, outside := t.resolve(dir, u.DiskPath)
		needed = needed || outside
		mod := filepath.Join(t.place(full), "go.mod")
		edits = append(edits, "-dropuse="+u.DiskPath)
		if _, err := os.Stat(mod); err != nil {
			if outside {
				return modules{}, inputError("%s: %s uses %s, and there is no module", t.name, work, full)
			}
			continue // younger than base
		}
		edits = append(edits, "-use="+t.place(full))
		if outside {
			continue // what it replaces is where it was
		}
		more, err := t.replacements(ctx, mod)
		if err != nil {
			return modules{}, err
		}
		needed = needed || len(more) > 0
		edits = append(edits, more...)
	}
	for _, rep := range f.Replace { // these win
		if rep.local() {
			full, outside := t.resolve(dir, rep.New.Path)
			needed = needed || outside
			edits = append(edits, rep.flag(t.place(full)))
		}
	}
	if !needed {
		return modules{env: []string{"GOWORK=" + work}}, nil
	}
	file := filepath.Join(r.tmp, t.name+".work")
	if err := copyWith(work, file, filepath.Base(work)+".sum", t.name+".work.sum"); err != nil {
		return modules{}, err
	}
	if _, err := output(ctx, r.tmp, "go", append(append([]string{"work", "edit"}, edits...), file)...); err != nil {
		return modules{}, err
	}
	return modules{env: []string{"GOWORK=" + file}}, nil
}

// replacements are the edits of a go.mod that a side needs to find the folders
// outside of the repository.
func (t tree) replacements(ctx context.Context, mod string) (edits []string, err error) {
	var f moduleFile
	if err := goJSON(ctx, &f, "mod", mod); err != nil {
		return nil, err
	}
	for _, rep := range f.Replace {
		if !rep.local() {
			continue
		}
		full, outside := t.resolve(filepath.Dir(mod), rep.New.Path)
		switch absolute := filepath.IsAbs(rep.New.Path); {
		case outside && !absolute:
			if _, err := os.Stat(filepath.Join(full, "go.mod")); err != nil {
				return nil, inputError("%s: go.mod replaces %s by %s, and there is no module", t.name, rep.Old.Path, full)
			}
			edits = append(edits, rep.flag(full))
		case !outside && absolute && t.dir != t.top:
			edits = append(edits, rep.flag(t.place(full)))
		}
	}
	return edits, nil
}

// goEnv is a variable of the go command in a folder.
func goEnv(ctx context.Context, dir, name string) (string, error) {
	if _, err := os.Stat(dir); err != nil {
		return "", nil // base has no such package, which is said elsewhere
	}
	out, err := output(ctx, dir, "go", "env", name)
	return strings.TrimSpace(string(out)), err
}

func goJSON(ctx context.Context, v *moduleFile, kind, file string) error {
	out, err := output(ctx, filepath.Dir(file), "go", kind, "edit", "-json", file)
	if err != nil {
		return inputError("%v", err)
	}
	if err := json.Unmarshal(out, v); err != nil {
		return fmt.Errorf("go %s edit -json: %w", kind, err)
	}
	return nil
}

// copyWith copies a file, and the sums beside it if there are any.
func copyWith(src, dst, srcSum, dstSum string) error {
	if err := copyFile(dst, src); err != nil {
		return err
	}
	err := copyFile(filepath.Join(filepath.Dir(dst), dstSum), filepath.Join(filepath.Dir(src), srcSum))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}
