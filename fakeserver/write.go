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

	"example.com/tokpace/pkg/pacer"
)

const (
	maxBody   = 64 << 20 // of a request
	keepBody  = 1 << 20  // largest request buffer kept for the next request
	sliceSize = 64 << 10 // a section is written in slices of this size
)

var (
	bodies = sync.Pool{New: func() any { return new(bytes.Buffer) }}
	blocks = sync.Pool{New: func() any { return new([sliceSize]byte) }}
)

// serve reads a request, plans it and writes the plan. It starts no goroutine.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	req := Request{Method: r.Method, Path: r.URL.Path, Fake: strings.Join(r.Header.Values(PlanHeader), ";")}
	body := bodies.Get().(*bytes.Buffer)
	body.Reset()
	var err error
	if r.Body != nil { // as it may be when a test calls the handler itself
		_, err = body.ReadFrom(http.MaxBytesReader(w, r.Body, maxBody))
	}
	arrived := time.Now()
	req.Body = body.Bytes()

	record := Record{
		Method: r.Method, Endpoint: r.URL.Path, Header: headerNames(r.Header), Arrived: arrived,
		Headers: Stamp{Actual: -1},
	}
	var p *Plan
	var tooLarge *http.MaxBytesError
	switch {
	case err == nil:
		p = s.Plan(req)
		if s.cfg.Edit != nil {
			s.cfg.Edit(req, p)
		}
	case errors.As(err, &tooLarge):
		p = errorPlan(&apiError{
			status: http.StatusRequestEntityTooLarge, kind: "Request Entity Too Large",
			message: "the request is over " + strconv.Itoa(maxBody) + " bytes",
		})
	default:
		s.journal.begin(record, 0).end(s.gone(), 0)
		panic(http.ErrAbortHandler)
	}
	if body.Cap() <= keepBody {
		bodies.Put(body)
	}

	record.Model, record.Status, record.Headers.Planned = p.Model, p.Status, p.HeadersAt
	record.InputTokens, record.OutputTokens, record.ImageTokens = p.InputTokens, p.OutputTokens, p.ImageTokens
	out := writer{s: s, w: w, ctx: r.Context(), arrived: arrived, entry: s.journal.begin(record, len(p.Events))}
	how := out.run(p)
	out.entry.end(how, time.Since(arrived))
	if how != Complete {
		// net/http's way to drop a connection, quietly. Returning would end the body properly, and a client that is still
		// there when the server closes would take half an answer for a whole one.
		panic(http.ErrAbortHandler)
	}
}

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
	w       http.ResponseWriter
	ctx     context.Context
	arrived time.Time
	entry   *entry
	pacer   pacer.Pacer
}

func (o *writer) run(p *Plan) (how string) {
	if o.wait(p.HeadersAt) != nil {
		return o.s.gone()
	}
	h := o.w.Header()
	for name, values := range p.Header {
		h[name] = values
	}
	if p.ContentLength >= 0 {
		h["Content-Length"] = []string{strconv.FormatInt(p.ContentLength, 10)}
	}
	o.entry.headers(time.Since(o.arrived))
	o.w.WriteHeader(p.Status)
	// A body of known length that is due together with the headers goes out in one write with them.
	if p.ContentLength < 0 || len(p.Events) > 0 && p.Events[0].At > p.HeadersAt {
		if o.flush() != nil {
			return o.s.gone()
		}
	}
	for i := range p.Events {
		e := &p.Events[i]
		if o.wait(e.At) != nil {
			return o.s.gone()
		}
		o.entry.event(e.At, time.Since(o.arrived))
		if o.write(e) != nil || o.flush() != nil {
			return o.s.gone()
		}
	}
	switch p.End {
	case EndCut:
		return Cut
	case EndHang:
		<-o.ctx.Done()
		return o.s.gone()
	}
	return Complete
}

// wait blocks until the planned time at, or fails when the client or the server is gone, also when at is past.
func (o *writer) wait(at time.Duration) error {
	return o.pacer.Until(o.ctx, o.arrived.Add(at))
}

func (o *writer) write(e *Event) error {
	if e.Section == nil {
		n, err := o.w.Write(e.Data)
		o.entry.wrote(int64(n))
		return err
	}
	buf := blocks.Get().(*[sliceSize]byte)
	defer blocks.Put(buf)
	for off := int64(0); off < e.Section.Size(); {
		if err := o.ctx.Err(); err != nil {
			return err
		}
		n, err := e.Section.ReadAt(buf[:], off)
		if err != nil && err != io.EOF {
			return err
		}
		n, err = o.w.Write(buf[:n])
		o.entry.wrote(int64(n))
		if err != nil {
			return err
		}
		off += int64(n)
	}
	return nil
}

func (o *writer) flush() error {
	switch f := o.w.(type) {
	case interface{ FlushError() error }:
		return f.FlushError()
	case http.Flusher:
		f.Flush()
	}
	return nil
}
