package client

import (
	"testing"

	"go.uber.org/goleak"
)

// NoLeaks is noLeaks for the tests outside of the package.
var NoLeaks = noLeaks

// noLeaks fails the test if a goroutine outlives it: each begins with it. Parallel
// subtests have ended by the time it looks, and no other test has begun.
func noLeaks(t *testing.T) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
}
