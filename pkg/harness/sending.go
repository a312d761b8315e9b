package harness

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"example.com/tokpace/pkg/api"
	"example.com/tokpace/pkg/client"
	"example.com/tokpace/pkg/dataset"
	"example.com/tokpace/pkg/load"
)

// A sending is one load on its way to the target. All its exchanges pass here: they
// are counted, recorded, and ended after an interrupt.
type sending struct {
	p         *prepared
	warmup    bool
	expect    expected
	begun     time.Time
	recording *recording // nil for none

	ctx context.Context // of the exchanges
	cut context.CancelCauseFunc

	erase  func()      // the progress line
	unhook func() bool // from the interrupt

	sent, done, failed atomic.Int64 // done are all that have ended
	meter              meter
}

// part is what a sending is of its benchmark.
type part string

const (
	wholeRun   part = ""
	warmupPart part = "warm-up"
)

var errInterrupted = errors.New("interrupted")

// begin is called before a load is sent, in the sending's context and by its do.
func (p *prepared) begin(what part, expect expected) *sending {
	s := &sending{p: p, warmup: what == warmupPart, expect: expect, begun: time.Now()}
	s.recording = p.record(what)
	ctx := p.ctx
	if !s.warmup {
		// An interrupt leaves the grace time to what is in flight. A warm-up is in
		// no number, and ends at once.
		ctx = context.WithoutCancel(ctx)
	}
	ctx, s.cut = context.WithCancelCause(ctx)
	s.ctx = load.Observe(ctx, s.ended)
	s.erase = currentTerminal().follow(s)
	return s
}

// end is called when nothing is in flight any more.
func (s *sending) end() {
	if s.unhook != nil {
		s.unhook()
	}
	s.erase()
	s.cut(nil)
}

// start starts a run of the load, which an interrupt stops; what is in flight then
// is cut off after the grace time.
func (s *sending) start(l load.Load, do load.Do, src dataset.Source, limit int) *load.Run {
	s.meter.begin()
	run := l.Start(s.ctx, do, src, limit)
	s.unhook = context.AfterFunc(s.p.ctx, func() {
		run.Stop()
		time.AfterFunc(s.p.s.settings.grace, func() { s.cut(errInterrupted) })
	})
	return run
}

func (s *sending) do(ctx context.Context, req *api.Request) *client.Exchange {
	if s.sent.Add(1) == 1 {
		s.meter.first()
	}
	return s.p.c.Do(ctx, req)
}

// ended takes in each exchange before the load counts it. What cannot be recorded
// need not be sent.
func (s *sending) ended(ex *client.Exchange) {
	if s.recording != nil {
		if err := s.recording.append(ex); err != nil {
			s.cut(err)
		}
	}
	if !ex.OK && ex.Error.Class != api.Canceled {
		s.failed.Add(1)
	}
	s.done.Add(1)
}

// err is what went wrong with the records.
func (s *sending) err() error {
	if err := context.Cause(s.ctx); err != context.Canceled && err != errInterrupted {
		return err
	}
	return nil
}
