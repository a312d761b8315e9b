package client

import (
	"slices"
	"time"

	"example.com/tokpace/pkg/freelist"
)

// A recorder takes the times of a stream's output events. Its memory is kept from one
// stream to the next: while events come, nothing is allocated for them.
type recorder struct {
	tracks []track           // in the order of choices
	now    *track            // that of the last event
	spare  [][]time.Duration // memory for stamps

	// buffer is the stream's until a read fills it.
	buffer [1 << 10]byte
}

// A track is the output events of one choice: the first n of stamps.
type track struct {
	choice int
	n      int
	stamps []time.Duration
}

// none is the track of the last event when there was none.
var none = track{choice: -1}

var recorders = freelist.List[*recorder]{New: func() *recorder { return &recorder{now: &none} }}

func newRecorder() *recorder { return recorders.Get() }

const (
	// minStamps is the room of a new track, in events.
	minStamps = 64
	// maxStamps is the longest track whose memory is kept.
	maxStamps = 1 << 16
)

// release makes the recorder ready for another stream.
func (r *recorder) release() {
	for _, t := range r.tracks {
		if len(t.stamps) <= maxStamps {
			r.spare = append(r.spare, t.stamps)
		}
	}
	clear(r.tracks)
	r.tracks, r.now = r.tracks[:0], &none
	recorders.Put(r)
}

// again takes one more event of the choice that had the last one, if there is room. It
// is all that most events need, and small enough to be inlined; add does the rest.
func (r *recorder) again(choice int, at time.Duration) bool {
	t := r.now
	if t.choice != choice || t.n >= len(t.stamps) {
		return false
	}
	t.stamps[t.n] = at
	t.n++
	return true
}

// add takes output events of a choice that came at the same time.
func (r *recorder) add(choice int, at time.Duration, events int) {
	if r.now.choice != choice {
		r.find(choice)
	}
	t := r.now
	need := t.n + events
	if need > len(t.stamps) {
		t.stamps = slices.Grow(t.stamps, need-len(t.stamps))
		t.stamps = t.stamps[:cap(t.stamps)]
	}
	together := t.stamps[t.n:need]
	for i := range together {
		together[i] = at
	}
	t.n = need
}

// find makes a choice's track the current one.
func (r *recorder) find(choice int) {
	i, found := slices.BinarySearchFunc(r.tracks, choice, func(t track, choice int) int { return t.choice - choice })
	if !found {
		t := track{choice: choice}
		if n := len(r.spare); n > 0 {
			t.stamps = r.spare[n-1]
			r.spare = r.spare[:n-1]
		} else {
			t.stamps = make([]time.Duration, minStamps)
		}
		r.tracks = slices.Insert(r.tracks, i, t)
	}
	r.now = &r.tracks[i]
}

// gaps are those between neighbouring events of one choice, one choice after another;
// nil if there are none.
func (r *recorder) gaps() (all []time.Duration) {
	n := 0
	for _, t := range r.tracks {
		n += t.n - 1
	}
	if n == 0 {
		return nil
	}
	all = make([]time.Duration, 0, n)
	for _, t := range r.tracks {
		for i := 1; i < t.n; i++ {
			all = append(all, t.stamps[i]-t.stamps[i-1])
		}
	}
	return all
}
