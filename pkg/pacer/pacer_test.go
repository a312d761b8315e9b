package pacer_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"example.com/tokpace/pkg/pacer"

	"github.com/stretchr/testify/require"
)

func TestUntilWakesAtTheVeryTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pacer.Pacer
		start := time.Now()
		for i := range 1000 {
			due := start.Add(time.Duration(i) * 7 * time.Millisecond)
			require.NoError(t, p.Until(t.Context(), due))
			require.Equal(t, due, time.Now())
		}
	})
}

// A deadline that was missed delays no later one.
func TestLatenessIsNotCarriedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pacer.Pacer
		start := time.Now()
		var woke []time.Duration
		for i := range 5 {
			require.NoError(t, p.Until(t.Context(), start.Add(time.Duration(i+1)*10*time.Millisecond)))
			woke = append(woke, time.Since(start))
			if i == 0 {
				time.Sleep(25 * time.Millisecond)
			}
		}
		ms := time.Millisecond
		require.Equal(t, []time.Duration{10 * ms, 35 * ms, 35 * ms, 40 * ms, 50 * ms}, woke)
	})
}

func TestUntilReturnsAtOnceForThePast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pacer.Pacer
		start := time.Now()
		for _, due := range []time.Time{{}, start.Add(-time.Hour), start.Add(-1), start} {
			require.NoError(t, p.Until(t.Context(), due))
			require.Equal(t, start, time.Now())
		}
	})
}

func TestUntilWithoutMonotonicReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pacer.Pacer
		due := time.Now().Add(time.Minute).Round(0)
		require.NoError(t, p.Until(t.Context(), due))
		require.True(t, due.Equal(time.Now()))
	})
}

func TestUntilCanceled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pacer.Pacer
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		require.Equal(t, context.DeadlineExceeded, p.Until(ctx, start.Add(time.Hour)))
		require.Equal(t, 3*time.Second, time.Since(start))
		require.Equal(t, context.DeadlineExceeded, p.Until(ctx, start), "also for a past time")

		// The pacer is as good as new: the canceled wait wakes nobody.
		require.NoError(t, p.Until(t.Context(), start.Add(2*time.Hour)))
		require.Equal(t, 2*time.Hour, time.Since(start))

		ctx, cancel = context.WithCancel(t.Context())
		cancel()
		require.Equal(t, context.Canceled, p.Until(ctx, time.Now().Add(time.Hour)))
		require.Equal(t, 2*time.Hour, time.Since(start))
	})
}

// The deadline and the end of the context fall on the same instant. Both wake
// the goroutine, in an order that nothing fixes.
func TestUntilPrefersTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pacer.Pacer
		for range 100 {
			due := time.Now().Add(time.Second)
			ctx, cancel := context.WithDeadline(t.Context(), due)
			require.NoError(t, p.Until(ctx, due))
			require.Equal(t, due, time.Now())
			cancel()
		}
	})
}

func TestUntilDoesNotAllocate(t *testing.T) {
	var p pacer.Pacer
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	wait := func() {
		due := time.Now().Add(100 * time.Microsecond)
		if err := p.Until(ctx, due); err != nil {
			t.Error(err)
		}
		if time.Now().Before(due) {
			t.Error("woke too early")
		}
	}
	require.Zero(t, testing.AllocsPerRun(50, wait)) // it calls wait once before it counts
}

func Example() {
	var p pacer.Pacer
	ctx := context.Background()
	start := time.Now()
	for i := range 3 {
		due := start.Add(time.Duration(i) * 2 * time.Millisecond)
		if err := p.Until(ctx, due); err != nil {
			return
		}
		fmt.Println("event", i, "not early:", !time.Now().Before(due))
	}
	// Output:
	// event 0 not early: true
	// event 1 not early: true
	// event 2 not early: true
}
