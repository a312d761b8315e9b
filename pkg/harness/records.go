package harness

import (
	"fmt"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"example.com/tokpace/pkg/api"
	"example.com/tokpace/pkg/client"
	"example.com/tokpace/pkg/load"
	"example.com/tokpace/pkg/metric"
)

// A record is one line of the file of records: an exchange, and what it was part
// of. The package comment tells what its fields mean. Questions before a benchmark, as
// those about its target and its tokens, are no exchanges of it and have no record;
// nor has a request that was never sent.
type record struct {
	*client.Exchange
	Run       string    `json:"run"`
	Benchmark string    `json:"benchmark,omitempty"`
	Metrics   string    `json:"metrics"`
	Warmup    bool      `json:"warmup,omitempty"`
	Index     int       `json:"index"`
	Sent      time.Time `json:"sent,omitzero"`
	Scheduled time.Time `json:"scheduled,omitzero"`
	Ready     time.Time `json:"ready,omitzero"`
}

// A runRecord is one line of the file of records too, behind those of a run that
// has a result, be it invalid.
type runRecord struct {
	Schema    string `json:"schema"` // load.RunSchema
	Run       string `json:"run"`
	Benchmark string `json:"benchmark,omitempty"`
	Metrics   string `json:"metrics"`
	runResult
}

// A runResult is what a run amounts to.
type runResult struct {
	OK      int           `json:"ok_requests"`
	Failed  int           `json:"failed_requests"`
	Elapsed time.Duration `json:"elapsed_ns"` // from the first send to the last end
	// Valid is absent where there is nothing that the own error could spoil.
	Valid    api.Opt[bool]    `json:"valid,omitzero"`
	Invalid  string           `json:"invalid,omitempty"` // why Valid is false
	OwnError *metric.OwnError `json:"own_error,omitempty"`
	Self     metric.Self      `json:"self"`
}

// openRecords opens the file of records that the settings name, once; nil is none.
func (s *settings) openRecords() (*load.Recorder, error) {
	process.Lock()
	defer process.Unlock()
	if s.records == "" || s.recorder != nil {
		return s.recorder, nil
	}
	name := s.records
	if abs, err := filepath.Abs(name); err == nil {
		name = abs // go test runs in the package's folder, so errors shall tell where that is
	}
	r, err := load.OpenRecorder(name)
	if err != nil {
		return nil, err
	}
	s.records, s.recorder = name, r
	return r, nil
}

// A recording appends the records of one sending.
type recording struct {
	to     *load.Recorder
	p      *prepared
	common record // what all have alike
}

// record begins the recording of a part of the benchmark, nil when nothing is to
// be recorded.
func (p *prepared) record(what part) *recording {
	if p.recorder == nil {
		return nil
	}
	r := &recording{to: p.recorder, p: p}
	r.common = record{Run: p.runOf(what), Benchmark: p.name, Metrics: metric.Version, Warmup: what == warmupPart}
	return r
}

// runOf is the identity of the run that a part is, or belongs to.
func (p *prepared) runOf(what part) string {
	if what == wholeRun || what == warmupPart {
		return p.runID
	}
	return p.runID + " " + string(what)
}

// recordRun records what a run amounts to, if anything is to be recorded.
func (p *prepared) recordRun(what part, r runResult) error {
	if p.recorder == nil {
		return nil
	}
	return p.recorder.Append(runRecord{Schema: load.RunSchema, Run: p.runOf(what), Benchmark: p.name, Metrics: metric.Version, runResult: r})
}

// append records an exchange, and takes the text out of it: a run of many long
// answers need not hold them.
func (r *recording) append(ex *client.Exchange) error {
	r.p.c.Redact(ex)
	ex.Redact(r.p.s.secrets)
	line := r.common
	line.Exchange, line.Index = ex, ex.Index
	line.Sent, line.Scheduled, line.Ready = r.at(ex.Sent), r.at(ex.Scheduled), r.at(ex.Ready)
	err := r.to.Append(line)
	ex.Text, ex.Reasoning, ex.ToolCalls = "", "", nil
	return err
}

// at is t on the run's clock.
func (r *recording) at(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return r.p.begun.Add(t.Sub(r.p.begun)).UTC()
}

// runID names a run that begins now.
func runID(b *testing.B, begun time.Time) string {
	id := b.Name()
	if n := runtime.GOMAXPROCS(0); n != 1 {
		id = fmt.Sprintf("%s-%d", id, n)
	}
	id += " " + begun.UTC().Format(time.RFC3339Nano)
	if c := commit(); c != "" {
		id += " " + c
	}
	return id
}
