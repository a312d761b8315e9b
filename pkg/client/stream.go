package client

import (
	"errors"
	"io"
	"time"

	"example.com/tokpace/pkg/api"
	"example.com/tokpace/pkg/sse"
)

// readStream reads an event stream to its end.
func (x *exchange) readStream(body *arrivals) *api.Failure {
	st := api.NewStream(x.req.API)
	defer st.Release()
	st.DiscardText = x.c.DiscardText && x.c.CountTokens == nil
	f := x.readEvents(body, st)
	answer := st.Answer()
	x.ex.take(answer, x.req)
	x.ex.Events = api.Some(st.Outputs())
	if f == nil {
		x.ex.TPOT = tpot(x.ex, answer.Usage.Output, st.FirstTokens())
		if !answer.Usage.Output.Known {
			x.countOutput(answer)
		}
	}
	x.discardText()
	return f
}

// readEvents takes the times of a stream's events.
func (x *exchange) readEvents(body *arrivals, st *api.Stream) *api.Failure {
	body.limit = x.c.maxBody()
	rec := newRecorder()
	defer rec.release()
	events := sse.NewReader(body, body.stamp)
	defer events.Release()
	events.MaxEvent, events.Buffer = x.c.MaxEvent, rec.buffer[:]
	var (
		last     time.Duration
		lastRead int
		inRead   int
		inBand   *api.Failure
	)
	for {
		ev, out, f, err := st.Next(events)
		if err == io.EOF {
			break
		}
		if err != nil {
			return x.streamFailure(err, inBand)
		}
		switch {
		case f != nil && f.Class == api.Malformed && ev.Unterminated:
			return &api.Failure{Class: api.Truncated, Message: "the stream ended inside an event: " + api.Snippet(ev.Data)}
		case f != nil && f.Class == api.Malformed:
			return f
		case f != nil:
			// The body is read to its end also after an in-band error, so
			// that the connection can serve the next request.
			inBand = f
			continue
		case len(out.Choices) == 0:
			continue
		}
		if !x.ex.TTFT.Known {
			x.ex.TTFT = api.Some(ev.At)
		}
		if out.Answer && !x.ex.FirstAnswer.Known {
			x.ex.FirstAnswer = api.Some(ev.At)
		}
		last = ev.At
		for _, choice := range out.Choices {
			if out.Events > 1 || !rec.again(choice, ev.At) {
				rec.add(choice, ev.At, out.Events)
			}
		}
		if read := body.how().Total; read != lastRead {
			lastRead, inRead = read, 0
		}
		if inRead < 2 && inRead+out.Events >= 2 {
			x.ex.MergedReads++
		}
		inRead += out.Events
	}
	if inBand != nil {
		return inBand
	}
	if f := st.End(); f != nil {
		return f
	}
	x.ex.BodyComplete = api.Some(body.at)
	if st.Outputs() > 0 {
		x.ex.E2E = api.Some(last)
		x.ex.ITL = rec.gaps()
	}
	return nil
}

// streamFailure classifies an error in the middle of a stream; an in-band error
// that came before it is the cause.
func (x *exchange) streamFailure(err error, inBand *api.Failure) *api.Failure {
	var limit *sse.LimitError
	switch {
	case inBand != nil:
		return inBand
	case errors.As(err, &limit):
		return &api.Failure{Class: api.Malformed, Message: limit.Error()}
	}
	return x.bodyFailure(err)
}

// tpot is (E2E − TTFT) / (output − tokens in the first output event), the
// latter 1 unless a running usage told it; absent when the divisor is not
// positive.
func tpot(ex *Exchange, output, first api.Opt[int64]) Dur {
	if !first.Known {
		first = api.Some[int64](1)
	}
	if !ex.TTFT.Known || !output.Known || output.V <= first.V {
		return Dur{}
	}
	return api.Some((ex.E2E.V - ex.TTFT.V) / time.Duration(output.V-first.V))
}
