// Package client performs one measured exchange: it sends a request, reads the
// whole answer and says when what arrived. It stands between pkg/load, which
// decides when to send, and pkg/api and pkg/sse, which know what bytes mean.
//
//	c := &client.Client{BaseURL: "http://127.0.0.1:8000/v1"}
//	req, err := api.NewCompletion("my-model", "Once upon a time", api.Generation{MaxTokens: 64, Stream: true})
//	if err != nil {
//		return err
//	}
//	ex := c.Do(ctx, req)
//	if !ex.OK {
//		return ex.Error // a failure is a class inside the exchange
//	}
//	fmt.Println(ex.TTFT.V, ex.E2E.V, ex.OutputTokens.V)
package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync"
	"time"

	"example.com/tokpace/pkg/api"
	"example.com/tokpace/pkg/h1"
)

// DefaultTimeout is the time a request may take when Client.Timeout is zero.
const DefaultTimeout = 10 * time.Minute

// DefaultMaxBody limits a JSON answer or an event stream when Client.MaxBody is
// zero, in bytes. Binary vectors are not kept and have no limit, unless they are
// to be checked.
const DefaultMaxBody = 256 << 20

// A Client sends requests to one server. It is safe for concurrent use; its
// fields must not change once it is used.
type Client struct {
	// BaseURL is the server, with or without /v1 at its end.
	BaseURL string
	// Transport moves the bytes; nil means a new h1.Transport.
	Transport http.RoundTripper
	// Header is added to every request.
	Header http.Header
	// APIKey, when set, goes out as a bearer token. It appears in no record,
	// message or error.
	APIKey string
	// Timeout limits one exchange from send to end of body; 0 means
	// DefaultTimeout. There is always one: a body that never ends is a failure
	// of class timeout, not a hang.
	Timeout time.Duration
	// MaxEvent and MaxBody limit one stream event, and one JSON body or event
	// stream, in bytes; 0 means sse.DefaultMaxEvent and DefaultMaxBody. What is
	// longer is a failure of class malformed that names the limit. The header
	// has a limit too, which is the transport's.
	MaxEvent, MaxBody int
	// CountTokens counts the tokens of generated text for answers without
	// usage; nil leaves their output tokens unknown.
	CountTokens func(text string) int
	// CheckVectors looks at every vector of an answer, outside the timed path:
	// see api.CheckVectors. Binary bodies are then kept until they are checked.
	CheckVectors bool
	// DiscardText leaves generated text out of the exchanges.
	DiscardText bool

	once      sync.Once
	transport http.RoundTripper
	first     roundTrip
	fresh     roundTrip // on a new connection
	shares    bool      // the transport changes nothing in what it sends
	tells     bool      // its bodies and errors tell of the connection
	secrets   api.Secrets

	mu       sync.Mutex
	prepared map[preparedKey]*http.Request
}

// A roundTrip gives an exchange up at its deadline, unless the context has one.
type roundTrip func(req *http.Request, deadline time.Time) (*http.Response, error)

// byContext is for transports that know a deadline from the context alone.
func byContext(t http.RoundTripper) roundTrip {
	return func(req *http.Request, _ time.Time) (*http.Response, error) { return t.RoundTrip(req) }
}

// errTimeout is the cause by which a request's own time limit is told from the
// caller's.
var errTimeout = errors.New("request timeout")

// Do performs one exchange. It always returns one, whatever happened, and only
// after the answer's end or its failure.
func (c *Client) Do(ctx context.Context, req *api.Request) *Exchange {
	c.once.Do(c.init)
	ex := &Exchange{Schema: Schema, API: req.API.Name, Stream: req.Stream}
	hr, err := c.prepare(req)
	if err != nil {
		ex.fail(&api.Failure{Class: api.Connect, Message: c.secrets.Redact(err.Error())})
		return ex
	}
	timeout := c.Timeout
	if timeout <= 0 {
		timeout = DefaultTimeout
	}
	x := &exchange{c: c, ex: ex, req: req, hr: hr, parent: ctx, ctx: ctx, timeout: timeout}
	if !c.tells {
		run, cancel := context.WithTimeoutCause(ctx, timeout, errTimeout)
		defer cancel()
		x.ctx = run
	}
	if f := x.do(); f != nil {
		f.Message = c.secrets.Redact(f.Message)
		ex.fail(f)
		return ex
	}
	ex.OK = true
	return ex
}

// CloseIdleConnections closes the connections that no exchange uses.
func (c *Client) CloseIdleConnections() {
	c.once.Do(c.init)
	type idler interface{ CloseIdleConnections() }
	if t, ok := c.transport.(idler); ok {
		t.CloseIdleConnections()
	}
}

func (c *Client) init() {
	c.findSecrets()
	c.transport = c.Transport
	if c.transport == nil {
		c.transport = &h1.Transport{}
	}
	c.shares = true
	c.first = byContext(c.transport)
	switch t := c.transport.(type) {
	case *h1.Transport:
		c.first, c.fresh = t.RoundTripUntil, t.RoundTripFresh
		c.tells = true
	case *http.Transport:
		clone := t.Clone()
		clone.DisableKeepAlives = true
		c.fresh = byContext(clone)
	default:
		c.fresh = c.first
		c.shares = false
	}
}

// findSecrets gathers what the client sends and nobody may repeat: some servers
// put the key that they reject into the error.
func (c *Client) findSecrets() {
	words := append(api.HeaderSecrets(c.Header), c.APIKey)
	if u, err := url.Parse(c.BaseURL); err == nil {
		words = append(words, api.URLSecrets(u, api.IsSecretName)...)
	}
	c.secrets = api.NewSecrets(words...)
}

// An exchange is one Do in progress.
type exchange struct {
	c      *Client
	ex     *Exchange
	req    *api.Request
	hr     *http.Request // without context and body
	parent context.Context
	ctx    context.Context

	timeout time.Duration
	start   time.Time // of the first attempt
	trace   *trace    // of the last attempt, nil where the transport tells
}

// A trace notes what the transport did for one attempt. The hooks run on other
// goroutines, dials may outlive the attempt.
type trace struct {
	mu     sync.Mutex
	asked  time.Time // connection asked for
	got    time.Time // connection obtained
	local  net.Addr  // of that connection
	reused bool
	answer bool // a byte of the answer was seen
}

func (t *trace) hooks() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GetConn: func(string) {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.asked = time.Now()
		},
		GotConn: func(info httptrace.GotConnInfo) {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.got, t.reused = time.Now(), info.Reused
			if info.Conn != nil {
				t.local = info.Conn.LocalAddr()
			}
		},
		GotFirstResponseByte: func() {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.answer = true
		},
	}
}

func (x *exchange) do() *api.Failure {
	x.ex.Attempts = 1
	resp, err := x.roundTrip(x.c.first)
	if err != nil && x.mayResend(err) {
		x.ex.Attempts = 2
		resp, err = x.roundTrip(x.c.fresh)
	}
	now := time.Now()
	if err != nil {
		return x.transportFailure(err)
	}
	defer resp.Body.Close()
	body := newArrivals(resp.Body, x.start, now)
	x.ex.Status = resp.StatusCode
	x.ex.Headers = api.Some(body.at)
	x.noteConnection(body)

	defer func() {
		x.ex.BodyBytes = api.Some(body.n)
		how := body.how()
		x.ex.Reads, x.ex.KernelStamps = how.Total, how.Stamped
	}()
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return x.statusFailure(resp, body)
	}
	return x.read(resp, body)
}

// noteConnection notes on which connection the answer came, and how long it took to
// open it if it is a new one.
func (x *exchange) noteConnection(body *arrivals) {
	if x.trace == nil {
		c := body.timed.Connection()
		x.ex.Local, x.ex.ConnReused = c.Local, c.Reused
		if !c.Reused {
			x.ex.Connect = api.Some(c.Opening)
		}
		return
	}
	x.trace.mu.Lock()
	defer x.trace.mu.Unlock()
	x.ex.Local, x.ex.ConnReused = x.trace.local, x.trace.reused
	if !x.trace.reused && !x.trace.got.IsZero() {
		x.ex.Connect = api.Some(x.trace.got.Sub(x.trace.asked))
	}
}

func (x *exchange) roundTrip(send roundTrip) (*http.Response, error) {
	ctx := x.ctx
	if !x.c.tells {
		x.trace = &trace{}
		ctx = httptrace.WithClientTrace(ctx, x.trace.hooks())
	}
	var hr *http.Request
	if x.c.shares {
		hr = x.hr.WithContext(ctx)
	} else {
		hr = x.hr.Clone(ctx)
	}
	// There is no GetBody: net/http must not send a request again by itself, since it
	// would not be seen.
	hr.Body, hr.ContentLength = http.NoBody, int64(len(x.req.Body))
	if hr.ContentLength > 0 {
		hr.Body = io.NopCloser(bytes.NewReader(x.req.Body))
	}
	if x.start.IsZero() {
		x.start = time.Now()
		x.ex.Sent = x.start
	}
	return send(hr, x.start.Add(x.timeout))
}

// mayResend reports whether err is the death of a reused connection before any
// byte of an answer: the one case in which sending again is safe and needed,
// since servers close idle connections whenever they like.
func (x *exchange) mayResend(err error) bool {
	if x.ctx.Err() != nil {
		return false
	}
	if closed, ok := errors.AsType[*h1.ClosedError](err); ok {
		return closed.Reused
	}
	if x.trace == nil || isA[*h1.TruncatedError](err) {
		return false
	}
	x.trace.mu.Lock()
	defer x.trace.mu.Unlock()
	return x.trace.reused && !x.trace.answer && connectionDied(err)
}

// read reads the body of a 2xx answer by what it is.
func (x *exchange) read(resp *http.Response, body *arrivals) *api.Failure {
	if coding := resp.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return &api.Failure{Class: api.Malformed, Message: fmt.Sprintf("the answer is encoded as %s, which was not asked for", api.Snippet([]byte(coding)))}
	}
	media := mediaType(resp.Header.Get("Content-Type"))
	switch {
	case x.req.Stream && media == "text/event-stream":
		return x.readStream(body)
	case x.req.Stream:
		// Content types are wrong in practice. A JSON answer begins with a
		// brace, and no line of an event stream does.
		if !body.beginsWithJSON() {
			return x.readStream(body)
		}
		x.ex.Warnings = append(x.ex.Warnings, "a stream was asked for, one JSON answer came")
		return x.readPlain(resp, body)
	case media == "application/octet-stream" && x.req.API.HasVectors():
		return x.readBinary(resp, body)
	case api.IsBinary(x.req.Encoding) && !body.beginsWithJSON():
		return x.readBinary(resp, body)
	case api.IsBinary(x.req.Encoding):
		x.ex.Warnings = append(x.ex.Warnings, fmt.Sprintf("encoding_format %s was asked for, JSON came", x.req.Encoding))
	}
	return x.readPlain(resp, body)
}

// mediaType is a content type without its parameters.
func mediaType(value string) string {
	switch value {
	case "application/json", "application/octet-stream", "text/event-stream": // nearly all
		return value
	}
	media, _, _ := mime.ParseMediaType(value)
	return media
}

func (x *exchange) readPlain(resp *http.Response, body *arrivals) *api.Failure {
	buf := getBuffer()
	defer putBuffer(buf)
	body.limit = x.c.maxBody()
	if n := resp.ContentLength; n > 0 {
		buf.Grow(int(min(n, maxPooled/2)) + bytes.MinRead)
	}
	if _, err := buf.ReadFrom(body); err != nil {
		return x.bodyFailure(err)
	}
	x.complete(body)
	answer, f := api.Plain(x.req, buf.Bytes())
	if f == nil && x.c.CheckVectors && x.req.API.HasVectors() {
		f = api.CheckVectors(x.req, false, "", buf.Bytes())
	}
	x.ex.take(answer, x.req)
	if f != nil {
		return f
	}
	if !x.ex.OutputTokens.Known {
		x.countOutput(answer)
	}
	x.discardText()
	return nil
}

// readBinary consumes the body in pieces and keeps none of them, unless the
// vectors are to be checked.
func (x *exchange) readBinary(resp *http.Response, body *arrivals) *api.Failure {
	var kept *bytes.Buffer
	if x.c.CheckVectors {
		kept = getBuffer()
		defer putBuffer(kept)
		body.limit = x.c.maxBody()
	}
	piece := getPiece()
	defer putPiece(piece)
	for {
		n, err := body.Read(*piece)
		if kept != nil {
			kept.Write((*piece)[:n])
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return x.bodyFailure(err)
		}
	}
	x.complete(body)
	metadata := resp.Header.Get(api.MetadataHeader)
	answer, f := api.Binary(metadata, body.n)
	if f == nil && kept != nil {
		f = api.CheckVectors(x.req, true, metadata, kept.Bytes())
	}
	x.ex.take(answer, x.req)
	return f
}

func (c *Client) maxBody() int64 {
	if c.MaxBody > 0 {
		return int64(c.MaxBody)
	}
	return DefaultMaxBody
}

// complete stops the clock of an answer that is not a stream.
func (x *exchange) complete(body *arrivals) {
	x.ex.BodyComplete = api.Some(body.at)
	x.ex.E2E = x.ex.BodyComplete
}

// countOutput counts generated text when the server did not.
func (x *exchange) countOutput(answer api.Answer) {
	if x.c.CountTokens == nil || len(answer.Generated) == 0 {
		return
	}
	var n int64
	for _, text := range answer.Generated {
		n += int64(x.c.CountTokens(text))
	}
	x.ex.OutputTokens, x.ex.OutputSource = api.Some(n), FromClient
}

func (x *exchange) discardText() {
	if x.c.DiscardText {
		x.ex.Text, x.ex.Reasoning, x.ex.ToolCalls = "", "", nil
	}
}
