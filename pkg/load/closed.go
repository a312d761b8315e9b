package load

import (
	"context"
	"runtime"
	"sync"

	"example.com/tokpace/pkg/client"
	"example.com/tokpace/pkg/dataset"
)

// Closed is a closed loop with N requests in flight; N below 1 means 1.
type Closed struct {
	N      int
	Limits Limits
	Warmup Warmup
}

// Start begins with N requests at once.
func (l Closed) Start(ctx context.Context, do Do, src dataset.Source, limit int) *Run {
	limit = l.Limits.requests(limit)
	n := l.Connections(limit)
	r := newRun(ctx, l.Limits, limit, n)
	// The workers are there before the first request is built: who counts
	// allocations from then on finds what requests cost, and nothing else.
	var (
		workers sync.WaitGroup
		ready   <-chan numbered
		begun   = make(chan struct{})
	)
	for range n {
		workers.Go(func() {
			<-begun
			for {
				next, ok := r.take(ready)
				if !ok || r.over() {
					return
				}
				ex := do(r.ctx, next.req)
				ex.Index = next.index
				r.keep(ex)
				// Answers that are there are read before the next requests are written:
				// a server gets several at once, and is woken once for them.
				runtime.Gosched()
			}
		})
	}
	built, rest := r.build(src, n)
	ready = built
	workers.Go(rest)
	r.begin()
	close(begun)
	go func() {
		workers.Wait()
		r.finish(nil)
	}()
	return r
}

// WarmUp is a closed loop of N requests too.
func (l Closed) WarmUp(ctx context.Context, do Do, src dataset.Source) ([]*client.Exchange, error) {
	return l.Warmup.run(ctx, Closed{N: l.N}, do, src)
}

// Connections is N, or limit if that is lower.
func (l Closed) Connections(limit int) int {
	n := max(l.N, 1)
	if limit > 0 {
		n = min(n, limit)
	}
	return n
}
