package metric

import (
	"slices"
	"time"

	"example.com/tokpace/pkg/api"
	"example.com/tokpace/pkg/client"
)

// A Window is the steady part of a run: from the first end of a successful
// exchange to the last send. Before it the load is still filling up, after it
// nothing follows what ends. In a closed loop all N are in flight throughout; in
// an open loop requests keep coming. A run whose last send is not after its first
// end has none.
//
// Rates in it are over what ended after its begin and not after its end, so that
// in an open loop they are the rate asked for if the server keeps up, and what
// the server can do if it does not. Latencies in it are of what was sent in it,
// both ends included, wherever it ended: to take what ended in it would leave out
// the slow ones.
type Window struct {
	Begin, End time.Time
}

// WindowOf finds the steady part of a run, and reports whether it has one.
func WindowOf(exchanges []*client.Exchange) (w Window, ok bool) {
	for _, ex := range exchanges {
		if ex.Sent.After(w.End) {
			w.End = ex.Sent
		}
		if end, known := endOf(ex); known && (w.Begin.IsZero() || end.Before(w.Begin)) {
			w.Begin = end
		}
	}
	return w, !w.Begin.IsZero() && w.End.After(w.Begin)
}

// Rate is the successful exchanges per second in a window.
func (w Window) Rate(exchanges []*client.Exchange) float64 {
	return float64(w.answers(exchanges)) / w.End.Sub(w.Begin).Seconds()
}

func (w Window) answers(exchanges []*client.Exchange) (n int) {
	for _, ex := range exchanges {
		if w.ended(ex) {
			n++
		}
	}
	return n
}

// ended reports whether a successful exchange ended in the window.
func (w Window) ended(ex *client.Exchange) bool {
	end, known := endOf(ex)
	return known && end.After(w.Begin) && !end.After(w.End)
}

// sent reports whether an exchange was sent in the window.
func (w Window) sent(ex *client.Exchange) bool {
	return !ex.Sent.Before(w.Begin) && !ex.Sent.After(w.End)
}

// endOf is when a successful exchange ended.
func endOf(ex *client.Exchange) (time.Time, bool) {
	if !ex.OK || !ex.BodyComplete.Known || ex.Sent.IsZero() {
		return time.Time{}, false
	}
	return ex.Sent.Add(ex.BodyComplete.V), true
}

const steadyPrefix = "steady-"

var steadyRates = []string{"steady-output-tok/s", "steady-req/s"}

// steady reports whether the latency has metrics of the window.
func (l latency) steady() bool {
	return slices.Contains([]string{"e2e", "itl", "tpot", "ttft"}, l.name)
}

// steady adds the metrics of the steady window.
func (s *Set) steady(r Run, ok []*client.Exchange) {
	w, exists := WindowOf(r.Exchanges)
	if !exists {
		s.note("no steady part: the last request was sent before the first had ended")
		return
	}
	var sent []*client.Exchange
	tokens, counted := 0.0, true
	for _, ex := range ok {
		if w.sent(ex) {
			sent = append(sent, ex)
		}
		if w.ended(ex) {
			counted = counted && ex.OutputTokens.Known && ex.OutputSource == client.FromServer
			tokens += float64(ex.OutputTokens.V)
		}
	}
	for _, l := range latencies {
		if l.steady() {
			s.latency(steadyPrefix, l, sent)
		}
	}
	if rate := w.Rate(ok); rate > 0 {
		if counted {
			s.add("steady-output-tok/s", tokens/w.End.Sub(w.Begin).Seconds())
		}
		s.add("steady-req/s", rate)
	}
	s.note("steady part: %v of %v, %d of %d requests sent in it", w.End.Sub(w.Begin).Round(time.Millisecond), r.Elapsed.Round(time.Millisecond), len(sent), len(ok))
}

// behind is the send lag from which a run says that its generator fell behind.
const behind = 10 * time.Millisecond

// schedule notes what an open loop did not get done.
func (s *Set) schedule(r Run) {
	if r.Unfinished > 0 {
		s.note("%d requests were unfinished when the run ended and are in no statistic: latencies are too good by what they would have taken", r.Unfinished)
	}
	var lags []time.Duration
	for _, ex := range r.Exchanges {
		if lag := ex.SendLag(); lag.Known {
			lags = append(lags, lag.V)
		}
	}
	if len(lags) == 0 {
		return
	}
	slices.Sort(lags)
	if p99 := Percentile(lags, 99); p99 > behind {
		s.note("the load generator fell behind its schedule: send lag p99 %v, largest %v; it is in the -sched latencies", p99, lags[len(lags)-1])
	}
}

// open reports whether the run was an open loop.
func (r Run) open() bool {
	return slices.ContainsFunc(r.Exchanges, func(ex *client.Exchange) bool { return ex.SendLag() != api.Opt[time.Duration]{} })
}
