package client

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRecorder(t *testing.T) {
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
					r.note(e.choice, time.Duration(e.ms), e.events)
				}
				var want []time.Duration
				for _, ms := range c.want {
					want = append(want, time.Duration(ms))
				}
				gaps := r.gaps()
				require.Equal(t, want, gaps)
				r.release()
				other := newRecorder()
				other.note(9, 7, 100)
				require.Equal(t, want, gaps, "what was returned is nobody else's")
				other.release()
			}
		})
	}
}

// Recording allocates nothing for an event. (A pool that was emptied costs some growth.)
func TestRecorderAllocatesForNoEvent(t *testing.T) {
	const events = 1000
	var gaps []time.Duration
	one := func() {
		r := newRecorder()
		for i := range events {
			r.note(0, time.Duration(i), 1)
		}
		gaps = r.gaps()
		r.release()
	}
	one()
	require.Less(t, testing.AllocsPerRun(100, one), 20.0)
	require.Len(t, gaps, events-1)
	require.Equal(t, events-1, cap(gaps), "8 bytes each, and not one more")
}

// BenchmarkRecord is what it costs to note the time of an output event.
func BenchmarkRecord(b *testing.B) {
	const events = 1000
	for _, at := range []struct {
		name string
		once int
	}{{"one", 1}, {"64", 64}} {
		b.Run("events="+at.name, func(b *testing.B) {
			r := newRecorder()
			defer r.release()
			n := 0
			for b.Loop() {
				r.tracks = r.tracks[:0]
				r.spare = append(r.spare[:0], r.memory(events))
				for i := 0; i < events; i += at.once {
					r.note(0, time.Duration(i), at.once)
				}
				n += events
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/event")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// memory returns memory for n gaps, that of the last stream if there was one.
func (r *recorder) memory(n int) []time.Duration {
	if tracks := r.tracks[:cap(r.tracks)]; len(tracks) > 0 && cap(tracks[0].gaps) >= n {
		return tracks[0].gaps[:0]
	}
	return make([]time.Duration, 0, n+64)
}
