package ab

import (
	"errors"
	"os"
	"path/filepath"
)

// results are the files in the output folder. Until commit they have temporary
// names beside their final ones, on the same file system.
type results struct {
	dir             string
	made            string // topmost folder that createResults made; empty if none
	base, head, log *os.File
}

// createResults makes the folder and the temporary files.
func createResults(dir string) (*results, error) {
	r := &results{dir: dir, made: firstMissing(dir)}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, errors.Join(err, r.discard())
	}
	for _, f := range []struct {
		file **os.File
		name string
	}{{&r.base, "base.txt"}, {&r.head, "head.txt"}, {&r.log, "ab.log"}} {
		var err error
		if *f.file, err = os.CreateTemp(dir, "."+f.name+"-*.tmp"); err != nil {
			return nil, errors.Join(err, r.discard())
		}
		// CreateTemp's mode is for secrets; results are for everybody.
		if err := (*f.file).Chmod(0o644); err != nil {
			return nil, errors.Join(err, r.discard())
		}
	}
	return r, nil
}

func (r *results) basePath() string { return filepath.Join(r.dir, "base.txt") }
func (r *results) headPath() string { return filepath.Join(r.dir, "head.txt") }
func (r *results) logPath() string  { return filepath.Join(r.dir, "ab.log") }

// commit puts all files in place of older ones.
func (r *results) commit() error {
	// All are closed before the first is moved: a full disk shows there.
	if err := errors.Join(r.base.Close(), r.head.Close()); err != nil {
		return err
	}
	if err := r.keepLog(); err != nil {
		return err
	}
	// An older base comes back when head cannot be put in place.
	older := r.base.Name() + ".older"
	if err := os.Rename(r.basePath(), older); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	err := os.Rename(r.base.Name(), r.basePath())
	if err == nil {
		err = os.Rename(r.head.Name(), r.headPath())
	}
	if err != nil {
		if restored := os.Rename(older, r.basePath()); errors.Is(restored, os.ErrNotExist) {
			os.Remove(r.basePath())
		}
		return err
	}
	if err := os.Remove(older); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// keepLog puts the log alone in place.
func (r *results) keepLog() error {
	if err := r.log.Close(); err != nil {
		return err
	}
	return os.Rename(r.log.Name(), r.logPath())
}

// discard removes what was made and is not in place, and folders that were made
// and hold nothing.
func (r *results) discard() error {
	var errs []error
	for _, f := range []*os.File{r.base, r.head, r.log} {
		if f == nil {
			continue
		}
		f.Close() // a second time, if it was kept
		if err := os.Remove(f.Name()); !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	if r.made != "" {
		// From the inside out, up to the first that holds something.
		for dir := r.dir; os.Remove(dir) == nil && dir != r.made; {
			dir = filepath.Dir(dir)
		}
	}
	return errors.Join(errs...)
}

// firstMissing returns the topmost folder on the way to dir that does not
// exist, or nothing.
func firstMissing(dir string) string {
	missing := ""
	for {
		if _, err := os.Lstat(dir); !errors.Is(err, os.ErrNotExist) {
			return missing
		}
		missing = dir
		dir = filepath.Dir(dir)
	}
}
