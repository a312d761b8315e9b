package ab

import (
	"testing"
	"time"
)

// SetClock has a test say what time it is.
func SetClock(t *testing.T, clock func() time.Time) {
	now = clock
	t.Cleanup(func() { now = time.Now })
}
