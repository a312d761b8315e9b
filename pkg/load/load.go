// Package load decides when requests are sent, and gathers what came of them.
//
// A closed loop keeps N requests in flight: the next is sent when one ends, so
// the server's speed sets the rate. An open loop sends when a schedule says so,
// whatever the server does, as independent users do:
//
//	l := load.Open{Schedule: load.Poisson{Rate: 50}, MaxConcurrency: 64}
//	run := l.Start(ctx, c.Do, source, 100)
//	for range run.Done() { // one receive per request
//	}
//	exchanges, elapsed, err := run.Wait()
//
// In an open loop each exchange also knows when the schedule wanted it
// (Scheduled) and when the loop came to it (Ready). A latency counted from there
// holds the time that a request waited for its turn: leaving that out, since the
// client waited with the server, is known as coordinated omission.
package load

import (
	"context"
	"time"

	"example.com/tokpace/pkg/api"
	"example.com/tokpace/pkg/client"
	"example.com/tokpace/pkg/dataset"
)

// A Load is a way to send requests: Closed or Open.
type Load interface {
	// Start builds the first requests of src, begins sending, and returns at
	// once. At most limit requests are sent; limit 0 means until Stop, or the
	// load's own Limits. Requests are those of src from 0 on, in order.
	//
	// When src cannot build a request, those before it are still sent, then
	// the run ends with an error; when ctx is done, nothing more is sent and its
	// cause is the error.
	Start(ctx context.Context, do Do, src dataset.Source, limit int) *Run
	// WarmUp sends the requests of the load's Warmup, in the load's own way, and
	// returns when they have ended. It returns nothing when there is no Warmup.
	WarmUp(ctx context.Context, do Do, src dataset.Source) ([]*client.Exchange, error)
	// Connections is how many connections to open before a run of at most limit
	// requests (0: no limit), so that none is made inside it.
	Connections(limit int) int
}

// Do performs one exchange; (*client.Client).Do is one.
type Do func(ctx context.Context, req *api.Request) *client.Exchange

// Limits end a run; the first that is reached does. The zero Limits are none.
type Limits struct {
	// Requests is how many are sent at most.
	Requests int
	// Duration is how long after its start the run ends. What is in flight then
	// is cut off, what waits for a slot is not sent any more: see
	// Run.Unfinished.
	Duration time.Duration
	// Tokens is the number of output tokens after which nothing more is sent:
	// those of successful answers, however they were counted. What is in flight
	// then is awaited, so there are a few more in the end.
	Tokens int64
}

// requests is the lower of two limits, 0 when there is none.
func (l Limits) requests(limit int) int {
	switch {
	case l.Requests <= 0:
		return max(limit, 0)
	case limit <= 0:
		return l.Requests
	}
	return min(limit, l.Requests)
}

// Warmup is what is sent before a run and is in none of its numbers. It ends
// with the first of its limits that is reached; the zero Warmup is none.
type Warmup struct {
	// Requests is how many are sent at most.
	Requests int
	// Duration is how long requests are sent; those in flight are awaited.
	Duration time.Duration
}

// WarmupIndex is the number of the first warm-up request in its source: so far
// from those of the run that no prompt is sent in both, and no cache that the
// warm-up fills helps the run. (A data set of few prompts may repeat them sooner.)
const WarmupIndex = 1 << 30

// far is a source without its first requests.
type far struct{ dataset.Source }

func (f far) Request(i int) (*api.Request, error) { return f.Source.Request(WarmupIndex + i) }

// run sends the warm-up by l, which has none itself.
func (w Warmup) run(ctx context.Context, l Load, do Do, src dataset.Source) ([]*client.Exchange, error) {
	if w.Requests <= 0 && w.Duration <= 0 {
		return nil, nil
	}
	r := l.Start(ctx, do, far{src}, w.Requests)
	if w.Duration > 0 {
		defer time.AfterFunc(w.Duration, r.Stop).Stop()
	}
	exchanges, _, err := r.Wait()
	return exchanges, err
}
