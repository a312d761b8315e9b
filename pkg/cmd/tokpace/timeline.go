package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"example.com/tokpace/pkg/api"
	"example.com/tokpace/pkg/client"
)

// sent is what a timeline says about a request beside its answer.
type sent struct {
	url   string // without secrets
	what  string // which body
	bytes int    // of the body
}

// timeline is an exchange for people: what arrived when, then what it was. A
// failed exchange has no times; what is known of it is listed.
func timeline(about sent, ex *client.Exchange) string {
	t := &lines{}
	kind := "no stream"
	if ex.Stream {
		kind = "stream"
	}
	fmt.Fprintf(t, "%s (%s), POST %s\n", ex.API, kind, about.url)
	request := fmt.Sprintf("sent %d bytes: %s", about.bytes, about.what)
	if ex.OK {
		fmt.Fprintf(t, "\n%10s\n", "ms")
		t.at(0, "%s", request)
		t.arrivals(ex)
	} else {
		fmt.Fprintf(t, "%s\n\n", request)
		t.pair("failed", "%s", clean(ex.Error.Error()))
		t.known(ex)
	}
	t.WriteByte('\n')
	if ex.OK {
		t.tokens(ex)
	}
	t.answer(ex)
	return strings.TrimRight(t.String(), "\n") + "\n"
}

type lines struct{ strings.Builder }

// at writes a line for a moment after the send.
func (t *lines) at(d time.Duration, format string, args ...any) {
	fmt.Fprintf(t, "%10s  %s\n", ms(d), fmt.Sprintf(format, args...))
}

// between writes a line for what has no single moment.
func (t *lines) between(format string, args ...any) {
	fmt.Fprintf(t, "%10s  %s\n", "", fmt.Sprintf(format, args...))
}

func (t *lines) pair(name, format string, args ...any) {
	fmt.Fprintf(t, "%-14s  %s\n", name, fmt.Sprintf(format, args...))
}

// ms is a time in milliseconds, to the microsecond.
func ms(d time.Duration) string { return fmt.Sprintf("%.3f", float64(d)/1e6) }

// arrivals lists what arrived when. The words' order is that of time.
func (t *lines) arrivals(ex *client.Exchange) {
	switch {
	case ex.Connect.Known:
		t.at(ex.Connect.V, "connected")
	case ex.ConnReused:
		t.between("connection reused")
	}
	if ex.Attempts > 1 {
		t.between("sent %d times: the reused connection had died", ex.Attempts)
	}
	if ex.Headers.Known {
		t.at(ex.Headers.V, "headers, status %d", ex.Status)
	}
	switch {
	case ex.TTFT.Known:
		t.output(ex)
	case ex.Events.Known:
		t.between("no output event")
	}
	if ex.BodyComplete.Known {
		t.at(ex.BodyComplete.V, "body complete%s", bodyBytes(ex))
	}
}

// output lists the output events of a stream.
func (t *lines) output(ex *client.Exchange) {
	first := "first output event"
	if ex.FirstAnswer.V != ex.TTFT.V {
		first += " (reasoning)"
	}
	t.at(ex.TTFT.V, "%s", first)
	if ex.FirstAnswer.Known && ex.FirstAnswer.V != ex.TTFT.V {
		t.at(ex.FirstAnswer.V, "first event of the answer itself")
	}
	if more := ex.Events.V - 1; more > 0 {
		gaps := ""
		if n := len(ex.ITL); n > 0 {
			sorted := slices.Sorted(slices.Values(ex.ITL))
			gaps = fmt.Sprintf(", gaps min %s, p50 %s, max %s ms", ms(sorted[0]), ms(sorted[(n+1)/2-1]), ms(sorted[n-1]))
		}
		t.between("%d more%s", more, gaps)
		if ex.MergedReads > 0 {
			t.between("reads with more than one event: %d (gaps inside a read are 0)", ex.MergedReads)
		}
		t.at(ex.E2E.V, "last output event")
	}
}

// known lists what a failed exchange had reached.
func (t *lines) known(ex *client.Exchange) {
	if ex.Status != 0 && ex.Error.Class != api.HTTPStatus {
		t.pair("status", "%d", ex.Status)
	}
	if ex.BodyBytes.Known {
		t.pair("body", "%d bytes", ex.BodyBytes.V)
	}
	if ex.Events.Known {
		t.pair("output events", "%d", ex.Events.V)
	}
	if ex.Attempts > 1 {
		t.pair("attempts", "%d", ex.Attempts)
	}
}

// tokens lists the counts, each with who counted.
func (t *lines) tokens(ex *client.Exchange) {
	t.pair("input tokens", "%s", count(ex.InputTokens, ex.InputSource,
		part{"cached", ex.CachedTokens}, part{"image", ex.ImageTokens}, part{"audio", ex.AudioTokens}))
	if ex.API == api.Chat.Name || ex.API == api.Completions.Name {
		t.pair("output tokens", "%s", count(ex.OutputTokens, ex.OutputSource, part{"reasoning", ex.ReasoningTokens}))
	}
	if ex.TPOT.Known {
		t.pair("TPOT", "%s ms", ms(ex.TPOT.V))
	}
}

// A part is some of a count.
type part struct {
	name string
	n    api.Opt[int64]
}

func count(n api.Opt[int64], source string, parts ...part) string {
	if !n.Known {
		return "unknown"
	}
	s := fmt.Sprintf("%d (%s)", n.V, source)
	for _, p := range parts {
		if p.n.Known {
			s += fmt.Sprintf(", %d of them %s", p.n.V, p.name)
		}
	}
	return s
}

// answer lists what the answer held.
func (t *lines) answer(ex *client.Exchange) {
	if ex.Vectors.Known {
		dim := ""
		if ex.Dim.Known {
			dim = fmt.Sprintf(" of dimension %d", ex.Dim.V)
		}
		t.pair("vectors", "%d%s", ex.Vectors.V, dim)
	}
	if ex.Results.Known {
		t.pair("results", "%d", ex.Results.V)
	}
	if ex.FinishReason != "" {
		t.pair("finish reason", "%s", api.Snippet([]byte(clean(ex.FinishReason))))
	}
	if ex.Reasoning != "" {
		t.pair("reasoning", "%s", quoted(ex.Reasoning))
	}
	if ex.Text != "" {
		t.pair("text", "%s", quoted(ex.Text))
	}
	for _, c := range ex.ToolCalls {
		t.pair("tool call", "%s %s", api.Snippet([]byte(clean(c.Name))), quoted(c.Arguments))
	}
	for _, w := range ex.Warnings {
		t.pair("warning", "%s", clean(w))
	}
}

func bodyBytes(ex *client.Exchange) string {
	if !ex.BodyBytes.Known {
		return ""
	}
	return fmt.Sprintf(", %d bytes", ex.BodyBytes.V)
}
