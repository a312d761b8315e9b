package load

import (
	"errors"
	"fmt"
	"math"
)

// A Search finds the highest value that is sustained: a rate in requests per
// second, or a number of requests in flight. It assumes that what is sustained at
// a value is sustained at lower ones.
//
// It doubles the value from Low on until one is not sustained or High is reached,
// then halves the interval, geometrically, until its ends differ by no more than
// Resolution. It ends in any case after Points values.
type Search struct {
	Low  float64 // the first value, above 0
	High float64 // the highest; 0 is no bound
	// Resolution is the relative width of the interval that is narrow enough;
	// 0 means 0.05.
	Resolution float64
	Points     int  // values tried at most; 0 means 20
	Whole      bool // values are whole numbers
}

// Find tries values and returns the highest that was sustained, 0 when Low was
// not. An error of try ends the search.
func (s Search) Find(try func(value float64) (sustained bool, err error)) (best float64, err error) {
	if err := s.check(); err != nil {
		return 0, err
	}
	points := s.Points
	if points == 0 {
		points = 20
	}
	failed := 0.0 // the lowest value that was not sustained
	for value := s.round(s.Low); points > 0; points-- {
		ok, err := try(value)
		switch {
		case err != nil:
			return best, err
		case ok:
			best = value
		default:
			failed = value
		}
		var more bool
		if value, more = s.next(best, failed); !more {
			break
		}
	}
	return best, nil
}

// next is the value to try between the best and the lowest that failed.
func (s Search) next(best, failed float64) (value float64, more bool) {
	switch {
	case best == 0:
		return 0, false
	case failed == 0:
		value = best * 2
		if s.High > 0 {
			value = min(value, s.round(s.High))
		}
		return value, value > best
	}
	resolution := s.Resolution
	if resolution == 0 {
		resolution = 0.05
	}
	value = s.round(math.Sqrt(best * failed))
	if s.Whole {
		value = max(value, best+1)
	}
	return value, failed/best-1 > resolution && value > best && value < failed
}

func (s Search) round(value float64) float64 {
	if s.Whole {
		return max(1, math.Floor(value))
	}
	return value
}

func (s Search) check() error {
	switch {
	case !positive(s.Low):
		return fmt.Errorf("load: the Low of a Search is %v, it must be above 0", s.Low)
	case s.High != 0 && !(positive(s.High) && s.High >= s.Low):
		return fmt.Errorf("load: the High of a Search is %v, it must not be below its Low, %v", s.High, s.Low)
	case s.Resolution != 0 && !positive(s.Resolution):
		return fmt.Errorf("load: the Resolution of a Search is %v, it must be above 0", s.Resolution)
	case s.Points < 0:
		return errors.New("load: the Points of a Search are below 0")
	}
	return nil
}
