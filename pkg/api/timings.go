package api

import (
	"encoding/json"
	"math"
	"time"
)

// Timings are the times that a server itself took for one request. vLLM adds
// them to chat and completion answers when it is started with
// --enable-per-request-metrics and the request's body says
// "include_metrics": true. They run from the request's arrival at the server, and
// so leave out the network and the client.
type Timings struct {
	TTFT       Opt[time.Duration] `json:"ttft_ns,omitzero"`       // arrival to first token
	Queue      Opt[time.Duration] `json:"queue_ns,omitzero"`      // arrival to scheduling
	Generation Opt[time.Duration] `json:"generation_ns,omitzero"` // first token to last
	MeanITL    Opt[time.Duration] `json:"mean_itl_ns,omitzero"`
}

// read takes what an answer's metrics say. What is not what it should be is left
// out: nothing that is measured depends on it.
func (t *Timings) read(metrics json.RawMessage) {
	if len(metrics) == 0 || metrics[0] != '{' {
		return
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(metrics, &fields) != nil {
		return
	}
	for name, to := range map[string]*Opt[time.Duration]{
		"time_to_first_token_ms": &t.TTFT, "queue_time_ms": &t.Queue, "generation_time_ms": &t.Generation, "mean_itl_ms": &t.MeanITL,
	} {
		var ms *float64
		if json.Unmarshal(fields[name], &ms) == nil && ms != nil && *ms >= 0 && *ms <= maxTiming {
			*to = Some(time.Duration(math.Round(*ms * float64(time.Millisecond))))
		}
	}
}

// maxTiming is a year in milliseconds: far from overflow.
const maxTiming = 365 * 24 * 3600 * 1000
