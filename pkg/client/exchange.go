package client

import (
	"net"
	"time"

	"example.com/tokpace/pkg/api"
)

// Schema names the form of an Exchange's JSON.
const Schema = "tokpace.exchange/v1"

// The sources of a token count.
const (
	FromServer = "server" // the usage that the server reported
	FromClient = "client" // the client's own count
)

// A Dur is a time span that may be absent.
type Dur = api.Opt[time.Duration]

// An Exchange is one request and its whole answer. All times run from the send:
// just before the request is handed to the transport, payload built, connection
// perhaps not yet made. Absent values are absent, never zero. A failed exchange
// keeps its events, text and body bytes, but no latency and no token count.
//
// Its JSON is the record of `tokpace probe -json`; durations are nanoseconds.
type Exchange struct {
	Schema string       `json:"schema"`
	API    string       `json:"api"`
	Stream bool         `json:"stream"` // what the request's body asked for
	OK     bool         `json:"ok"`
	Error  *api.Failure `json:"error,omitempty"`
	Status int          `json:"status,omitzero"` // HTTP status, 0 when there was none

	Connect      Dur `json:"connect_ns,omitzero"`       // dial and TLS handshake; absent on a reused connection
	Headers      Dur `json:"headers_ns,omitzero"`       // response header read
	TTFT         Dur `json:"ttft_ns,omitzero"`          // first output event
	FirstAnswer  Dur `json:"first_answer_ns,omitzero"`  // first output event that is not reasoning
	E2E          Dur `json:"e2e_ns,omitzero"`           // last output event; body complete when the answer is no stream
	BodyComplete Dur `json:"body_complete_ns,omitzero"` // end of the body seen
	// ITL holds the gaps between neighbouring output events of one choice,
	// choices after one another. A gap inside one read is 0 and counts.
	ITL []time.Duration `json:"itl_ns,omitempty"`
	// Events is the number of output events: those with generated output.
	Events api.Opt[int] `json:"events,omitzero"`
	// Reads is the number of reads that brought bytes of the answer, header included
	// where the transport can tell; KernelStamps how many of them have the kernel's
	// time and not the client's; MergedReads how many held more than one output event.
	// They say how far the times can be trusted, and are kept for failures, too.
	Reads        int `json:"reads,omitzero"`
	KernelStamps int `json:"kernel_stamps,omitzero"`
	MergedReads  int `json:"merged_reads,omitzero"`
	// TPOT is (E2E − TTFT) / (output tokens − tokens in the first output event).
	TPOT Dur `json:"tpot_ns,omitzero"`

	InputTokens     api.Opt[int64] `json:"input_tokens,omitzero"`
	InputSource     string         `json:"input_tokens_source,omitempty"`
	OutputTokens    api.Opt[int64] `json:"output_tokens,omitzero"`
	OutputSource    string         `json:"output_tokens_source,omitempty"`
	CachedTokens    api.Opt[int64] `json:"cached_tokens,omitzero"`
	ImageTokens     api.Opt[int64] `json:"image_tokens,omitzero"`
	AudioTokens     api.Opt[int64] `json:"audio_tokens,omitzero"`
	ReasoningTokens api.Opt[int64] `json:"reasoning_tokens,omitzero"`

	// Server holds the times that the server told of its own work, where it did.
	Server api.Timings `json:"server,omitzero"`

	Results      api.Opt[int]   `json:"results,omitzero"` // items of a rerank answer
	Vectors      api.Opt[int]   `json:"vectors,omitzero"`
	Dim          api.Opt[int]   `json:"dim,omitzero"`
	BodyBytes    api.Opt[int64] `json:"body_bytes,omitzero"`
	FinishReason string         `json:"finish_reason,omitempty"`
	Text         string         `json:"text,omitempty"`
	Reasoning    string         `json:"reasoning,omitempty"`
	ToolCalls    []api.ToolCall `json:"tool_calls,omitempty"`

	Attempts   int      `json:"attempts"`    // 2 when a dead reused connection made a second send needed
	Redirects  int      `json:"redirects"`   // always 0 while redirects are refused
	ConnReused bool     `json:"conn_reused"` // the connection had served a request before
	Warnings   []string `json:"warnings,omitempty"`

	// Sent is the send on the wall and the monotonic clock.
	Sent time.Time `json:"-"`

	// Local is the client's address on the connection that brought the answer, nil
	// when none came. A server that tells whom it answered when can be compared by
	// it: a connection has one exchange at a time.
	Local net.Addr `json:"-"`

	// What follows is package load's: the number of the request in its source,
	// and in an open loop when the schedule wanted the send and when the loop was
	// ready to send it, both zero in a closed loop.
	Index            int       `json:"-"`
	Scheduled, Ready time.Time `json:"-"`
}

// SendLag is how late the load generator was: ready − scheduled. It is absent in
// a closed loop.
func (ex *Exchange) SendLag() Dur {
	if ex.Scheduled.IsZero() {
		return Dur{}
	}
	return api.Some(ex.Ready.Sub(ex.Scheduled))
}

// Queue is how long the request waited for its send: send − scheduled, the send
// lag and the wait for a slot together. It is absent in a closed loop, and for
// what was never sent.
func (ex *Exchange) Queue() Dur {
	if ex.Scheduled.IsZero() || ex.Sent.IsZero() {
		return Dur{}
	}
	return api.Some(ex.Sent.Sub(ex.Scheduled))
}

// fail makes the exchange a failure: nothing that a statistic could pick up by
// mistake is left in it.
func (ex *Exchange) fail(f *api.Failure) {
	ex.OK, ex.Error = false, f
	none := Dur{}
	ex.Connect, ex.Headers, ex.TTFT, ex.FirstAnswer, ex.E2E, ex.BodyComplete, ex.TPOT = none, none, none, none, none, none, none
	ex.ITL, ex.Server = nil, api.Timings{}
	ex.InputTokens, ex.InputSource = api.Opt[int64]{}, ""
	ex.OutputTokens, ex.OutputSource = api.Opt[int64]{}, ""
	ex.CachedTokens, ex.ImageTokens = api.Opt[int64]{}, api.Opt[int64]{}
	ex.AudioTokens, ex.ReasoningTokens = api.Opt[int64]{}, api.Opt[int64]{}
}

// take copies what the answer said.
func (ex *Exchange) take(a api.Answer, req *api.Request) {
	ex.InputTokens, ex.OutputTokens = a.Usage.Input, a.Usage.Output
	if ex.InputTokens.Known {
		ex.InputSource = FromServer
	} else if req.InputTokens.Known {
		ex.InputTokens, ex.InputSource = req.InputTokens, FromClient
	}
	if ex.OutputTokens.Known {
		ex.OutputSource = FromServer
	}
	ex.CachedTokens, ex.ImageTokens = a.Usage.Cached, a.Usage.Image
	ex.AudioTokens, ex.ReasoningTokens = a.Usage.Audio, a.Usage.Reasoning
	ex.Server = a.Times
	ex.Results, ex.Vectors, ex.Dim = a.Results, a.Vectors, a.Dim
	ex.FinishReason, ex.Text, ex.Reasoning, ex.ToolCalls = a.FinishReason, a.Text, a.Reasoning, a.ToolCalls
	ex.Warnings = append(ex.Warnings, a.Warnings...)
}
