// Package load decides when requests are sent, and gathers what came of them.
//
// A closed loop keeps N requests in flight: the next is sent when one ends, so
// the server's speed sets the rate.
//
//	run := load.Closed{N: 8}.Start(ctx, c.Do, source, 100)
//	for range 100 {
//		ex := <-run.Done() // one receive per request
//	}
//	exchanges, elapsed, err := run.Wait()
package load

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"example.com/tokpace/pkg/api"
	"example.com/tokpace/pkg/client"
	"example.com/tokpace/pkg/dataset"
)

// Closed is a closed loop with N requests in flight; N below 1 means 1.
type Closed struct {
	N int
}

// Do performs one exchange; (*client.Client).Do is one.
type Do func(ctx context.Context, req *api.Request) *client.Exchange

// A Run is a load in progress.
type Run struct {
	done    chan *client.Exchange
	stopped chan struct{}
	stop    sync.Once
	starved atomic.Int64

	mu        sync.Mutex
	exchanges []*client.Exchange
	first     time.Time // first send
	last      time.Time // end of the last answer
	err       error
}

// Start builds the first N requests of src, begins sending, and returns at once.
// At most limit requests are sent; limit 0 means until Stop. When src
// cannot build a request, those before it are still sent, then the run ends with
// an error; when ctx is done, nothing more is sent and its cause is the error.
func (l Closed) Start(ctx context.Context, do Do, src dataset.Source, limit int) *Run {
	n := max(l.N, 1)
	if limit > 0 {
		n = min(n, limit)
	}
	r := &Run{done: make(chan *client.Exchange, n), stopped: make(chan struct{})}
	// Requests are built ahead of their send: building a large one between two
	// exchanges would lower the load without showing anywhere.
	ready := make(chan *api.Request, n)
	var unbuilt error
	build := func(i int) bool {
		req, err := src.Request(i)
		if err != nil {
			unbuilt = fmt.Errorf("request %d: %w", i, err)
			return false
		}
		select {
		case ready <- req:
			return true
		case <-r.stopped:
		case <-ctx.Done():
		}
		return false
	}
	built := 0
	for built < n && build(built) {
		built++
	}
	var workers sync.WaitGroup
	workers.Go(func() {
		defer close(ready)
		if built < n {
			return
		}
		for i := n; (limit <= 0 || i < limit) && !r.over(ctx) && build(i); i++ {
		}
	})
	for range n {
		workers.Go(func() {
			for {
				req, ok := r.take(ready)
				if !ok || r.over(ctx) {
					return
				}
				ex := do(ctx, req)
				r.keep(ex, time.Now())
				r.done <- ex
			}
		})
	}
	go func() {
		workers.Wait()
		r.end(ctx, limit, unbuilt)
		close(r.done)
	}()
	return r
}

// take receives a request, and counts when none was ready.
func (r *Run) take(ready <-chan *api.Request) (req *api.Request, ok bool) {
	select {
	case req, ok = <-ready:
	default:
		if req, ok = <-ready; ok {
			r.starved.Add(1)
		}
	}
	return req, ok
}

// Starved is how many sends had to wait until their request was built: when it
// is many, the client was slower than the server and fewer than N were in
// flight.
func (r *Run) Starved() int { return int(r.starved.Load()) }

// end notes why the run ended, unless that was wished: a run that was stopped
// has not missed what could not be built ahead for it.
func (r *Run) end(ctx context.Context, limit int, unbuilt error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.stopped:
		return
	default:
	}
	switch {
	case limit > 0 && len(r.exchanges) == limit:
	case ctx.Err() != nil:
		r.err = context.Cause(ctx)
	default:
		r.err = unbuilt
	}
}

// over reports whether nothing more is to be sent.
func (r *Run) over(ctx context.Context) bool {
	select {
	case <-r.stopped:
		return true
	case <-ctx.Done():
		return true
	default:
		return false
	}
}

func (r *Run) keep(ex *client.Exchange, end time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.exchanges = append(r.exchanges, ex)
	if !ex.Sent.IsZero() && (r.first.IsZero() || ex.Sent.Before(r.first)) {
		r.first = ex.Sent
	}
	if end.After(r.last) {
		r.last = end
	}
}

// Done delivers each exchange when it has ended. It must be received from until
// Wait, which takes the rest; it is closed after the last one.
func (r *Run) Done() <-chan *client.Exchange { return r.done }

// Stop makes the run send nothing more. Requests in flight go on.
func (r *Run) Stop() { r.stop.Do(func() { close(r.stopped) }) }

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
