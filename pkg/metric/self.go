package metric

import (
	"fmt"
	"slices"
	"time"

	"example.com/tokpace/pkg/api"
	"example.com/tokpace/pkg/client"
)

// Units of the harness's own error.
const (
	mergedReads = "merged-reads/op"
	clientCPU   = "client-cpu-ns/op"
)

// own adds what the harness's own error can be told from: how many reads of a
// successful stream held more than one output event, whose gaps are then 0 in place
// of what they were, as a mean; and the processor time of this process for each
// successful exchange.
func (s *Set) own(r Run, ok []*client.Exchange) {
	merged, streams := 0, 0
	for _, ex := range ok {
		if ex.Events.Known {
			merged += ex.MergedReads
			streams++
		}
	}
	// A clock that is too coarse for a short run says 0.
	if r.CPU.Known && r.CPU.V > 0 && len(ok) > 0 {
		s.add(clientCPU, float64(r.CPU.V)/float64(len(ok)))
	}
	if streams > 0 {
		s.add(mergedReads, float64(merged)/float64(streams))
	}
}

// A Lag is how much later than a server sent its output events a client says that
// they came: for each event the client's time minus the server's, on one clock.
// Percentiles are nearest rank.
type Lag struct {
	P50    time.Duration `json:"p50_ns"`
	P99    time.Duration `json:"p99_ns"`
	Max    time.Duration `json:"max_ns"`
	Events int           `json:"events"` // of which it is known
}

// LagOf sorts the lags of single events. There is none of no events.
func LagOf(lags []time.Duration) *Lag {
	if len(lags) == 0 {
		return nil
	}
	slices.Sort(lags)
	return &Lag{P50: Percentile(lags, 50), P99: Percentile(lags, 99), Max: lags[len(lags)-1], Events: len(lags)}
}

// A Self is what a run tells of its own measuring. What is unknown is absent.
type Self struct {
	// SendLagP99 is how late 99 in 100 sends of an open loop were at most.
	SendLagP99 client.Dur `json:"send_lag_p99_ns,omitzero"`
	// ClientLag needs a server that tells when it sent what.
	ClientLag *Lag `json:"client_lag,omitempty"`
	// GCs is the number of garbage collections, GCPauseMax the longest time for
	// which one stopped this process.
	GCs        int        `json:"gcs"`
	GCPauseMax client.Dur `json:"gc_pause_max_ns,omitzero"`
	// KernelStamps is the share of reads whose time is the kernel's; MergedReads
	// the share of those that held more than one output event.
	KernelStamps api.Opt[float64] `json:"kernel_stamp_share,omitzero"`
	MergedReads  api.Opt[float64] `json:"merged_read_share,omitzero"`
	// CPU is Run.CPU, CPUUse its share of what the processors of GOMAXPROCS could
	// have given in Run.Elapsed.
	CPU    client.Dur       `json:"client_cpu_ns,omitzero"`
	CPUUse api.Opt[float64] `json:"client_cpu_share,omitzero"`
}

// SelfOf is what the exchanges of a run, and its CPU, tell. procs is GOMAXPROCS.
func SelfOf(r Run, procs int) (s Self) {
	var lags []time.Duration
	reads, stamped, merged := 0, 0, 0
	for _, ex := range r.Exchanges {
		if lag := ex.SendLag(); lag.Known {
			lags = append(lags, lag.V)
		}
		reads, stamped, merged = reads+ex.Reads, stamped+ex.KernelStamps, merged+ex.MergedReads
	}
	if len(lags) > 0 {
		slices.Sort(lags)
		s.SendLagP99 = api.Some(Percentile(lags, 99))
	}
	if reads > 0 {
		s.KernelStamps = api.Some(float64(stamped) / float64(reads))
		s.MergedReads = api.Some(float64(merged) / float64(reads))
	}
	s.CPU = r.CPU
	if r.CPU.Known && r.Elapsed > 0 && procs > 0 {
		s.CPUUse = api.Some(r.CPU.V.Seconds() / r.Elapsed.Seconds() / float64(procs))
	}
	return s
}

// An OwnError is the largest error that a run may owe to its own measuring.
type OwnError struct {
	Of     string        `json:"of"` // which
	V      time.Duration `json:"ns"`
	advice string
}

// OwnError is the largest of the send lag's p99, the client lag's p99 and the
// longest pause, and reports false when none of them is known.
func (s Self) OwnError() (e OwnError, known bool) {
	take := func(of string, d client.Dur, advice string) {
		if d.Known && (!known || d.V > e.V) {
			e, known = OwnError{of, d.V, advice}, true
		}
	}
	take("send lag p99", s.SendLagP99, "ask for a lower rate, or give the client more of the machine")
	if s.ClientLag != nil {
		take("client lag p99", api.Some(s.ClientLag.P99), "send fewer requests at once, or give the client more of the machine")
	}
	take("longest GC pause", s.GCPauseMax, "raise GOGC, or give the client more of the machine")
	return e, known
}

// busiest is the CPUUse above which a client is the limit of what it measures.
const busiest = 0.95

// Invalid says in one line why a run must not be believed, "" if nothing speaks
// against it: its own error is larger than maxShare of the smallest median that the
// error is in (the TTFT of streams, the E2E of other answers), or the client had
// no processor time to spare though the server is not in this process.
func (s Self) Invalid(r Run, maxShare float64, inProcess bool) string {
	own, known := s.OwnError()
	if what, median := smallestMedian(r.Exchanges); known && what != "" && float64(own.V) > maxShare*float64(median) {
		return fmt.Sprintf("%s is %v, more than %s of the %s, %v (max-own-error): %s", own.Of, own.V, percent(maxShare), what, median, own.advice)
	}
	if !inProcess && s.CPUUse.Known && s.CPUUse.V > busiest {
		return fmt.Sprintf("the client used %s of its processors' time, more than %s: ask for less load, or give it more processors (GOMAXPROCS)", percent(s.CPUUse.V), percent(busiest))
	}
	return ""
}

func percent(share float64) string { return fmt.Sprintf("%.4g %%", 100*share) }

// smallestMedian is the smaller one of the medians of the streams' TTFT and the
// other answers' E2E, and its name, "" when there are neither.
func smallestMedian(exchanges []*client.Exchange) (what string, median time.Duration) {
	var ttft, e2e []time.Duration
	for _, ex := range exchanges {
		switch {
		case !ex.OK:
		case ex.Events.Known && ex.TTFT.Known:
			ttft = append(ttft, ex.TTFT.V)
		case !ex.Events.Known && ex.E2E.Known:
			e2e = append(e2e, ex.E2E.V)
		}
	}
	for _, m := range []struct {
		what    string
		samples []time.Duration
	}{{"median TTFT", ttft}, {"median E2E", e2e}} {
		if len(m.samples) == 0 {
			continue
		}
		slices.Sort(m.samples)
		if p50 := Percentile(m.samples, 50); what == "" || p50 < median {
			what, median = m.what, p50
		}
	}
	return what, median
}
