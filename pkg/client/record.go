package client

import (
	"slices"
	"sync"
	"time"
)

// A recorder takes the times of a stream's output events. Its memory is kept from one
// stream to the next: while events come, nothing is allocated for them.
type recorder struct {
	tracks []track           // in the order of choices
	now    int               // the track of the last event
	spare  [][]time.Duration // memory for gaps

	// buffer is the stream's until a read fills it.
	buffer [1 << 10]byte
}

// A track is the output events of one choice: when the last one came, and the gaps
// between them.
type track struct {
	choice int
	last   time.Duration
	gaps   []time.Duration
}

var recorders = sync.Pool{New: func() any { return new(recorder) }}

func newRecorder() *recorder { return recorders.Get().(*recorder) }

// maxGaps is the longest track whose memory is kept.
const maxGaps = 1 << 16

// release makes the recorder ready for another stream.
func (r *recorder) release() {
	for _, t := range r.tracks {
		if 0 < cap(t.gaps) && cap(t.gaps) <= maxGaps {
			r.spare = append(r.spare, t.gaps[:0])
		}
	}
	clear(r.tracks)
	r.tracks, r.now = r.tracks[:0], 0
	recorders.Put(r)
}

// note takes output events of a choice that came at the same time.
func (r *recorder) note(choice int, at time.Duration, events int) {
	if r.now >= len(r.tracks) || r.tracks[r.now].choice != choice {
		if !r.find(choice) {
			r.tracks[r.now].last = at
			events-- // there is no gap before the first
		}
	}
	t := &r.tracks[r.now]
	if events > 0 {
		t.gaps = append(t.gaps, at-t.last)
		t.last = at
	}
	if more := events - 1; more > 0 {
		n := len(t.gaps)
		t.gaps = slices.Grow(t.gaps, more)[:n+more]
		clear(t.gaps[n:])
	}
}

// find makes a choice's track the current one, and reports whether there was one.
func (r *recorder) find(choice int) bool {
	i, found := slices.BinarySearchFunc(r.tracks, choice, func(t track, choice int) int { return t.choice - choice })
	r.now = i
	if found {
		return true
	}
	t := track{choice: choice}
	if n := len(r.spare); n > 0 {
		t.gaps = r.spare[n-1]
		r.spare = r.spare[:n-1]
	}
	r.tracks = slices.Insert(r.tracks, i, t)
	return false
}

// gaps are those of all choices, one choice after another; nil if there are none.
func (r *recorder) gaps() (all []time.Duration) {
	n := 0
	for _, t := range r.tracks {
		n += len(t.gaps)
	}
	if n == 0 {
		return nil
	}
	all = make([]time.Duration, 0, n)
	for _, t := range r.tracks {
		all = append(all, t.gaps...)
	}
	return all
}
