//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package ab

import "os"

// lockFolder locks nothing: there is no lock here that ends with its process.
func lockFolder(string) (*os.File, error) { return nil, nil }
