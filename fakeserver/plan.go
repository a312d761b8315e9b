package fakeserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxPlanned bounds the output tokens of one request over all its choices, since a plan is held in memory.
const maxPlanned = 1 << 20

// maxChoices bounds what each choice costs beside its tokens.
const maxChoices = 1024

// Request is what a plan is made from.
type Request struct {
	Method string
	Path   string      // of the URL, without a query
	Fake   string      // value of PlanHeader
	Fault  string      // value of FaultHeader
	Header http.Header // of the request; only rules look at it
	Body   []byte      // valid only during the call it is given to

	stats *stats // of the server that got it; nil counts nothing
}

// Plan is everything that will be written for a request, and when. All times count from the request's arrival. Faults
// are changes of the plan and nothing else.
type Plan struct {
	Status        int            // 0: no answer at all, the End comes when the headers are due
	Interim       int            // status of an interim answer sent on arrival; 0 = none
	Header        http.Header    // Content-Type and what else is not left to net/http; a nil value keeps net/http's own away
	ContentLength int64          // -1: chunked
	HeadersAt     time.Duration  // when the headers are due
	Events        []Event        // in the order of writing; times never decrease
	End           End            // what follows the last event
	EndAt         time.Duration  // when it does, if that is after the last event
	IdleClose     *time.Duration // if not nil: so long after a proper end the idle connection is closed
	Raw           *Raw           // if not nil: the answer is written past net/http

	Key     uint64   // of the request: what all that is made up comes from
	Model   string   // that the request asked for, "" if none or not understood
	Choices int      // of a completion; 0 for other answers
	Rules   []string // names of the rules whose faults were applied
	Faults  string   // their text form, or that of FaultHeader
	// What the usage of the answer says, whether or not it is sent.
	InputTokens, OutputTokens, ImageTokens int

	finish string // reason for which each choice stops, "" where there is none
	cached int    // prompt tokens that the answer calls cached
	// stream, if not nil, stands for the Events until somebody needs them: see spell.
	stream *tokenStream
}

// Event is one write and flush.
type Event struct {
	At   time.Duration
	Data []byte
	// Section, if not nil, is written instead of Data, in slices of 64 KiB: a body too large to be held in memory.
	Section *io.SectionReader
	Kind    Kind
	Mark    Mark
}

// Size returns the number of bytes the event writes.
func (e Event) Size() int64 {
	if e.Section != nil {
		return e.Section.Size()
	}
	return int64(len(e.Data))
}

// Kind says what an event is.
type Kind uint8

const (
	KindBody    Kind = iota // a part of a body that is not a stream, or of a script
	KindRole                // the chunk with the role
	KindToken               // a token, or several, of one choice; the tokens of a step come choice by choice
	KindFinish              // the finish reason, where it is not in the chunk of the last token
	KindUsage               // the usage, alone
	KindDone                // [DONE]
	KindError               // an error object
	KindComment             // comments
)

var kindNames = [...]string{"body", "role", "token", "finish", "usage", "done", "error", "comment"}

// String returns the kind's name.
func (k Kind) String() string { return nameOf(kindNames[:], int(k), "Kind") }

// MarshalText returns the name.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// Mark says what a fault did to an event; where several did, it is the last one's.
type Mark uint8

const (
	MarkNone      Mark = iota
	MarkLate           // it is late by itself
	MarkStalled        // a stall comes before it
	MarkMalformed      // its data is no JSON
	MarkTruncated      // its JSON or the body ends early
	MarkRepeated       // it has come before
	MarkPadded         // it has a member of padding
	MarkMerged         // several events in one write
	MarkPart           // a part of an event
	MarkFlood          // not of the answer at all
)

var markNames = [...]string{"", "late", "stalled", "malformed", "truncated", "repeated", "padded", "merged", "part", "flood"}

// String returns the mark's name, "" for none.
func (m Mark) String() string { return nameOf(markNames[:], int(m), "Mark") }

// MarshalText returns the name.
func (m Mark) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

func nameOf(names []string, i int, kind string) string {
	if i < 0 || i >= len(names) {
		return kind + "(" + strconv.Itoa(i) + ")"
	}
	return names[i]
}

// End is how an answer ends after its last event.
type End int

const (
	EndClean End = iota // the body is complete
	EndCut              // the connection is closed inside the body
	EndReset            // the connection is reset
	EndHang             // nothing more comes until the client goes away
)

var endNames = [...]string{"clean", "cut", "reset", "hang"}

// String returns the end's name.
func (e End) String() string { return nameOf(endNames[:], int(e), "End") }

// MarshalText returns the name.
func (e End) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

// endAt returns when the end is due.
func (p *Plan) endAt() time.Duration {
	at := max(p.HeadersAt, p.EndAt)
	if p.stream != nil {
		at = max(at, p.stream.last())
	} else if n := len(p.Events); n > 0 {
		at = max(at, p.Events[n-1].At)
	}
	return at
}

// Plan returns the plan for a request with the fault of its FaultHeader. Config.Rules are not applied, since they count;
// then Config.Edit would see it. It never fails: a bad request has the plan of its error.
func (s *Server) Plan(r Request) *Plan {
	return s.state.Load().plan(&r).spell()
}

// state is what a request is planned from. Configure replaces it as a whole.
type state struct {
	cfg   Config
	rules *ruleSet
}

func newState(cfg Config) *state {
	cfg = cfg.withDefaults()
	return &state{cfg: cfg, rules: newRuleSet(&cfg)}
}

func (s *state) plan(r *Request) *Plan {
	c := &call{cfg: &s.cfg, path: r.Path, body: r.Body, stats: r.stats}
	p, err := c.plan(r.Method, r.Fake)
	if err != nil {
		p = errorPlan(err)
	}
	p.Model, p.Key = c.model, c.key
	c.body = nil // a stream keeps the call
	if r.Fault != "" {
		p = p.withHeaderFault(r)
	}
	return p
}

// faulty is plan with the rules and Config.Edit: what will be written.
func (s *state) faulty(r *Request) *Plan {
	p := s.plan(r)
	if s.rules != nil && r.Fault == "" {
		p = s.rules.apply(r, p)
	}
	if s.cfg.Edit != nil {
		s.cfg.Edit(*r, p.spell())
	}
	return p
}

// withHeaderFault applies the fault that the request asks for.
func (p *Plan) withHeaderFault(r *Request) *Plan {
	f, err := ParseFault(r.Fault)
	if err == nil {
		p.Faults = clipFault(f.String())
		err = f.apply(r.Path, p)
	}
	if err != nil {
		own := errorPlan(badRequest("%s: %v", FaultHeader, err))
		own.Model, own.Key = p.Model, p.Key
		return own
	}
	return p
}

// apply tries the rules. A fault that cannot be applied to an answer is told in a 500: silence would pass for a server
// that has no fault.
func (s *ruleSet) apply(r *Request, p *Plan) *Plan {
	for _, i := range s.match(r, p) {
		p.Rules = append(p.Rules, s.names[i])
		if p.Faults != "" {
			p.Faults += " + "
		}
		p.Faults += s.texts[i]
		if err := s.rules[i].Fault.apply(r.Path, p); err != nil {
			own := errorPlan(fmt.Errorf("%s: %w", s.names[i], err))
			own.Model, own.Key, own.Rules, own.Faults = p.Model, p.Key, p.Rules, p.Faults
			return own
		}
	}
	return p
}

// planner makes the plan of one endpoint.
type planner struct {
	method string
	plan   func(*call) (*Plan, error)
}

var planners = map[string]planner{
	"/v1/chat/completions": {http.MethodPost, planChat},
	"/v1/completions":      {http.MethodPost, planCompletions},
	"/v1/embeddings":       {http.MethodPost, planEmbeddings},
	"/pooling":             {http.MethodPost, planPooling},
	"/v1/rerank":           {http.MethodPost, planRerank},
	"/v2/rerank":           {http.MethodPost, planRerank},
	"/rerank":              {http.MethodPost, planRerank},
	"/tokenize":            {http.MethodPost, planTokenize},
	"/detokenize":          {http.MethodPost, planDetokenize},
	"/v1/models":           {http.MethodGet, planModels},
	"/health":              {http.MethodGet, planHealth},
	"/version":             {http.MethodGet, planVersion},
	"/metrics":             {http.MethodGet, planMetrics},
	"/start_profile":       {http.MethodPost, planProfile},
	"/stop_profile":        {http.MethodPost, planProfile},
}

// call is one request being planned.
type call struct {
	cfg   *Config
	path  string
	body  []byte
	key   uint64 // of seed, path and, after decode, the request's JSON: all randomness comes from it
	model string // that the request asks for, "" if none
	stats *stats // for /metrics
}

func (c *call) plan(method, fake string) (*Plan, error) {
	pl, ok := planners[c.path]
	if !ok {
		return nil, &apiError{status: http.StatusNotFound, kind: "Not Found", message: "Not Found"}
	}
	if method != pl.method && !(method == http.MethodHead && pl.method == http.MethodGet) {
		return nil, &apiError{status: http.StatusMethodNotAllowed, kind: "Method Not Allowed", message: "Method Not Allowed", allow: pl.method}
	}
	if fake != "" {
		own := *c.cfg
		if err := own.override(fake); err != nil {
			return nil, badRequest("%v", err)
		}
		c.cfg = &own
	}
	c.key = hashBytes(mix(c.cfg.Seed, 0), c.path)
	return pl.plan(c)
}

// decode reads the JSON body into v and completes the key.
func (c *call) decode(v any) error {
	if err := json.Unmarshal(c.body, v); err != nil {
		return decodeError(err)
	}
	c.key = mix(c.key, canonicalHash(c.body))
	return nil
}

// checkModel accepts the served model and none, and notes what was asked for.
func (c *call) checkModel(model string) error {
	c.model = model
	if model == "" || model == c.cfg.Model {
		return nil
	}
	return &apiError{
		status: http.StatusNotFound, kind: "NotFoundError", param: "model",
		message: "The model `" + model + "` does not exist.",
	}
}

// created returns the answer's creation time in Unix seconds: from the key, as nothing comes from the clock.
func (c *call) created() int64 { return 1_700_000_000 + int64(c.key%50_000_000) }

// appendID appends the answer's id.
func (c *call) appendID(b []byte, prefix string) []byte {
	const digits = "0123456789abcdef"
	b = append(b, prefix...)
	for part := range uint64(2) {
		v := mix(c.key, part+0x1d)
		for shift := 60; shift >= 0; shift -= 4 {
			b = append(b, digits[v>>shift&15])
		}
	}
	return b
}

// tokenAt returns the planned time of output token k of a stream.
func (c *call) tokenAt(k int) time.Duration {
	return max(c.cfg.Headers, c.cfg.TTFT+time.Duration(k)*c.cfg.ITL)
}

// readyAt returns R for a completion of n tokens.
func (c *call) readyAt(n int) time.Duration {
	return c.cfg.TTFT + time.Duration(max(n-1, 0))*c.cfg.ITL
}

// jsonPlan answers 200 with a JSON body that is ready at r.
func (c *call) jsonPlan(r time.Duration, body []byte) *Plan {
	p := newPlan(http.StatusOK, "application/json")
	p.ContentLength = int64(len(body))
	c.place(p, r, int64(len(body)), func(at time.Duration, from, to int64) Event {
		return Event{At: at, Data: body[from:to:to]}
	})
	return p
}

// binaryPlan answers 200 with an octet stream of unknown length that is ready at r.
func (c *call) binaryPlan(r time.Duration, body io.ReaderAt, size int64) *Plan {
	p := newPlan(http.StatusOK, "application/octet-stream")
	c.place(p, r, size, func(at time.Duration, from, to int64) Event {
		return Event{At: at, Section: io.NewSectionReader(body, from, to-from)}
	})
	return p
}

// place cuts a plain body into events as the table in the package comment says. Parts that would be empty are left out;
// the last never is.
func (c *call) place(p *Plan, r time.Duration, size int64, event func(at time.Duration, from, to int64) Event) {
	if c.cfg.PieceDelay == 0 {
		p.HeadersAt = max(r, c.cfg.Headers)
		p.Events = []Event{event(p.HeadersAt, 0, size)}
		return
	}
	p.HeadersAt = c.cfg.Headers
	n := int64(c.cfg.Pieces)
	p.Events = make([]Event, 0, min(n, size))
	for k := int64(1); k <= n; k++ {
		if from, to := (k-1)*size/n, k*size/n; from < to {
			p.Events = append(p.Events, event(c.cfg.Headers+time.Duration(k)*c.cfg.PieceDelay, from, to))
		}
	}
}

func newPlan(status int, contentType string) *Plan {
	p := &Plan{Status: status, Header: make(http.Header, 2), ContentLength: -1}
	if contentType != "" {
		p.Header["Content-Type"] = []string{contentType}
	}
	return p
}

// instantPlan answers at once, without regard to the configured delays.
func instantPlan(status int, body []byte) *Plan {
	p := newPlan(status, "application/json")
	p.ContentLength = int64(len(body))
	p.Events = []Event{{Data: body}}
	return p
}

// embedded is how package json names the fields of generateRequest.
const embedded = "generateRequest."

func decodeError(err error) error {
	var own *apiError
	if errors.As(err, &own) {
		return own
	}
	var bad *json.UnmarshalTypeError
	if errors.As(err, &bad) {
		// The path begins with the names of embedded structs.
		field := bad.Field
		for strings.HasPrefix(field, embedded) {
			field = field[len(embedded):]
		}
		if field == "" {
			return &apiError{status: http.StatusBadRequest, kind: "Bad Request", message: "JSON decode error: the body must be an object, not " + bad.Value}
		}
		return &apiError{
			status: http.StatusBadRequest, kind: "Bad Request", param: field,
			message: field + ": a " + bad.Value + " is not allowed here",
		}
	}
	return &apiError{status: http.StatusBadRequest, kind: "Bad Request", message: "JSON decode error: " + err.Error()}
}
