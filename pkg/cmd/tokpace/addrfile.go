package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// writeAddrFile writes addr and a newline to a file at once: whoever sees the
// file sees all of it. The returned function removes the file, unless somebody
// else has written it since.
func writeAddrFile(name, addr string) (remove func(), err error) {
	// A rename would put a file in the place of a device or a link.
	if info, err := os.Lstat(name); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("cannot write the -addr-file: %s is no regular file", name)
	}
	content := []byte(addr + "\n")
	tmp, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+"-*")
	if err == nil {
		_, err = tmp.Write(content)
		// CreateTemp's mode is for secrets; an address is for everybody.
		err = errors.Join(err, tmp.Chmod(0o644), tmp.Close())
		if err == nil {
			err = os.Rename(tmp.Name(), name)
		}
		if err != nil {
			os.Remove(tmp.Name())
		}
	}
	if err != nil {
		return nil, fmt.Errorf("cannot write the -addr-file: %w", err)
	}
	return func() {
		if now, err := os.ReadFile(name); err == nil && bytes.Equal(now, content) {
			os.Remove(name)
		}
	}, nil
}
