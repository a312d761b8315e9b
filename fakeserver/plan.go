package fakeserver

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"
)

// maxPlanned bounds the output tokens of one request over all its choices, since a plan is held in memory.
const maxPlanned = 1 << 20

// Request is what a plan is made from.
type Request struct {
	Method string
	Path   string // of the URL, without a query
	Fake   string // value of PlanHeader
	Body   []byte // valid only during the call it is given to
}

// Plan is everything that will be written for a request, and when. All times count from the request's arrival.
type Plan struct {
	Status        int
	Header        http.Header   // Content-Type and what else is not left to net/http
	ContentLength int64         // -1: chunked
	HeadersAt     time.Duration // when the headers are due
	Events        []Event       // in the order of writing; times never decrease
	End           End           // what follows the last event

	Model string // that the request asked for, "" if none or not understood
	// What the usage of the answer says, whether or not it is sent.
	InputTokens, OutputTokens, ImageTokens int
}

// Event is one write and flush.
type Event struct {
	At   time.Duration
	Data []byte
	// Section, if not nil, is written instead of Data, in slices of 64 KiB: a body too large to be held in memory.
	Section *io.SectionReader
}

// Size returns the number of bytes the event writes.
func (e Event) Size() int64 {
	if e.Section != nil {
		return e.Section.Size()
	}
	return int64(len(e.Data))
}

// End is how an answer ends after its last event.
type End int

const (
	EndClean End = iota // the body is complete
	EndCut              // the connection is closed inside the body
	EndHang             // nothing more comes until the client goes away
)

// Plan returns the plan for a request as Config.Edit would first see it. It never fails: a bad request has the plan of
// its error.
func (s *Server) Plan(r Request) *Plan {
	c := &call{cfg: &s.cfg, path: r.Path, body: r.Body}
	p, err := c.plan(r.Method, r.Fake)
	if err != nil {
		p = errorPlan(err)
	}
	p.Model = c.model
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
}

// call is one request being planned.
type call struct {
	cfg   *Config
	path  string
	body  []byte
	key   uint64 // of seed, path and, after decode, the request's JSON: all randomness comes from it
	model string // that the request asks for, "" if none
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

// id returns the answer's id.
func (c *call) id(prefix string) string {
	const digits = "0123456789abcdef"
	b := make([]byte, 0, len(prefix)+32)
	b = append(b, prefix...)
	for part := range uint64(2) {
		v := mix(c.key, part+0x1d)
		for shift := 60; shift >= 0; shift -= 4 {
			b = append(b, digits[v>>shift&15])
		}
	}
	return string(b)
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

func decodeError(err error) error {
	var own *apiError
	if errors.As(err, &own) {
		return own
	}
	var bad *json.UnmarshalTypeError
	if errors.As(err, &bad) && bad.Field != "" {
		return &apiError{
			status: http.StatusBadRequest, kind: "Bad Request", param: bad.Field,
			message: bad.Field + ": a " + bad.Value + " is not allowed here",
		}
	}
	return &apiError{status: http.StatusBadRequest, kind: "Bad Request", message: "JSON decode error: " + err.Error()}
}
