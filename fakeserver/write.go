package fakeserver

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"example.com/tokpace/pkg/freelist"
	"example.com/tokpace/pkg/pacer"
)

const (
	maxBody   = 64 << 20 // of a request
	keepBody  = 1 << 20  // largest request buffer kept for the next request
	sliceSize = 64 << 10 // a section is written in slices of this size
)

var (
	bodies = freelist.List[*bytes.Buffer]{New: func() *bytes.Buffer { return new(bytes.Buffer) }}
	blocks = freelist.List[*[sliceSize]byte]{New: func() *[sliceSize]byte { return new([sliceSize]byte) }}
)

// manyBlocks makes some blocks with the first: how many are in use at once is chance, and would be in a benchmark's B/op.
var manyBlocks = sync.OnceFunc(func() { blocks.Reserve(16) })

// serve reads a request, plans it and writes the plan. It starts no goroutine.
//
// Its frame and those below it stay on the stack of a connection as long as a stream lasts: what is needed only to plan
// is in functions that have returned by then.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	conn := connectionOf(r)
	if conn.gone() {
		panic(http.ErrAbortHandler)
	}
	p, arrived := s.receive(w, r)
	if p == nil {
		s.journal.begin(newRecord(r, arrived), 0).end(s.gone(), 0)
		panic(http.ErrAbortHandler)
	}
	if conn == nil && (p.Raw != nil || p.End == EndReset || p.IdleClose != nil) {
		p = errorPlan(errNoConnection)
	}
	out := writer{s: s, http: httpSink{w: w}, conn: conn, ctx: r.Context(), arrived: arrived, entry: s.begin(r, p, arrived)}
	out.tally = s.stats.begin(p)
	how := out.run(p)
	out.tally.abort()
	out.entry.end(how, time.Since(arrived))
	if how != Complete || p.Raw != nil {
		// net/http's way to drop a connection, quietly. Returning would end the body properly, and a client that is still
		// there when the server closes would take half an answer for a whole one.
		panic(http.ErrAbortHandler)
	}
	if p.IdleClose != nil {
		s.closeWhenIdle(conn, *p.IdleClose, out.entry)
	}
}

// receive reads a request to its end and plans the answer, nil if the request did not come to its end.
func (s *Server) receive(w http.ResponseWriter, r *http.Request) (p *Plan, arrived time.Time) {
	body := bodies.Get()
	body.Reset()
	var err error
	if r.Body != nil { // as it may be when a test calls the handler itself
		if r.ContentLength > 0 && r.ContentLength < keepBody {
			body.Grow(int(r.ContentLength) + bytes.MinRead) // once, and by as much for each
		}
		_, err = body.ReadFrom(http.MaxBytesReader(w, r.Body, maxBody))
	}
	arrived = time.Now()
	// Many requests at once must not hold up the events of others.
	pacer.GiveWay()
	var tooLarge *http.MaxBytesError
	switch {
	case err == nil:
		p = s.state.Load().faulty(&Request{
			Method: r.Method, Path: r.URL.Path, Header: r.Header, Body: body.Bytes(), stats: &s.stats,
			Fake: joined(r.Header, PlanHeader), Fault: joined(r.Header, FaultHeader),
		})
	case errors.As(err, &tooLarge):
		p = errorPlan(&apiError{
			status: http.StatusRequestEntityTooLarge, kind: "Request Entity Too Large",
			message: "the request is over " + strconv.Itoa(maxBody) + " bytes",
		})
	}
	if body.Cap() <= keepBody {
		bodies.Put(body)
	}
	return p, arrived
}

func joined(h http.Header, name string) string { return strings.Join(h[name], ";") }

// begin begins the record of a request that has been planned.
func (s *Server) begin(r *http.Request, p *Plan, arrived time.Time) *entry {
	record := newRecord(r, arrived)
	record.Model, record.Status, record.Headers.Planned = p.Model, p.Status, p.HeadersAt
	record.InputTokens, record.OutputTokens, record.ImageTokens = p.InputTokens, p.OutputTokens, p.ImageTokens
	record.Rules, record.Faults, record.PlannedEnd, record.PlannedEnded = p.Rules, p.Faults, p.End, p.endAt()
	return s.journal.begin(record, p.count())
}

func newRecord(r *http.Request, arrived time.Time) Record {
	return Record{
		Method: r.Method, Endpoint: r.URL.Path, Remote: r.RemoteAddr, Header: headerNames(r.Header), Arrived: arrived,
		Headers: Stamp{Actual: -1},
	}
}

var errNoConnection = errors.New("this fault needs the connection: set ConnContext of the http.Server to that of the fake server")

// gone says why a request ended early.
func (s *Server) gone() string {
	if s.closed.Load() {
		return Canceled
	}
	return Disconnected
}

// writer writes one plan.
type writer struct {
	s       *Server
	http    httpSink
	raw     *rawSink // used instead if not nil
	conn    *connection
	ctx     context.Context
	arrived time.Time
	entry   *entry
	tally   tally
	pacer   pacer.Pacer
}

func (o *writer) run(p *Plan) (how string) {
	if p.Raw != nil {
		o.raw = newRawSink(o.conn.Conn, p)
	}
	if p.Interim != 0 {
		o.entry.act(ActionInterim, 0)
		o.interim(p.Interim)
	}
	if p.Status == 0 {
		return o.end(p)
	}
	now, err := o.wait(p.HeadersAt)
	if err != nil {
		return o.s.gone()
	}
	o.entry.headers(now)
	if o.head(p) != nil {
		return o.s.gone()
	}
	before, left := p.HeadersAt, p.count()
	for e := range p.each {
		left--
		if e.Mark == MarkStalled {
			o.entry.act(ActionStall, before)
		}
		before = e.At
		now, err := o.wait(e.At)
		if err != nil {
			return o.s.gone()
		}
		o.entry.event(e, now)
		o.tally.event(e, left == 0 && p.End == EndClean, now)
		if o.write(e) != nil {
			return o.s.gone()
		}
	}
	return o.end(p)
}

// end does what follows the last event.
func (o *writer) end(p *Plan) (how string) {
	if p.End == EndHang {
		o.entry.act(ActionHang, p.endAt())
		<-o.ctx.Done()
		return o.s.gone()
	}
	due := time.Duration(-1)
	switch {
	case p.EndAt != 0:
		due = p.endAt()
	case p.Status == 0:
		due = p.HeadersAt
	}
	if due >= 0 {
		if _, err := o.wait(due); err != nil {
			return o.s.gone()
		}
	}
	switch p.End {
	case EndCut:
		o.entry.act(ActionCut, p.endAt())
		return Cut
	case EndReset:
		o.entry.act(ActionReset, p.endAt())
		o.conn.reset()
		return Reset
	}
	if o.raw != nil {
		if o.raw.finish() != nil {
			return o.s.gone()
		}
		o.entry.act(ActionClose, p.endAt())
	}
	return Complete
}

func (o *writer) interim(status int) {
	if o.raw != nil {
		o.raw.interim(status) // if it fails, so will the headers
		return
	}
	o.http.w.WriteHeader(status)
}

func (o *writer) head(p *Plan) error {
	if o.raw != nil {
		return o.raw.head(p)
	}
	return o.http.head(p)
}

// wait blocks until the planned time at and returns the time it is then, or fails when the client or the server is gone,
// also when at is past. Looking at the clock is most of what an event that is due costs beside its write: it is done once.
func (o *writer) wait(at time.Duration) (now time.Duration, err error) {
	if now = time.Since(o.arrived); now >= at {
		return now, o.ctx.Err()
	}
	err = o.pacer.Until(o.ctx, o.arrived.Add(at))
	return time.Since(o.arrived), err
}

func (o *writer) write(e *Event) error {
	if e.Section == nil {
		n, err := o.writeData(e.Data)
		if n != len(e.Data) {
			o.entry.wrote(int64(n - len(e.Data)))
		}
		return err
	}
	manyBlocks()
	buf := blocks.Get()
	defer blocks.Put(buf)
	for off := int64(0); off < e.Section.Size(); {
		if err := o.ctx.Err(); err != nil {
			return err
		}
		n, err := e.Section.ReadAt(buf[:], off)
		if err != nil && err != io.EOF {
			return err
		}
		written, err := o.writeData(buf[:n])
		o.entry.wrote(int64(written))
		if err != nil {
			return err
		}
		off += int64(n)
	}
	return nil
}

func (o *writer) writeData(data []byte) (n int, err error) {
	if o.raw != nil {
		return o.raw.write(data)
	}
	return o.http.write(data)
}
