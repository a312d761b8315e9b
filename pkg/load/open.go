package load

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"sync"
	"time"

	"example.com/tokpace/pkg/client"
	"example.com/tokpace/pkg/dataset"
	"example.com/tokpace/pkg/pacer"
)

// DefaultMaxLag is the send lag that an open loop tolerates when Open.MaxLag is
// zero. It is generous, so that no benchmark fails for a short stall of a busy
// machine: package metric notes much smaller lags, and they are in the latencies
// from the schedule.
const DefaultMaxLag = time.Second

const (
	// buildAhead is how many requests are built before their time has come.
	buildAhead = 64
	// undelivered is how many exchanges wait for whoever receives from Done.
	undelivered = 1024
	// spin is how long the dispatcher yields in a loop before a send: it keeps
	// the time that waking takes out of the send lag.
	spin = 100 * time.Microsecond
)

// Open is an open loop: a schedule says when requests are sent, and a server
// that is slow gets no fewer of them.
type Open struct {
	Schedule Schedule
	// MaxConcurrency is how many may be in flight at once; the others wait for
	// a slot in the order of the schedule, and their wait shows in Queue. 0 is
	// no cap.
	MaxConcurrency int
	// Seed chooses the draws of a random schedule.
	Seed uint64
	// MaxLag is how late the loop itself may be: the run has a *BehindError when
	// more than 1 in 100 sends are ready later than this after their time. 0
	// means DefaultMaxLag.
	MaxLag time.Duration
	Limits Limits
	Warmup Warmup
}

// A BehindError says that the load generator could not keep its schedule: the
// server got another load than was asked for.
type BehindError struct {
	Late, Sent int           // how many sends were ready later than Limit
	Worst      time.Duration // the largest send lag
	Limit      time.Duration // Open.MaxLag
}

func (e *BehindError) Error() string {
	return fmt.Sprintf("the load generator fell behind its schedule: %d of %d sends were ready more than %v late (max-lag), the worst %v: ask for a lower rate, or give the client more of the machine",
		e.Late, e.Sent, e.Limit, e.Worst)
}

// Start's clock begins when the first requests are built. A schedule or a cap
// that makes no sense is the run's error.
func (l Open) Start(ctx context.Context, do Do, src dataset.Source, limit int) *Run {
	r := newRun(ctx, l.Limits, limit, undelivered)
	times, err := l.times(r.limit)
	if err != nil {
		r.finish(err)
		return r
	}
	o := &opened{Run: r, do: do, lag: lag{limit: l.MaxLag}, jobs: make(chan job, undelivered)}
	if o.lag.limit <= 0 {
		o.lag.limit = DefaultMaxLag
	}
	ready, rest := r.build(src, buildAhead)
	o.ready = ready
	o.all.Go(rest)
	if l.MaxConcurrency > 0 {
		o.slots = make(chan struct{}, l.MaxConcurrency)
		o.backlog = newBacklog()
		o.all.Go(o.feed)
	}
	r.begin()
	start := time.Now()
	o.all.Go(func() { o.dispatch(start, times) })
	go func() {
		o.all.Wait()
		r.finish(o.lag.err())
	}()
	return r
}

func (l Open) times(limit int) (iter.Seq[time.Duration], error) {
	switch {
	case l.Schedule == nil:
		return nil, errors.New("load: an open loop needs a Schedule")
	case l.MaxConcurrency < 0:
		return nil, fmt.Errorf("load: MaxConcurrency is %d, it must be at least 0", l.MaxConcurrency)
	case l.Schedule == Schedule(Constant{Rate: math.Inf(1)}) && limit == 0:
		return nil, errors.New("load: a rate of +Inf without a number of requests never ends")
	}
	return l.Schedule.Times(l.Seed)
}

// WarmUp sends by the same schedule under the same cap, from its start on.
func (l Open) WarmUp(ctx context.Context, do Do, src dataset.Source) ([]*client.Exchange, error) {
	w := l
	w.Limits, w.Warmup = Limits{}, Warmup{}
	return l.Warmup.run(ctx, w, do, src)
}

// maxConnections bounds what Connections asks for without a cap.
const maxConnections = 256

// Connections is MaxConcurrency, or without a cap what the schedule sends in its
// first second, at most 256: enough for answers of a second. limit bounds both.
func (l Open) Connections(limit int) int {
	limit = l.Limits.requests(limit)
	if limit == 0 {
		limit = math.MaxInt
	}
	if l.MaxConcurrency > 0 {
		return min(l.MaxConcurrency, limit)
	}
	times, err := l.times(limit)
	if err != nil {
		return 0
	}
	n := 0
	for at := range times {
		if at > time.Second || n == min(limit, maxConnections) {
			break
		}
		n++
	}
	return n
}

// opened is an open loop in progress. The dispatcher waits for the times of the
// schedule. Without a cap it hands each request to a worker; with one it leaves
// that to a feeder, which waits for slots, so that a request that waits for a
// slot makes no later one late for its time.
type opened struct {
	*Run
	do    Do
	ready <-chan numbered
	all   sync.WaitGroup
	lag   lag

	slots   chan struct{} // holds one for each request in flight; nil without a cap
	backlog *backlog      // what waits for a slot

	jobs chan job
	mu   sync.Mutex
	idle int // workers that wait for a job, or will
}

// A moment is when a request was wanted and when the dispatcher was ready for it.
type moment struct{ scheduled, ready time.Time }

type job struct {
	numbered
	moment
}

func (o *opened) dispatch(start time.Time, times iter.Seq[time.Duration]) {
	if o.backlog != nil {
		defer o.backlog.close()
	} else {
		defer o.end()
	}
	p := pacer.Pacer{Spin: spin}
	i := 0
	for at := range times {
		if o.limit > 0 && i == o.limit {
			return
		}
		var next numbered
		if o.backlog == nil {
			var ok bool
			if next, ok = o.take(o.ready); !ok {
				return
			}
		}
		m := moment{scheduled: start.Add(at)}
		if p.Until(o.sending, m.scheduled) != nil {
			return
		}
		m.ready = time.Now()
		o.lag.note(m.ready.Sub(m.scheduled))
		if o.backlog == nil {
			o.hand(job{next, m})
		} else {
			o.backlog.push(m)
		}
		i++
	}
}

// feed sends what is in the backlog, as slots become free.
func (o *opened) feed() {
	defer o.end()
	for {
		m, ok := o.backlog.pop()
		if !ok {
			return
		}
		select {
		case o.slots <- struct{}{}:
		case <-o.sending.Done():
		}
		if o.over() {
			o.leave()
			continue
		}
		next, ok := o.take(o.ready)
		if !ok {
			o.halt() // the dispatcher too: nothing more can be built
			o.backlog.drain()
			return
		}
		o.hand(job{next, m})
	}
}

// end is called after the last request was handed out. The workers end when they
// are done, and nothing more is built, if the schedule was shorter than the limit.
func (o *opened) end() {
	o.halt()
	close(o.jobs)
}

// leave counts a request that will not be sent.
func (o *opened) leave() {
	o.Run.mu.Lock()
	o.unfinished++
	o.Run.mu.Unlock()
}

// hand gives a job to a worker that is idle, or else to a new one.
func (o *opened) hand(j job) {
	o.mu.Lock()
	idle := o.idle > 0
	if idle {
		o.idle--
	}
	o.mu.Unlock()
	if idle {
		o.jobs <- j
		return
	}
	o.all.Go(func() { o.work(j) })
}

func (o *opened) work(j job) {
	for ok := true; ok; j, ok = <-o.jobs {
		ex := o.do(o.ctx, j.req)
		ex.Index, ex.Scheduled, ex.Ready = j.index, j.scheduled, j.ready
		if o.slots != nil {
			<-o.slots
		}
		o.keep(ex)
		o.mu.Lock()
		o.idle++
		o.mu.Unlock()
	}
}

// lag watches how late the dispatcher is. It belongs to the dispatcher until that
// has ended.
type lag struct {
	limit      time.Duration
	late, sent int
	worst      time.Duration
}

func (l *lag) note(d time.Duration) {
	l.sent++
	l.worst = max(l.worst, d)
	if d > l.limit {
		l.late++
	}
}

func (l *lag) err() error {
	if l.late*100 <= l.sent {
		return nil
	}
	return &BehindError{Late: l.late, Sent: l.sent, Worst: l.worst, Limit: l.limit}
}

// A backlog is an unbounded queue between the dispatcher and the feeder.
type backlog struct {
	mu      sync.Mutex
	moments []moment
	closed  bool
	changed chan struct{} // holds a token when there may be news
}

func newBacklog() *backlog { return &backlog{changed: make(chan struct{}, 1)} }

func (b *backlog) push(m moment) {
	b.mu.Lock()
	b.moments = append(b.moments, m)
	b.mu.Unlock()
	b.signal()
}

func (b *backlog) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.signal()
}

func (b *backlog) signal() {
	select {
	case b.changed <- struct{}{}:
	default:
	}
}

// pop waits for the next; it reports false when the backlog is closed and empty.
func (b *backlog) pop() (m moment, ok bool) {
	for {
		b.mu.Lock()
		if len(b.moments) > 0 {
			m, b.moments = b.moments[0], b.moments[1:]
			b.mu.Unlock()
			return m, true
		}
		closed := b.closed
		b.mu.Unlock()
		if closed {
			return m, false
		}
		<-b.changed
	}
}

// drain waits until the dispatcher has ended.
func (b *backlog) drain() {
	for ok := true; ok; {
		_, ok = b.pop()
	}
}
