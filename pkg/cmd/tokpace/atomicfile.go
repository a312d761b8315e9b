package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// replaceable returns an error if writeFile could not put a file under a name:
// whoever works for minutes before there is something to write asks first.
func replaceable(name string) error {
	// A rename would put a file in the place of a device or a link.
	if info, err := os.Lstat(name); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s is no regular file", name)
	}
	if _, err := os.Stat(filepath.Dir(name)); err != nil {
		return err
	}
	return nil
}

// writeFile puts a file in place at once: whoever sees it sees all of it, and
// after an error there is what was there before.
func writeFile(name string, content []byte) error {
	if err := replaceable(name); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+"-*")
	if err != nil {
		return err
	}
	_, err = tmp.Write(content)
	// CreateTemp's mode is for secrets; what is written here is for everybody.
	err = errors.Join(err, tmp.Chmod(0o644), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), name)
	}
	if err != nil {
		os.Remove(tmp.Name())
	}
	return err
}

// appendFile adds to the end of a file. After an error the file is as it was.
func appendFile(name string, content []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	if _, err = f.WriteAt(content, info.Size()); err != nil {
		err = errors.Join(err, f.Truncate(info.Size()))
	}
	return errors.Join(err, f.Close())
}
