//go:build !linux

package benchtests

// idle does not know here, so what is found out counts.
func idle() bool { return true }
