package client

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRecorder(t *testing.T) {
	noLeaks(t)
	type event struct{ choice, ms, events int }
	for name, c := range map[string]struct {
		events []event
		want   []int
	}{
		"none":                    {nil, nil},
		"one":                     {[]event{{0, 10, 1}}, nil},
		"one by one":              {[]event{{0, 10, 1}, {0, 15, 1}, {0, 25, 1}}, []int{5, 10}},
		"several at once":         {[]event{{0, 10, 3}, {0, 15, 2}}, []int{0, 0, 5, 0}},
		"choices take turns":      {[]event{{1, 10, 1}, {0, 11, 1}, {1, 12, 1}, {0, 14, 2}}, []int{3, 0, 2}},
		"a choice before another": {[]event{{5, 1, 2}, {5, 2, 1}, {3, 4, 1}, {5, 8, 1}, {4, 9, 3}, {3, 10, 1}}, []int{6, 0, 0, 0, 1, 6}},
	} {
		t.Run(name, func(t *testing.T) {
			for range 3 { // with memory of the one before
				r := newRecorder()
				for _, e := range c.events {
					if e.events > 1 || !r.again(e.choice, time.Duration(e.ms)) {
						r.add(e.choice, time.Duration(e.ms), e.events)
					}
				}
				var want []time.Duration
				for _, ms := range c.want {
					want = append(want, time.Duration(ms))
				}
				gaps := r.gaps()
				require.Equal(t, want, gaps)
				r.release()
				other := newRecorder()
				other.add(9, 7, 100)
				require.Equal(t, want, gaps, "what was returned is nobody else's")
				other.release()
			}
		})
	}
}

// Recording allocates nothing for an event. (A pool that was emptied costs some growth.)
func TestRecorderAllocatesForNoEvent(t *testing.T) {
	noLeaks(t)
	const events = 1000
	var gaps []time.Duration
	one := func() {
		r := newRecorder()
		for i := range events {
			if !r.again(0, time.Duration(i)) {
				r.add(0, time.Duration(i), 1)
			}
		}
		gaps = r.gaps()
		r.release()
	}
	one()
	require.Less(t, testing.AllocsPerRun(100, one), 20.0)
	require.Len(t, gaps, events-1)
	require.Equal(t, events-1, cap(gaps), "8 bytes each, and not one more")
}

// BenchmarkRecord is what it costs to note the time of an output event, beside an append
// to a slice that has room, which is the least that it can.
func BenchmarkRecord(b *testing.B) {
	const events = 1024
	run := func(name string, stream func()) {
		b.Run("way="+name, func(b *testing.B) {
			n := 0
			for b.Loop() {
				stream()
				n += events
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/event")
			b.ReportMetric(0, "ns/op")
		})
	}
	r := newRecorder()
	defer r.release()
	empty := func() {
		for i := range r.tracks {
			r.tracks[i].n = 0
		}
	}
	run("one-event", func() {
		empty()
		for i := range events {
			if !r.again(0, time.Duration(i)) {
				r.add(0, time.Duration(i), 1)
			}
		}
	})
	// As they come of one read, in which api.Stream takes like events together.
	for _, n := range []int{8, 64} {
		run(fmt.Sprintf("%d-events", n), func() {
			empty()
			for i := 0; i < events; i += n {
				r.add(0, time.Duration(i), n)
			}
		})
	}
	stamps := make([]time.Duration, 0, events)
	run("append", func() {
		stamps = stamps[:0]
		for i := range events {
			stamps = append(stamps, time.Duration(i))
		}
	})
}
