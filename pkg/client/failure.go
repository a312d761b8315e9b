package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"example.com/tokpace/pkg/api"
	"example.com/tokpace/pkg/h1"
)

// ended is the failure of an exchange whose time was up or whose caller gave
// up, nil when neither happened.
func (x *exchange) ended() *api.Failure {
	switch {
	case errors.Is(x.parent.Err(), context.Canceled):
		return &api.Failure{Class: api.Canceled, Message: "the caller gave up"}
	case x.parent.Err() != nil:
		return &api.Failure{Class: api.Timeout, Message: "the caller's deadline passed"}
	case x.ctx.Err() != nil, !x.start.IsZero() && !time.Now().Before(x.start.Add(x.timeout)):
		return &api.Failure{Class: api.Timeout, Message: fmt.Sprintf("no complete answer within %v", x.timeout)}
	}
	return nil
}

// transportFailure classifies an error that came before the response header.
func (x *exchange) transportFailure(err error) *api.Failure {
	if f := x.ended(); f != nil {
		return f
	}
	message := api.Snippet([]byte(err.Error()))
	switch {
	case !x.connected(err):
		return &api.Failure{Class: api.Connect, Message: message}
	case ownDeath(err):
		return &api.Failure{Class: api.Truncated, Message: message}
	case connectionDied(err):
		return &api.Failure{Class: api.Truncated, Message: "the connection ended before an answer: " + message}
	default:
		return &api.Failure{Class: api.Malformed, Message: message}
	}
}

// connected reports whether there was a connection before err.
func (x *exchange) connected(err error) bool {
	if x.trace == nil {
		return !isA[*h1.ConnectError](err) && !isA[*h1.RequestError](err)
	}
	x.trace.mu.Lock()
	defer x.trace.mu.Unlock()
	return !x.trace.got.IsZero() && !isA[*h1.ConnectError](err)
}

// bodyFailure classifies an error in the middle of a body.
func (x *exchange) bodyFailure(err error) *api.Failure {
	if f := x.ended(); f != nil {
		return f
	}
	message := api.Snippet([]byte(err.Error()))
	switch {
	case ownDeath(err):
		return &api.Failure{Class: api.Truncated, Message: message}
	case connectionDied(err):
		return &api.Failure{Class: api.Truncated, Message: "the connection ended inside the body: " + message}
	}
	return &api.Failure{Class: api.Malformed, Message: message}
}

// ownDeath reports whether err is the end of a connection in h1's words, which
// say where it ended.
func ownDeath(err error) bool {
	return isA[*h1.ClosedError](err) || isA[*h1.TruncatedError](err)
}

// connectionDied reports whether err of a transport that has no errors of its own
// for it is the end of a connection, as opposed to bytes on it that make no sense.
func connectionDied(err error) bool {
	if isA[*h1.ProtocolError](err) || isA[*h1.RequestError](err) {
		return false
	}
	var op *net.OpError
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) ||
		errors.Is(err, net.ErrClosed) || errors.Is(err, io.ErrClosedPipe) || errors.As(err, &op) ||
		strings.Contains(err.Error(), "server closed idle connection")
}

func isA[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

const (
	// errorBody is how much of an error answer is looked at for a message.
	errorBody = 64 << 10
	// drain is how much more of it is read so that the connection can be kept.
	drain = 4 << 20
)

// statusFailure reads an answer with a status other than 2xx.
func (x *exchange) statusFailure(resp *http.Response, body io.Reader) *api.Failure {
	head, err := io.ReadAll(io.LimitReader(body, errorBody))
	if err == nil {
		_, err = io.CopyN(io.Discard, body, drain)
	}
	if err != nil && err != io.EOF {
		if f := x.ended(); f != nil {
			return f
		}
	}
	message := api.ErrorMessage(head)
	if message == "" {
		message = http.StatusText(resp.StatusCode)
	}
	if u, err := resp.Location(); err == nil && resp.StatusCode/100 == 3 {
		location := api.RedactURL(u)
		message = fmt.Sprintf("redirected to %s: redirects are not followed, use that address as base URL or endpoint", api.Snippet([]byte(location)))
	}
	return &api.Failure{Class: api.HTTPStatus, Status: resp.StatusCode, Message: message}
}
