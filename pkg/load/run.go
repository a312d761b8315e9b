package load

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"example.com/tokpace/pkg/api"
	"example.com/tokpace/pkg/client"
	"example.com/tokpace/pkg/dataset"
	"example.com/tokpace/pkg/pacer"
)

// A Run is a load in progress.
type Run struct {
	done    chan *client.Exchange
	limits  Limits
	limit   int // of requests, 0 when there is none
	observe func(*client.Exchange)
	starved atomic.Int64
	stopped atomic.Bool
	timer   *time.Timer // of limits.Duration

	parent  context.Context // as the caller gave it
	ctx     context.Context // of the exchanges
	cut     context.CancelCauseFunc
	sending context.Context // ends when nothing more is to be sent
	halt    context.CancelFunc

	mu         sync.Mutex
	exchanges  []*client.Exchange
	first      time.Time // first send
	last       time.Time // end of the last answer
	tokens     int64
	unfinished int
	err        error
}

// errOver cuts off what is in flight when the run's time is over.
var errOver = errors.New("the run's time is over")

// newRun makes a run whose Done holds n exchanges that nobody has received yet.
func newRun(ctx context.Context, limits Limits, limit, n int) *Run {
	r := &Run{done: make(chan *client.Exchange, n), limits: limits, limit: limits.requests(limit), parent: ctx, observe: observer(ctx)}
	r.ctx, r.cut = context.WithCancelCause(ctx)
	r.sending, r.halt = context.WithCancel(r.ctx)
	return r
}

// begin starts the run's clock.
func (r *Run) begin() {
	if d := r.limits.Duration; d > 0 {
		r.timer = time.AfterFunc(d, func() {
			r.Stop()
			r.cut(errOver)
		})
	}
}

// A numbered request is the index-th of its source.
type numbered struct {
	req   *api.Request
	index int
}

// build builds the requests of src ahead of their sends: building a large one
// between two exchanges would lower the load without showing anywhere. The first
// ahead of them are there when it returns, the others are built by rest. A request
// that cannot be built is the last, and the run's error.
func (r *Run) build(src dataset.Source, ahead int) (ready <-chan numbered, rest func()) {
	if r.limit > 0 {
		ahead = min(ahead, r.limit)
	}
	built := make(chan numbered, ahead)
	build := func(i int) bool {
		req, err := src.Request(i)
		if err != nil {
			r.fail(fmt.Errorf("request %d: %w", i, err))
			return false
		}
		select {
		case built <- numbered{req, i}:
			return true
		case <-r.sending.Done():
			return false
		}
	}
	n := 0
	for n < ahead && build(n) {
		n++
	}
	return built, func() {
		defer close(built)
		if n < ahead {
			return
		}
		for i := ahead; (r.limit <= 0 || i < r.limit) && !r.over() && build(i); i++ {
		}
	}
}

// take receives a request, and counts when none was ready.
func (r *Run) take(ready <-chan numbered) (next numbered, ok bool) {
	select {
	case next, ok = <-ready:
	default:
		if next, ok = <-ready; ok {
			r.starved.Add(1)
		}
	}
	return next, ok
}

// fail notes the first error that ends the run.
func (r *Run) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.err = err
	}
}

// finish is called when nothing is in flight any more. It notes why the run
// ended, unless that was wished: a run that was stopped has not missed what could
// not be built ahead for it. behind is an error whatever ended the run.
func (r *Run) finish(behind error) {
	if r.timer != nil {
		r.timer.Stop()
	}
	r.mu.Lock()
	switch {
	case r.stopped.Load(), r.limit > 0 && len(r.exchanges)+r.unfinished == r.limit:
		r.err = behind
	case r.parent.Err() != nil:
		r.err = context.Cause(r.parent)
	case r.err == nil:
		r.err = behind
	}
	r.mu.Unlock()
	r.cut(nil)
	close(r.done)
}

// over reports whether nothing more is to be sent.
func (r *Run) over() bool { return r.sending.Err() != nil }

// keep takes in an exchange that has just ended, and delivers it.
func (r *Run) keep(ex *client.Exchange) {
	end := time.Now()
	pacer.GiveWay() // to the dispatcher of an open loop, and to a fake server in this process
	r.observe(ex)
	r.mu.Lock()
	if !ex.Sent.IsZero() && (r.first.IsZero() || ex.Sent.Before(r.first)) {
		r.first = ex.Sent
	}
	if end.After(r.last) {
		r.last = end
	}
	if !ex.OK && ex.Error.Class == api.Canceled && context.Cause(r.ctx) == errOver {
		r.unfinished++
		r.mu.Unlock()
		return
	}
	r.exchanges = append(r.exchanges, ex)
	if ex.OK {
		r.tokens += ex.OutputTokens.V
	}
	enough := r.limits.Tokens > 0 && r.tokens >= r.limits.Tokens
	r.mu.Unlock()
	if enough {
		r.Stop()
	}
	r.done <- ex
}

// Done delivers each exchange when it has ended. It must be received from until
// Wait, which takes the rest; it is closed after the last one.
func (r *Run) Done() <-chan *client.Exchange { return r.done }

// Stop makes the run send nothing more. Requests in flight go on; those that wait
// for a slot are not sent (see Unfinished).
func (r *Run) Stop() {
	r.stopped.Store(true)
	r.halt()
}

// Starved is how many sends had to wait until their request was built: when it
// is many, the client was slower than the server, and a closed loop had fewer
// than N in flight.
func (r *Run) Starved() int { return int(r.starved.Load()) }

// Unfinished is how many requests were scheduled but have no end, because the run
// ended before: they were in flight at the end of Limits.Duration, or waited for
// a slot when the run stopped. They are among no exchanges. Since long answers are
// the likelier to be cut off, latencies are too good by as much as there are of
// them.
func (r *Run) Unfinished() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.unfinished
}

// Wait waits for the requests in flight, and returns all exchanges in the order
// of their ends, the time from the first send to the last end (0 when nothing
// was sent), and the error that ended the run before its limit or Stop, if one
// did. It does not stop the run by itself.
func (r *Run) Wait() (exchanges []*client.Exchange, elapsed time.Duration, err error) {
	for range r.done {
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.first.IsZero() {
		elapsed = r.last.Sub(r.first)
	}
	return r.exchanges, elapsed, r.err
}
