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
)

// Stamp is the planned and the actual time of a write, since Record.Arrived. Actual is taken just before the bytes are
// handed to the connection, so no client can have seen them earlier.
type Stamp struct {
	Planned, Actual time.Duration
	Bytes           int64
}

// Record is the server's truth about one request.
type Record struct {
	Index    int // since the start or the last Reset, in the order of arrival
	Method   string
	Endpoint string    // path of the URL
	Model    string    // that the request asked for
	Header   []string  // names of the request's headers, sorted; their values are not kept
	Arrived  time.Time // when the whole request had been read
	Status   int       // 0 = the request could not be read

	Headers   Stamp   // Actual is -1 until they are written, for ever if they never were
	Events    []Stamp // what has been written so far
	Planned   int     // number of events of the plan
	BodyBytes int64   // written so far

	// As in the usage of the answer, also where none was sent.
	InputTokens, OutputTokens, ImageTokens int

	End   string
	Ended time.Duration // since Arrived; 0 while running
}

const (
	journalRecords = 4096    // records kept
	journalStamps  = 1 << 19 // events kept over all records: 12 MiB
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
	e.record.Events = make([]Stamp, 0, events)
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
		e.mu.Unlock()
	}
	return records
}

func (e *entry) headers(actual time.Duration) {
	e.mu.Lock()
	e.record.Headers.Actual = actual
	e.mu.Unlock()
}

// event notes the start of a write; wrote adds its bytes.
func (e *entry) event(planned, actual time.Duration) {
	e.mu.Lock()
	e.record.Events = append(e.record.Events, Stamp{Planned: planned, Actual: actual})
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

func headerNames(h http.Header) []string {
	names := make([]string, 0, len(h))
	for name := range h {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
