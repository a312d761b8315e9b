package pacer

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// use makes the process's clock a new one for the test.
func use(t *testing.T) *clock {
	t.Helper()
	old := central
	central = newClock()
	t.Cleanup(func() {
		goleak.VerifyNone(t)
		if central.file != nil {
			require.NoError(t, central.file.Close())
		}
		central = old
	})
	return central
}

// Many goroutines wait at once, some give up, and none wakes early.
func TestManyWaiters(t *testing.T) {
	c := use(t)
	var wg sync.WaitGroup
	for g := range 64 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(g)))
			var p Pacer
			for range 30 {
				due := time.Now().Add(time.Duration(rng.IntN(2000)) * time.Microsecond)
				ctx, cancel := context.WithDeadline(t.Context(), due.Add(time.Duration(rng.IntN(800)-200)*time.Microsecond))
				err := p.Until(ctx, due)
				if err == nil && time.Now().Before(due) {
					t.Error("woke too early")
				}
				if err != nil && err != ctx.Err() {
					t.Error(err)
				}
				cancel()
			}
		})
	}
	wg.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	require.Empty(t, c.heap)
	require.False(t, c.lost.Load())
	require.NotNil(t, c.file, "the timerfd was in use")
}

// A deadline that is nearer than all before it is not kept waiting by them.
func TestNearerDeadline(t *testing.T) {
	use(t)
	ctx, cancel := context.WithCancel(t.Context())
	far := make(chan error)
	go func() {
		var p Pacer
		far <- p.Until(ctx, time.Now().Add(time.Hour))
	}()
	for range 20 {
		var p Pacer
		require.NoError(t, p.Until(t.Context(), time.Now().Add(time.Millisecond)))
	}
	cancel()
	require.Equal(t, context.Canceled, <-far)
}

// The last that gives up ends the goroutine that waited for it; the next starts
// another.
func TestNobodyWaits(t *testing.T) {
	c := use(t)
	var p Pacer
	for range 20 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		require.Equal(t, context.DeadlineExceeded, p.Until(ctx, time.Now().Add(time.Hour)))
		cancel()
		if c.file == nil {
			t.Skip("no timerfd here")
		}
		require.Eventually(t, func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			return !c.serves
		}, 10*time.Second, 100*time.Microsecond)
	}
}

// When the timerfd fails, waits go on by time.Timer.
func TestTimerfdLost(t *testing.T) {
	c := use(t)
	due := time.Now().Add(50 * time.Millisecond)
	waited := make(chan error)
	for range 3 {
		go func() {
			var p Pacer
			err := p.Until(t.Context(), due)
			if time.Now().Before(due) {
				t.Error("woke too early")
			}
			waited <- err
		}()
	}
	require.Eventually(t, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.heap) == 3
	}, 10*time.Second, 100*time.Microsecond)
	require.NoError(t, c.file.Close())
	for range 3 {
		require.NoError(t, <-waited)
	}
	require.True(t, c.lost.Load())
	var p Pacer
	due = time.Now().Add(time.Millisecond)
	require.NoError(t, p.Until(t.Context(), due))
	require.False(t, time.Now().Before(due))
	require.NotNil(t, p.timer)
	c.file = nil
}

// Without a timerfd from the start it is the same.
func TestNoTimerfd(t *testing.T) {
	c := use(t)
	c.lost.Store(true)
	var p Pacer
	due := time.Now().Add(time.Millisecond)
	require.NoError(t, p.Until(t.Context(), due))
	require.False(t, time.Now().Before(due))
	require.Nil(t, c.file)
}

// Virtual time does not come near the kernel's clock.
func TestBubbleUsesNoTimerfd(t *testing.T) {
	c := use(t)
	require.False(t, inBubble(time.Now()))
	synctest.Test(t, func(t *testing.T) {
		require.True(t, inBubble(time.Now()))
		p := Pacer{Spin: time.Millisecond}
		due := time.Now().Add(time.Hour)
		require.NoError(t, p.Until(t.Context(), due))
		require.Equal(t, due, time.Now())
	})
	require.Nil(t, c.file)
}

// A wait of centuries does not overflow.
func TestForEver(t *testing.T) {
	use(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	var p Pacer
	require.Equal(t, context.DeadlineExceeded, p.Until(ctx, time.Now().AddDate(5000, 0, 0)))
	require.Equal(t, context.DeadlineExceeded, ctx.Err())
	require.NoError(t, p.Until(t.Context(), time.Unix(0, 0)))
}

func TestSpin(t *testing.T) {
	use(t)
	p := Pacer{Spin: 100 * time.Microsecond}
	for i := range 50 {
		due := time.Now().Add(time.Duration(i*10) * time.Microsecond)
		require.NoError(t, p.Until(t.Context(), due))
		require.False(t, time.Now().Before(due))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.Equal(t, context.Canceled, p.Until(ctx, time.Now().Add(50*time.Microsecond)))
}
