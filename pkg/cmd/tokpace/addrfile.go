package main

import (
	"bytes"
	"fmt"
	"os"
)

// writeAddrFile writes addr and a newline to a file at once. The returned function
// removes the file, unless somebody else has written it since.
func writeAddrFile(name, addr string) (remove func(), err error) {
	content := []byte(addr + "\n")
	if err := writeFile(name, content); err != nil {
		return nil, fmt.Errorf("cannot write the -addr-file: %w", err)
	}
	return func() {
		if now, err := os.ReadFile(name); err == nil && bytes.Equal(now, content) {
			os.Remove(name)
		}
	}, nil
}
