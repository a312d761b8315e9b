package harness

import (
	"cmp"
	"slices"
	"time"

	"example.com/tokpace/fakeserver"
	"example.com/tokpace/pkg/client"
)

// clientLags compares the client's times with those of a fake server in this process,
// which has the same clock: for each output event, and for the end of an answer
// that is no stream, the client's time minus that at which the server began its
// write. Exchanges that are not in the journal any more have none, nor do failed ones
// and those in which a fault changed the number of events.
//
// They are found by their connection, which both sides know without doing anything
// for it: it has one exchange at a time.
func clientLags(exchanges []*client.Exchange, journal []fakeserver.Record) (lags []time.Duration) {
	byConn := map[string][]*client.Exchange{}
	for _, ex := range exchanges {
		if ex.OK && ex.Local != nil && ex.BodyComplete.Known {
			addr := ex.Local.String()
			byConn[addr] = append(byConn[addr], ex)
		}
	}
	records := map[string][]*fakeserver.Record{}
	for i := range journal {
		if r := &journal[i]; len(byConn[r.Remote]) > 0 {
			records[r.Remote] = append(records[r.Remote], r)
		}
	}
	for addr, sent := range byConn {
		slices.SortStableFunc(sent, func(a, b *client.Exchange) int { return a.Sent.Compare(b.Sent) })
		left := records[addr]
		slices.SortStableFunc(left, func(a, b *fakeserver.Record) int { return cmp.Compare(a.Index, b.Index) })
		// From the last to the first: where the clock is coarse, what came before the
		// run may seem to have come with its first exchange.
		for _, ex := range slices.Backward(sent) {
			n := len(left)
			for n > 0 && left[n-1].Arrived.After(ex.Sent.Add(ex.BodyComplete.V)) {
				n-- // of a failed one, or of none of this run
			}
			if n > 0 && !left[n-1].Arrived.Before(ex.Sent) {
				n--
				lags = appendLags(lags, ex, left[n])
			}
			left = left[:n]
		}
	}
	return lags
}

// maxTimed is the largest write whose arrival says something of the client: a larger
// one takes time by itself.
const maxTimed = 64 << 10

// appendLags appends those of one exchange.
func appendLags(lags []time.Duration, ex *client.Exchange, r *fakeserver.Record) []time.Duration {
	lead := ex.Sent.Sub(r.Arrived) // of the client's zero; negative
	if !ex.Events.Known {
		if n := len(r.Events); n > 0 && r.Events[n-1].Bytes <= maxTimed {
			lags = append(lags, lead+ex.BodyComplete.V-r.Events[n-1].Actual)
		}
		return lags
	}
	outputs := make([]time.Duration, 0, ex.Events.V)
	for _, e := range r.Events {
		if e.Kind == fakeserver.KindToken {
			outputs = append(outputs, e.Actual)
		}
	}
	n := len(outputs)
	if n == 0 || n != ex.Events.V {
		return lags
	}
	if len(ex.ITL) != n-1 {
		// The gaps of several choices do not tell when each choice began.
		return append(lags, lead+ex.TTFT.V-outputs[0], lead+ex.E2E.V-outputs[n-1])
	}
	at := lead + ex.TTFT.V
	lags = append(lags, at-outputs[0])
	for i, gap := range ex.ITL {
		at += gap
		lags = append(lags, at-outputs[i+1])
	}
	return lags
}
