package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
)

// A row is one line of the table: a figure and what it has to be.
type row struct {
	id   string // name in the benchmark text
	what string
	unit string // shown behind figures; "" for a ratio
	// atMost says that less is better.
	atMost    bool
	must, aim float64 // none where NaN; in unit
}

var none = math.NaN()

// verdict says how a figure does.
func (r row) verdict(v float64) string {
	switch {
	case math.IsNaN(r.must):
		return "measured"
	case !r.reaches(v, r.must):
		return missed
	case math.IsNaN(r.aim):
		return "ok"
	case r.reaches(v, r.aim):
		return "aim"
	}
	return "ok, aim missed"
}

const (
	missed      = "MISSED"
	notMeasured = "not measured"
)

func (r row) reaches(v, limit float64) bool {
	if r.atMost {
		return v <= limit
	}
	return v >= limit
}

func (r row) limit(v float64) string {
	switch {
	case math.IsNaN(v):
		return ""
	case r.atMost:
		return "≤ " + r.show(v)
	}
	return "≥ " + r.show(v)
}

// show prints a figure with three digits.
func (r row) show(v float64) string {
	text := strconv.FormatFloat(v, 'g', 3, 64)
	if a := math.Abs(v); a >= 100 && a < 1e9 {
		text = strconv.FormatFloat(v, 'f', 0, 64)
	} else if a < 0.0005 {
		text = "0"
	} else if a < 1 {
		text = strconv.FormatFloat(v, 'f', 3, 64)
		for len(text) > 3 && text[len(text)-1] == '0' {
			text = text[:len(text)-1]
		}
	}
	if r.unit != "" {
		text += " " + r.unit
	}
	return text
}

// A spread is what the rounds gave.
type spread struct{ median, low, high float64 }

func spreadOf(values []float64) spread {
	v := slices.Sorted(slices.Values(values))
	n := len(v)
	return spread{median: (v[(n-1)/2] + v[n/2]) / 2, low: v[0], high: v[n-1]}
}

func (r row) showSpread(s spread) string {
	plain := r
	plain.unit = ""
	return fmt.Sprintf("%s [%s–%s]", r.show(s.median), plain.show(s.low), plain.show(s.high))
}

// percentile is the nearest rank; values are sorted by it.
func percentile[T int64 | float64](values []T, p int) T {
	slices.Sort(values)
	return values[max((len(values)*p+99)/100, 1)-1]
}
