package ab

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// overlay replaces the _test.go files and the testdata folder of a package by
// those of another folder.
func overlay(dst, src string) error {
	if err := os.MkdirAll(dst, 0o777); err != nil {
		return err
	}
	old, err := os.ReadDir(dst)
	if err != nil {
		return err
	}
	for _, e := range old {
		if isTestFile(e.Name()) {
			if err := os.Remove(filepath.Join(dst, e.Name())); err != nil {
				return err
			}
		}
	}
	if err := removeAll(filepath.Join(dst, "testdata")); err != nil {
		return err
	}
	entries, err := os.ReadDir(src)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if isTestFile(e.Name()) {
			if err := copyFile(filepath.Join(dst, e.Name()), filepath.Join(src, e.Name())); err != nil {
				return err
			}
		}
	}
	// os.CopyFS does not take symbolic links, which may be part of the data.
	return filepath.WalkDir(filepath.Join(src, "testdata"), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) && path == filepath.Join(src, "testdata") {
				return nil
			}
			return err
		}
		name, err := filepath.Rel(src, path)
		if err != nil {
			return err
		}
		to := filepath.Join(dst, name)
		switch {
		case d.IsDir():
			return os.MkdirAll(to, 0o777)
		case d.Type()&fs.ModeSymlink != 0:
			link, err := os.Readlink(path)
			if err != nil {
				return err
			}
			return os.Symlink(link, to)
		case d.Type().IsRegular():
			return copyFile(to, path)
		}
		return nil
	})
}

func copyFile(dst, src string) error {
	info, err := os.Stat(src)
	if err != nil {
		return err
	}
	data, err := os.ReadFile(src)
	if err != nil {
		return err
	}
	return os.WriteFile(dst, data, info.Mode().Perm()|0o200)
}
