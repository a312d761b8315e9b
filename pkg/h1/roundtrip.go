package h1

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"time"
)

// An exchange is one RoundTrip and the body it leaves; a response and all that
// belongs to it is one allocation.
type exchange struct {
	resp  http.Response
	body  Body
	trace *httptrace.ClientTrace
	begun bool  // a byte of the answer is there
	wrote error // why the request could not be written
}

func (t *Transport) roundTrip(req *http.Request, fresh bool, deadline time.Time) (*http.Response, error) {
	ctx := req.Context()
	if ctx.Err() != nil {
		closeBody(req)
		return nil, context.Cause(ctx)
	}
	if req.URL == nil {
		closeBody(req)
		return nil, &RequestError{errors.New("no URL")}
	}
	h, target, err := t.find(req.URL)
	if err != nil {
		closeBody(req)
		return nil, &RequestError{err}
	}
	m, err := compose(req, h, target)
	if err != nil {
		closeBody(req)
		return nil, err
	}
	trace := httptrace.ContextClientTrace(ctx)
	c, err := t.acquire(ctx, h, fresh, deadline, trace)
	if err != nil {
		putHead(m.head)
		closeBody(req)
		return nil, err
	}
	x := &exchange{trace: trace}
	x.resp.Request = req
	x.body.init(t, c, ctx, deadline)
	c.sock.begin()
	if m.whole() {
		_, x.wrote = c.nc.Write(*m.head)
		putHead(m.head)
		x.wroteRequest(x.wrote)
	} else {
		x.body.up = start(m, c.nc, c.interrupt, x.wroteRequest)
	}
	if err := x.readHeader(t.maxHeaderBytes(), req); err != nil {
		x.body.finish(false)
		return nil, err
	}
	x.resp.TLS = c.tls
	x.resp.Body = &x.body
	x.body.begin()
	return &x.resp, nil
}

// acquire takes a connection from the pool or opens one.
func (t *Transport) acquire(ctx context.Context, h *host, fresh bool, deadline time.Time, trace *httptrace.ClientTrace) (*conn, error) {
	if trace != nil && trace.GetConn != nil {
		trace.GetConn(h.addr)
	}
	var c *conn
	if !fresh {
		c = t.take(h, deadline)
	}
	if c == nil {
		if !deadline.IsZero() {
			var cancel context.CancelFunc
			ctx, cancel = context.WithDeadline(ctx, deadline)
			defer cancel()
		}
		var err error
		if c, err = t.connect(ctx, h, trace); err != nil {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			return nil, &ConnectError{err}
		}
		c.setDeadline(deadline)
	}
	if trace != nil && trace.GotConn != nil {
		info := httptrace.GotConnInfo{Conn: c.nc, Reused: c.pooled, WasIdle: c.pooled}
		if c.pooled {
			info.IdleTime = time.Since(c.since)
		}
		trace.GotConn(info)
	}
	return c, nil
}

func (x *exchange) wroteRequest(err error) {
	if x.trace != nil && x.trace.WroteRequest != nil {
		x.trace.WroteRequest(httptrace.WroteRequestInfo{Err: err})
	}
}

// readHeader reads the answer's header. When the request could not be written,
// there may be an answer all the same: one that says why.
func (x *exchange) readHeader(limit int, req *http.Request) error {
	c := x.body.c
	for range maxInterim + 1 {
		n, lines, err := x.readHead(limit)
		if err != nil {
			return x.explain(err)
		}
		err = parseHead(string(c.in.unread()[:n]), lines, &x.resp)
		c.in.r += n
		switch {
		case err != nil:
			return err
		case x.resp.StatusCode == http.StatusSwitchingProtocols:
			return &ProtocolError{Fault: Upgraded}
		case x.resp.StatusCode < 200:
			continue
		}
		x.body.kind, err = frame(&x.resp, req.Method)
		x.body.left = x.resp.ContentLength
		x.body.keep = !x.resp.Close && !req.Close && !hasToken(req.Header["Connection"], "close")
		return err
	}
	return &ProtocolError{Fault: TooManyInterim}
}

// readHead reads until a whole head is in the input, and returns its length and
// lines.
func (x *exchange) readHead(limit int) (n, lines int, err error) {
	c := x.body.c
	scan := headScan{limit: limit}
	for {
		if c.in.r < c.in.w {
			if n, err := scan.find(c.in.unread()); n > 0 || err != nil {
				return n, scan.lines, err
			}
		}
		if err := c.fill(); err != nil {
			return 0, 0, err
		}
		if !x.begun {
			x.begun = true
			if x.trace != nil && x.trace.GotFirstResponseByte != nil {
				x.trace.GotFirstResponseByte()
			}
		}
	}
}

// explain turns an error of the connection before the end of the header into the
// one to return.
func (x *exchange) explain(err error) error {
	if _, ok := err.(*ProtocolError); ok {
		return err
	}
	if cause := x.body.interrupted(); cause != nil {
		return cause
	}
	if x.begun {
		if err == io.EOF {
			err = nil
		}
		return &TruncatedError{Part: "header", Err: err}
	}
	if x.wrote != nil {
		err = x.wrote // it came first
	}
	return &ClosedError{Reused: x.body.c.pooled, Err: err}
}
