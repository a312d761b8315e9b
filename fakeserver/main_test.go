package fakeserver

import (
	"testing"

	"go.uber.org/goleak"
)

// No goroutine outlives the tests, examples included.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// noLeaks fails the test if a goroutine outlives it: each begins with it, so that it looks when all that the test cleans up
// is gone.
func noLeaks(t *testing.T) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
}
