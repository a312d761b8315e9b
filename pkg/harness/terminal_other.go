//go:build !unix && !windows

package harness

import (
	"errors"
	"os"
)

func openTTY() (*os.File, error) { return nil, errors.ErrUnsupported }

func ttyWidth(*os.File) int { return 0 }
