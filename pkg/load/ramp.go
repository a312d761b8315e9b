package load

import (
	"fmt"
	"iter"
	"time"
)

// Ramp goes from one rate to another, as `vllm bench serve` with
// --ramp-up-strategy: of Requests requests, the i-th (from 0) follows its
// forerunner by a gap whose mean is 1/r, with p = i/(Requests−1) and
//
//	r = From + (To − From)·p       linear
//	r = From · (To/From)^p         exponential
//
// Progress is by the number of the request, not by time. Requests after the last
// of the ramp go on at To.
type Ramp struct {
	From, To    float64 // requests per second
	Requests    int     // of the ramp, at least 2
	Exponential bool
	// Burstiness is that of Gamma: 0 means 1, exponential gaps; +Inf is for gaps
	// that are exactly 1/r.
	Burstiness float64
}

// Times draws the gaps. The first send is one gap after the start.
func (s Ramp) Times(seed uint64) (iter.Seq[time.Duration], error) {
	for _, rate := range []float64{s.From, s.To} {
		if !positive(rate) {
			return nil, badRate("Ramp", rate)
		}
	}
	if s.Requests < 2 {
		return nil, fmt.Errorf("load: a Ramp over %d requests is none, it needs at least 2", s.Requests)
	}
	if err := checkBurstiness(s.Burstiness); err != nil {
		return nil, err
	}
	growth := ln(s.To / s.From)
	return func(yield func(time.Duration) bool) {
		d := newDraws(seed)
		gaps(func(i int) float64 { return d.gap(s.Burstiness) / s.rate(i, growth) })(yield)
	}, nil
}

func (s Ramp) rate(i int, growth float64) float64 {
	last := s.Requests - 1
	switch p := float64(i) / float64(last); {
	case i >= last:
		return s.To
	case s.Exponential:
		return float64(s.From * exp(float64(growth*p)))
	default:
		return s.From + float64((s.To-s.From)*p)
	}
}
