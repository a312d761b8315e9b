package fakeserver

import (
	"net/http"
	"slices"
	"sync"
	"time"
)

// The values of Record.End.
const (
	Running      = "running"      // the handler has not ended
	Complete     = "complete"     // everything planned was written and the body ended
	Disconnected = "disconnected" // the client went away first
	Canceled     = "canceled"     // the server was closed first
	Cut          = "cut"          // the plan ended in EndCut, and did
	Reset        = "reset"        // the plan ended in EndReset, and did
)

// The values of Action.What.
const (
	ActionInterim   = "interim"    // an interim answer
	ActionStall     = "stall"      // nothing more is written until the next event's time
	ActionHang      = "hang"       // nothing more is written at all
	ActionCut       = "cut"        // the connection is closed inside the answer
	ActionReset     = "reset"      // the connection is reset
	ActionClose     = "close"      // the connection is closed behind a whole answer
	ActionIdleClose = "idle-close" // the idle connection is closed some time after the answer
)

// Stamp is the planned and the actual time of a write, since Record.Arrived. Actual is taken just before the bytes are
// handed to the connection, so no client can have seen them earlier.
type Stamp struct {
	Planned time.Duration `json:"planned_ns"`
	Actual  time.Duration `json:"actual_ns"`
	Bytes   int64         `json:"bytes"`
	Kind    Kind          `json:"kind,omitzero"` // in JSON absent for KindBody
	Mark    Mark          `json:"mark,omitzero"`
}

// Action is something other than the write of headers or an event that was done, and when, since Record.Arrived.
type Action struct {
	What    string        `json:"what"`
	Events  int           `json:"events"` // written before it
	Planned time.Duration `json:"planned_ns"`
	Actual  time.Duration `json:"actual_ns"`
}

// Record is the server's truth about one request.
type Record struct {
	Index    int       `json:"index"` // since the start or the last Reset, in the order of arrival
	Method   string    `json:"method"`
	Endpoint string    `json:"endpoint"` // path of the URL
	Remote   string    `json:"remote"`   // address of the client's end of the connection
	Model    string    `json:"model"`    // that the request asked for
	Header   []string  `json:"header"`   // names of the request's headers, sorted; their values are not kept
	Arrived  time.Time `json:"arrived"`  // when the whole request had been read
	Status   int       `json:"status"`   // 0 = the request could not be read, or no answer was planned

	Rules  []string `json:"rules,omitempty"`  // names of the rules that applied
	Faults string   `json:"faults,omitempty"` // what they, or FaultHeader, asked for, in the text form of Fault, up to 1 KiB

	Headers   Stamp    `json:"headers"`           // Actual is -1 until they are written, for ever if they never were
	Events    []Stamp  `json:"events"`            // what has been written so far
	Actions   []Action `json:"actions,omitempty"` // what else has been done so far
	Planned   int      `json:"planned"`           // number of events of the plan
	BodyBytes int64    `json:"body_bytes"`        // written so far

	// As in the usage of the answer, also where none was sent.
	InputTokens  int `json:"input_tokens"`
	OutputTokens int `json:"output_tokens"`
	ImageTokens  int `json:"image_tokens"`

	PlannedEnd   End           `json:"planned_end"`
	PlannedEnded time.Duration `json:"planned_ended_ns"` // since Arrived; a hang begins then
	End          string        `json:"end"`
	Ended        time.Duration `json:"ended_ns"` // since Arrived; 0 while running
}

const (
	journalRecords = 4096    // records kept
	journalStamps  = 1 << 19 // events kept over all records: 16 MiB
	firstStamps    = 32      // events of a record for which there is room from the start
)

// journal keeps the last records.
type journal struct {
	mu      sync.Mutex
	records []*entry
	stamps  int
	next    int
}

// entry is a record that its handler still writes to.
type entry struct {
	mu     sync.Mutex
	record Record
	stamps int
}

// begin adds a record.
func (j *journal) begin(r Record, events int) *entry {
	e := &entry{record: r, stamps: events}
	e.record.Events = make([]Stamp, 0, min(events, firstStamps))
	e.record.Planned = events
	e.record.End = Running

	j.mu.Lock()
	defer j.mu.Unlock()
	e.record.Index = j.next
	j.next++
	for len(j.records) > 0 && (len(j.records) >= journalRecords || j.stamps+events > journalStamps) {
		j.stamps -= j.records[0].stamps
		j.records[0] = nil
		j.records = j.records[1:]
	}
	j.records = append(j.records, e)
	j.stamps += events
	return e
}

func (j *journal) reset() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.records, j.stamps, j.next = nil, 0, 0
}

func (j *journal) snapshot() []Record {
	j.mu.Lock()
	entries := slices.Clone(j.records)
	j.mu.Unlock()
	records := make([]Record, len(entries))
	for i, e := range entries {
		e.mu.Lock()
		records[i] = e.record
		records[i].Events = slices.Clone(e.record.Events)
		records[i].Actions = slices.Clone(e.record.Actions)
		e.mu.Unlock()
	}
	return records
}

func (e *entry) headers(actual time.Duration) {
	e.mu.Lock()
	e.record.Headers.Actual = actual
	e.mu.Unlock()
}

// event notes the start of a write, as if all of Data had been written: that is nearly always so, and a lock less. wrote
// adds the bytes of a Section, and takes away those that were not written.
func (e *entry) event(ev *Event, actual time.Duration) {
	bytes := int64(len(ev.Data))
	if ev.Section != nil {
		bytes = 0
	}
	e.mu.Lock()
	if n := len(e.record.Events); n == cap(e.record.Events) && n < e.stamps {
		room := 2 * n
		if room+n/2 >= e.stamps {
			room = e.stamps
		}
		e.record.Events = append(make([]Stamp, 0, room), e.record.Events...)
	}
	e.record.Events = append(e.record.Events, Stamp{Planned: ev.At, Actual: actual, Bytes: bytes, Kind: ev.Kind, Mark: ev.Mark})
	e.record.BodyBytes += bytes
	e.mu.Unlock()
}

func (e *entry) wrote(n int64) {
	e.mu.Lock()
	e.record.Events[len(e.record.Events)-1].Bytes += n
	e.record.BodyBytes += n
	e.mu.Unlock()
}

func (e *entry) end(how string, at time.Duration) {
	e.mu.Lock()
	e.record.End, e.record.Ended = how, at
	e.mu.Unlock()
}

// act notes what is done now. Like everything that is done it is noted just before, so a client that has seen it can also
// read of it.
func (e *entry) act(what string, planned time.Duration) {
	e.mu.Lock()
	e.record.Actions = append(e.record.Actions, Action{
		What: what, Events: len(e.record.Events), Planned: planned, Actual: time.Since(e.record.Arrived),
	})
	e.mu.Unlock()
}

// closeIdle notes that a connection is closed that has been idle for d.
func (e *entry) closeIdle(d time.Duration) {
	e.mu.Lock()
	ended := e.record.Ended
	e.mu.Unlock()
	e.act(ActionIdleClose, ended+d)
}

func headerNames(h http.Header) []string {
	names := make([]string, 0, len(h))
	for name := range h {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
