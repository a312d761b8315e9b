package h1

import (
	"fmt"
	"io"
	"strconv"
)

// A Fault names what is wrong with an answer.
type Fault string

// The faults of an answer's header.
const (
	BadStatusLine  Fault = "status line"
	BadField       Fault = "header field"
	FoldedField    Fault = "folded header field"
	BareCR         Fault = "bare CR"
	BareLF         Fault = "bare LF"
	HeaderTooLarge Fault = "header too large"
	TooManyFields  Fault = "too many header fields"
	TooManyInterim Fault = "too many interim answers"
	Upgraded       Fault = "protocol switched unasked"
)

// The faults of its framing.
const (
	BadLength           Fault = "Content-Length"
	DifferingLengths    Fault = "differing Content-Lengths"
	LengthAndEncoding   Fault = "both Content-Length and Transfer-Encoding"
	BadTransferEncoding Fault = "Transfer-Encoding"
	BadChunkSize        Fault = "chunk size"
	ChunkTooLarge       Fault = "chunk size too large"
	BadChunkExtension   Fault = "chunk extension"
	BadChunkEnd         Fault = "end of chunk"
	TooMuchFraming      Fault = "too much chunk framing"
	BadTrailer          Fault = "trailer"
	TrailerTooLarge     Fault = "trailer too large"
)

// A ProtocolError says that what arrived is no valid HTTP/1.1 answer. The
// connection has been closed.
type ProtocolError struct {
	Fault  Fault
	Detail string // the bytes in question or the limit; may be empty
}

func (e *ProtocolError) Error() string {
	s := "malformed HTTP answer: " + string(e.Fault)
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	return s
}

// fault is a ProtocolError that quotes what was wrong, at most 64 bytes of it.
func fault[S string | []byte](f Fault, wrong S) error {
	const most = 64
	if len(wrong) > most {
		return &ProtocolError{f, strconv.Quote(string(wrong[:most])) + "…"}
	}
	return &ProtocolError{f, strconv.Quote(string(wrong))}
}

// A TruncatedError says that a connection ended inside an answer. It wraps
// io.ErrUnexpectedEOF, and the connection's own error if there was one.
type TruncatedError struct {
	Part string // "header" or "body"
	Err  error  // what the connection failed with; nil when it was closed in order
}

func (e *TruncatedError) Error() string {
	if e.Err == nil {
		return "connection closed inside the answer's " + e.Part
	}
	return fmt.Sprintf("connection broke inside the answer's %s: %v", e.Part, e.Err)
}

// Unwrap returns io.ErrUnexpectedEOF and the cause.
func (e *TruncatedError) Unwrap() []error {
	if e.Err == nil {
		return []error{io.ErrUnexpectedEOF}
	}
	return []error{io.ErrUnexpectedEOF, e.Err}
}

// A ClosedError says that a connection ended before the first byte of an answer.
// The server may have got the request or not.
type ClosedError struct {
	// Reused says that the connection came from the pool. Servers close idle
	// connections whenever they like: such a request may be sent again.
	Reused bool
	Err    error // io.EOF when it was closed in order
}

func (e *ClosedError) Error() string {
	which := "connection"
	if e.Reused {
		which = "reused connection"
	}
	if e.Err == io.EOF {
		return which + " closed before an answer"
	}
	return fmt.Sprintf("%s broke before an answer: %v", which, e.Err)
}

// Unwrap returns the cause.
func (e *ClosedError) Unwrap() error { return e.Err }

// A ConnectError says that there was no connection to send the request on: the
// dial or the TLS handshake failed. Its text is that of the cause.
type ConnectError struct{ Err error }

func (e *ConnectError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *ConnectError) Unwrap() error { return e.Err }

// A RequestError says that a request cannot be sent as it is, or that its body
// failed while it was read.
type RequestError struct{ Err error }

func (e *RequestError) Error() string { return "request: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *RequestError) Unwrap() error { return e.Err }
