package metric

import "fmt"

const (
	// sustainedShare is the share of the requests that were wanted in the steady
	// window which must be answered in it.
	sustainedShare = 0.95
	// sustainedGain is what a higher number of requests in flight must bring to
	// be worth it.
	sustainedGain = 1.05
	// goodShare is the share of all requests that must keep the SLO.
	goodShare = 0.99
)

// Saturation is the unit of the rate at the highest load that is sustained.
const Saturation = "saturation-req/s"

// Sustained judges whether a server sustains the load of a run, and returns the
// rate of its answers in the steady Window. why is empty when it does, else it
// says what is missing. A load is sustained when
//
//   - no request failed;
//   - the run has a steady window;
//   - 99 in 100 requests, unfinished ones included, keep Run.Goodput, if there is
//     one;
//   - in an open loop, the answers in the window and one more, for its edge, are
//     at least 0.95 times the requests that the schedule wanted in it, unfinished
//     ones included: what the draws really gave, not the mean rate that they
//     were made from;
//   - in a closed loop, the rate is at least 1.05 times below, the rate at the
//     best smaller number of requests in flight: beyond that, more of them only
//     wait for each other.
//
// The window must be many times as long as an answer: at its edges chance decides
// what is in flight.
func Sustained(r Run, below float64) (rate float64, why string) {
	set := Of(r)
	if set.Failed > 0 {
		return 0, fmt.Sprintf("%d of %d requests failed", set.Failed, set.OK+set.Failed)
	}
	w, ok := WindowOf(r.Exchanges)
	if !ok {
		return 0, "no steady part: the last request was sent before the first had ended"
	}
	rate = w.Rate(r.Exchanges)
	if all := set.OK + r.Unfinished; len(r.Goodput) > 0 && float64(set.Good) < goodShare*float64(all) {
		return rate, fmt.Sprintf("%d of %d requests kept the limits, too few", set.Good, all)
	}
	if !r.open() {
		if rate < sustainedGain*below {
			return rate, fmt.Sprintf("%.4g requests/s, no more than fewer in flight bring (%.4g)", rate, below)
		}
		return rate, ""
	}
	wanted := r.Unfinished
	for _, ex := range r.Exchanges {
		if ex.Scheduled.After(w.Begin) && !ex.Scheduled.After(w.End) {
			wanted++
		}
	}
	if answered := w.answers(r.Exchanges); float64(answered+1) < sustainedShare*float64(wanted) {
		return rate, fmt.Sprintf("%d of the %d requests wanted in its steady part were answered in it", answered, wanted)
	}
	return rate, ""
}
