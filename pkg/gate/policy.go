package gate

import "strings"

// policy says what is gated when nothing else was said. has reports whether the
// benchmark has a unit; ours, whether this project's harness measured it.
//
// Of what the harness reports, one latency of each kind is gated: tails and
// parts move with them, or with the noise. Of other files, every unit whose
// direction is known is: somebody chose to report it.
func policy(unit string, exact bool, better int, ours bool, has func(unit string) bool) rule {
	const latency, rate, allocation = 0.05, 0.05, 0.01
	stream := has("ttft-p50-sec")
	switch {
	case exact:
		return rule{gated: true}
	case better == 0:
		return rule{}
	case unit == "allocs/op" || unit == "B/op":
		return rule{gated: true, limit: allocation, least: 1}
	case !ours:
		return rule{gated: true, limit: latency}
	}
	switch unit {
	case "ttft-p50-sec", "tpot-p50-sec":
		return rule{gated: true, limit: latency}
	case "e2e-p50-sec":
		return rule{gated: stream, limit: latency}
	case "body-complete-p50-sec":
		return rule{gated: !stream, limit: latency}
	case "req/s":
		return rule{gated: true, limit: rate}
	case "output-tok/s":
		// In a closed loop it follows from the latencies.
		return rule{gated: has("req/s"), limit: rate}
	}
	return rule{}
}

// rule says whether a row is gated, and how large a change may be.
type rule struct {
	gated bool
	limit float64 // relative: 0.05 is 5 %
	least float64 // a smaller absolute change is within the limit too
}

// direction tells from a tidied unit's name which way is better: +1 higher, -1
// lower, 0 unknown. Only whole words count: `wins/op` are no nanoseconds.
func direction(unit string) int {
	for _, suffix := range []string{"-sec", "-ms", "-us", "-sec/op"} {
		if strings.HasSuffix(unit, suffix) {
			return -1
		}
	}
	switch {
	case strings.HasPrefix(unit, "sec/") || unit == "B/op" || unit == "allocs/op":
		return -1
	case strings.HasSuffix(unit, "/s") || strings.HasSuffix(unit, "/sec"):
		return +1
	case strings.HasSuffix(unit, "/op") && (strings.HasPrefix(unit, "fail") || strings.HasPrefix(unit, "err")):
		return -1
	}
	return 0
}
