package fakeserver

import (
	"net/http"
	"strconv"
	"sync"
	"time"
)

// stats is what /metrics tells, under vLLM's names and of this server's own requests: completions, embeddings, pooling
// and reranks that were answered. A request counts just before its last bytes are handed to the connection, so a client
// that has read a whole answer finds it counted. What the server does not have (a queue, a KV cache, speculation) is not
// there, but for the queue's length, which schedulers ask for and which is 0.
type stats struct {
	mu         sync.Mutex
	running    int
	prompt     int64
	generation int64
	cached     int64
	finished   [len(finishReasons)]int64
	ttft, e2e  histogram // seconds since the arrival; ttft of streams
}

// finishReasons are the values of the label finished_reason.
var finishReasons = [...]string{"stop", "length", "abort"}

const (
	finishStop = iota
	finishLength
	finishAbort
)

// bounds are the upper bounds of the histograms' buckets.
var bounds = [...]time.Duration{
	time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond, 40 * time.Millisecond, 60 * time.Millisecond,
	80 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond, 750 * time.Millisecond, time.Second,
	2500 * time.Millisecond, 5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute,
}

// A histogram counts spans of time.
type histogram struct {
	buckets [len(bounds)]int64 // not cumulated
	count   int64
	sum     time.Duration
}

func (h *histogram) observe(d time.Duration) {
	h.count++
	h.sum += d
	for i, bound := range bounds {
		if d <= bound {
			h.buckets[i]++
			return
		}
	}
}

// A tally follows one request into the stats, on the goroutine that answers it. The zero tally counts nothing.
type tally struct {
	stats  *stats
	plan   *Plan
	tokens int64 // events with tokens so far
	over   bool
}

// begin returns the tally of a plan that is about to be written, the zero one for what is no answer of the model.
func (s *stats) begin(p *Plan) tally {
	if p.Status != http.StatusOK || p.InputTokens == 0 {
		return tally{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running++
	return tally{stats: s, plan: p}
}

// event notes that an event is about to be written; last says that it is the answer's end.
func (t *tally) event(e *Event, last bool, at time.Duration) {
	if t.stats == nil {
		return
	}
	first := e.Kind == KindToken && t.tokens == 0
	if e.Kind == KindToken {
		t.tokens++
	}
	if !first && !last {
		return
	}
	t.stats.mu.Lock()
	defer t.stats.mu.Unlock()
	if first {
		t.stats.ttft.observe(at)
	}
	if !last {
		return
	}
	reason := finishStop
	if t.plan.finish == finishReasons[finishLength] {
		reason = finishLength
	}
	t.stats.e2e.observe(at)
	t.end(reason, int64(t.plan.OutputTokens))
}

// abort counts a request that has not been answered to its end.
func (t *tally) abort() {
	if t.stats == nil || t.over {
		return
	}
	t.stats.mu.Lock()
	defer t.stats.mu.Unlock()
	t.end(finishAbort, t.tokens)
}

func (t *tally) end(reason int, generated int64) {
	s := t.stats
	t.over = true
	s.running--
	s.finished[reason]++
	s.prompt += int64(t.plan.InputTokens)
	s.generation += generated
	s.cached += int64(t.plan.cached)
}

// text is the stats in Prometheus' text format, version 0.0.4.
func (s *stats) text(model string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := metricsWriter{model: model}
	w.family("vllm:num_requests_running", "gauge", "Number of requests being answered.")
	w.sample("vllm:num_requests_running", "", "", float64(s.running))
	w.family("vllm:num_requests_waiting", "gauge", "Number of requests in the queue, which this server does not have.")
	w.sample("vllm:num_requests_waiting", "", "", 0)
	w.counter("vllm:prompt_tokens", "Number of prompt tokens processed.", s.prompt)
	w.counter("vllm:generation_tokens", "Number of generated tokens.", s.generation)
	w.counter("vllm:prefix_cache_queries", "Prompt tokens looked up in the prefix cache.", s.prompt)
	w.counter("vllm:prefix_cache_hits", "Prompt tokens found there: CachedTokens of the configuration.", s.cached)
	w.family("vllm:request_success_total", "counter", "Number of requests that have ended.")
	for i, reason := range finishReasons {
		w.sample("vllm:request_success_total", "finished_reason", reason, float64(s.finished[i]))
	}
	w.histogram("vllm:time_to_first_token_seconds", "Time to the first token of a stream in seconds.", &s.ttft)
	w.histogram("vllm:e2e_request_latency_seconds", "Time to the end of the answer in seconds.", &s.e2e)
	return w.buf
}

// metricsWriter writes Prometheus' text format. Every sample has the label model_name, as vLLM's have.
type metricsWriter struct {
	buf   []byte
	model string
}

func (w *metricsWriter) family(name, typ, help string) {
	w.buf = append(w.buf, "# HELP "+name+" "+help+"\n# TYPE "+name+" "+typ+"\n"...)
}

func (w *metricsWriter) counter(name, help string, v int64) {
	w.family(name+"_total", "counter", help)
	w.sample(name+"_total", "", "", float64(v))
}

func (w *metricsWriter) histogram(name, help string, h *histogram) {
	w.family(name, "histogram", help)
	sum := int64(0)
	for i, bound := range bounds {
		sum += h.buckets[i]
		w.sample(name+"_bucket", "le", strconv.FormatFloat(bound.Seconds(), 'f', -1, 64), float64(sum))
	}
	w.sample(name+"_bucket", "le", "+Inf", float64(h.count))
	w.sample(name+"_sum", "", "", h.sum.Seconds())
	w.sample(name+"_count", "", "", float64(h.count))
}

func (w *metricsWriter) sample(name, label, value string, v float64) {
	w.buf = append(append(w.buf, name...), '{')
	if label != "" {
		w.label(label, value)
		w.buf = append(w.buf, ',')
	}
	w.label("model_name", w.model)
	w.buf = append(w.buf, "} "...)
	w.buf = append(strconv.AppendFloat(w.buf, v, 'f', -1, 64), '\n')
}

// label escapes what the format wants escaped: backslash, quote and line feed.
func (w *metricsWriter) label(name, value string) {
	w.buf = append(append(w.buf, name...), `="`...)
	for _, c := range []byte(value) {
		switch c {
		case '\\', '"':
			w.buf = append(w.buf, '\\', c)
		case '\n':
			w.buf = append(w.buf, `\n`...)
		default:
			w.buf = append(w.buf, c)
		}
	}
	w.buf = append(w.buf, '"')
}

// planMetrics answers /metrics. The figures are those of the moment: no other answer depends on anything but its request.
func planMetrics(c *call) (*Plan, error) {
	s := c.stats
	if s == nil {
		s = &stats{}
	}
	p := instantPlan(http.StatusOK, s.text(c.cfg.Model))
	p.Header.Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	return p, nil
}

// planProfile answers /start_profile and /stop_profile with nothing; the journal has them.
func planProfile(*call) (*Plan, error) { return planHealth(nil) }
