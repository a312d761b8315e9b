//go:build !unix && !windows

package harness

import "example.com/tokpace/pkg/client"

// processTime is unknown here.
func processTime() client.Dur { return client.Dur{} }
