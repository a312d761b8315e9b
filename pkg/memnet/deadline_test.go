package memnet

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A timer that fires while its deadline is being moved must not end the new
// one. The lock is held over the moment of firing, so that the timer's call
// finds the deadline already changed. Which of two timers of the same instant
// fires first is left to chance, hence the rounds.
func TestDeadlineIgnoresATimerThatLostTheRace(t *testing.T) {
	for _, moved := range []time.Duration{0, time.Hour} {
		for range 100 {
			synctest.Test(t, func(t *testing.T) {
				var s stream
				s.init()
				require.NoError(t, s.setReadDeadline(time.Now().Add(time.Second)))
				s.mu.Lock()
				time.Sleep(time.Second)
				to := time.Time{}
				if moved > 0 {
					to = time.Now().Add(moved)
				}
				s.readDeadline.set(to, &s.readable)
				s.mu.Unlock()
				synctest.Wait()
				s.mu.Lock()
				defer s.mu.Unlock()
				require.False(t, s.readDeadline.expired)
				s.readDeadline.stop()
			})
		}
	}
}
