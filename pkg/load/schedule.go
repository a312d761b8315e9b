package load

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"time"
)

// A Schedule says when an open loop wants its sends.
//
// The schedules of this package depend on their fields and the seed alone: not
// on the dataset, the server, the run's length or the machine. See random.go for
// how that is kept so.
type Schedule interface {
	// Times yields the times of the sends, from the start of the run, never
	// decreasing. It ends with the schedule, if the schedule has an end. The
	// error says which field makes no sense.
	Times(seed uint64) (iter.Seq[time.Duration], error)
}

// Constant sends at a fixed rate: the k-th request, counted from 0, at k/Rate.
type Constant struct {
	Rate float64 // requests per second; +Inf is all at once
}

// Times does not look at the seed.
func (s Constant) Times(uint64) (iter.Seq[time.Duration], error) {
	if !(s.Rate > 0) {
		return nil, badRate("Constant", s.Rate)
	}
	return func(yield func(time.Duration) bool) {
		// Each time is computed from its number: nothing adds up.
		for k := 0.0; ; k++ {
			at, ok := nanoseconds(float64(k*1e9) / s.Rate)
			if !ok || !yield(at) {
				return
			}
		}
	}, nil
}

// Trace sends at recorded times.
type Trace struct {
	// At are the time stamps, in order; the first is the start of the run.
	At []time.Duration
	// Speed is how many times faster than recorded; 0 means 1.
	Speed float64
}

// Times does not look at the seed.
func (s Trace) Times(uint64) (iter.Seq[time.Duration], error) {
	switch {
	case len(s.At) == 0:
		return nil, errors.New("load: a Trace needs time stamps")
	case s.Speed < 0 || math.IsNaN(s.Speed) || math.IsInf(s.Speed, 0):
		return nil, fmt.Errorf("load: the Speed of a Trace is %v, it must be a number above 0", s.Speed)
	}
	for i := 1; i < len(s.At); i++ {
		if s.At[i] < s.At[i-1] {
			return nil, fmt.Errorf("load: time stamp %d of a Trace (%v) is before the one ahead of it (%v)", i, s.At[i], s.At[i-1])
		}
	}
	return func(yield func(time.Duration) bool) {
		for _, at := range s.At {
			at -= s.At[0]
			if s.Speed != 0 && s.Speed != 1 {
				var ok bool
				if at, ok = nanoseconds(float64(at) / s.Speed); !ok {
					return
				}
			}
			if !yield(at) {
				return
			}
		}
	}, nil
}

// farthest is the time beyond which a schedule has ended: it is 146 years, and
// keeps conversions and sums from overflowing.
const farthest = time.Duration(1) << 62

// nanoseconds rounds ns, which is not negative, to a whole number of them. It
// reports false when that is too far in the future.
func nanoseconds(ns float64) (time.Duration, bool) {
	if !(ns < float64(farthest)) {
		return 0, false
	}
	return time.Duration(math.Floor(ns + 0.5)), true
}

// gaps turns a sequence of gaps in seconds into times. The first send is one gap
// after the start.
func gaps(next func(i int) float64) iter.Seq[time.Duration] {
	return func(yield func(time.Duration) bool) {
		at := time.Duration(0)
		for i := 0; ; i++ {
			gap, ok := nanoseconds(float64(next(i) * 1e9))
			if at += gap; !ok || at >= farthest || !yield(at) {
				return
			}
		}
	}
}

func badRate(schedule string, rate float64) error {
	return fmt.Errorf("load: the rate of a %s schedule is %v, it must be above 0 requests per second", schedule, rate)
}
