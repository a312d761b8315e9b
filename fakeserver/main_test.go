package fakeserver

import (
	"testing"

	"go.uber.org/goleak"
)

// No goroutine outlives the tests; many of them also look for themselves.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
