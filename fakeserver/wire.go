package fakeserver

import (
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Raw says how an answer differs from what net/http is willing to write. Such an answer goes straight to the connection,
// which is closed at its end.
type Raw struct {
	Framing Framing
	Bad     BadHTTP
	// Missing is how many bytes more than it brings the last chunk promises, where the plan ends in a cut.
	Missing int64
	// Flood, if not nil, is written between the status line and the headers.
	Flood *io.SectionReader
}

// Framing says how the end of a body is told.
type Framing int

const (
	FramingAuto   Framing = iota // by Content-Length if the plan has one, else chunked
	FramingClose                 // by closing the connection
	FramingHTTP10                // so too, as a server of HTTP/1.0 does
)

// BadHTTP is a way to break HTTP.
type BadHTTP int

const (
	BadNone            BadHTTP = iota
	BadStatusLine              // "HTTP/1.1 OK"
	BadHeader                  // a line without a colon
	BadChunkSize               // the size of the first chunk is no number
	BadChunkEnd                // the line end behind a chunk is missing
	BadTwoLengths              // two Content-Length headers that differ
	BadLengthAndChunks         // Content-Length and chunks
)

var badNames = map[string]BadHTTP{
	"status-line": BadStatusLine, "header": BadHeader, "chunk-size": BadChunkSize, "chunk-end": BadChunkEnd,
	"two-lengths": BadTwoLengths, "length-and-chunks": BadLengthAndChunks,
}

// rawSink writes HTTP/1.1 by itself.
type rawSink struct {
	w       io.Writer
	plan    *Plan
	chunked bool
	left    int64 // bytes still to come before the missing ones: the chunk that holds the last of them is short
	buf     []byte
}

func newRawSink(w io.Writer, p *Plan) *rawSink {
	s := &rawSink{w: w, plan: p, chunked: p.Raw.Framing == FramingAuto && p.ContentLength < 0}
	for _, e := range p.Events {
		s.left += e.Size()
	}
	return s
}

func (s *rawSink) interim(status int) error {
	_, err := io.WriteString(s.w, "HTTP/1.1 "+strconv.Itoa(status)+" "+http.StatusText(status)+"\r\n\r\n")
	return err
}

func (s *rawSink) head(p *Plan) error {
	line := "HTTP/1.1 "
	if p.Raw.Framing == FramingHTTP10 {
		line = "HTTP/1.0 "
	}
	if p.Raw.Bad != BadStatusLine {
		line += strconv.Itoa(p.Status) + " "
	}
	line += http.StatusText(p.Status) + "\r\n"
	if p.Raw.Flood != nil {
		if _, err := io.WriteString(s.w, line); err != nil {
			return err
		}
		line = ""
		if _, err := io.Copy(s.w, io.NewSectionReader(p.Raw.Flood, 0, p.Raw.Flood.Size())); err != nil {
			return err
		}
	}
	var b strings.Builder
	b.WriteString(line)
	h := maps.Clone(p.Header)
	if h == nil {
		h = http.Header{}
	}
	h.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	switch {
	case s.chunked:
		h.Set("Transfer-Encoding", "chunked")
	case p.Raw.Framing == FramingAuto:
		h.Set("Content-Length", strconv.FormatInt(p.ContentLength, 10))
	default:
		h.Set("Connection", "close")
	}
	switch p.Raw.Bad {
	case BadTwoLengths:
		h.Del("Transfer-Encoding")
		h["Content-Length"] = []string{strconv.FormatInt(s.left, 10), strconv.FormatInt(s.left+1, 10)}
		s.chunked = false
	case BadLengthAndChunks:
		h.Set("Transfer-Encoding", "chunked")
		h.Set("Content-Length", strconv.FormatInt(s.left, 10))
		s.chunked = true
	}
	for _, name := range slices.Sorted(maps.Keys(h)) {
		for _, value := range h[name] {
			b.WriteString(name + ": " + value + "\r\n")
		}
	}
	if p.Raw.Bad == BadHeader {
		b.WriteString("this header line has no colon\r\n")
	}
	b.WriteString("\r\n")
	_, err := io.WriteString(s.w, b.String())
	return err
}

// write makes one chunk of data and returns how much of it was written if it cannot all be.
func (s *rawSink) write(data []byte) (int, error) {
	if len(data) == 0 { // as a chunk it would be the end
		return 0, nil
	}
	s.left -= int64(len(data))
	if !s.chunked {
		return s.w.Write(data)
	}
	size := int64(len(data))
	short := s.left == 0 && s.plan.Raw.Missing > 0
	if short {
		size += s.plan.Raw.Missing
	}
	s.buf = s.buf[:0]
	if s.plan.Raw.Bad == BadChunkSize {
		s.buf = append(s.buf, "zz"...)
	} else {
		s.buf = strconv.AppendInt(s.buf, size, 16)
	}
	s.buf = append(append(s.buf, "\r\n"...), data...)
	if !short && s.plan.Raw.Bad != BadChunkEnd {
		s.buf = append(s.buf, "\r\n"...)
	}
	if _, err := s.w.Write(s.buf); err != nil {
		return 0, err
	}
	return len(data), nil
}

func (s *rawSink) finish() error {
	if !s.chunked {
		return nil
	}
	_, err := io.WriteString(s.w, "0\r\n\r\n")
	return err
}

// httpSink leaves it to net/http.
type httpSink struct {
	w http.ResponseWriter
}

func (s *httpSink) head(p *Plan) error {
	h := s.w.Header()
	for name, values := range p.Header {
		h[name] = values
	}
	if p.ContentLength >= 0 {
		h["Content-Length"] = []string{strconv.FormatInt(p.ContentLength, 10)}
	}
	s.w.WriteHeader(p.Status)
	// A body of known length that is due together with the headers, and ends then, goes out in one write with them.
	if p.ContentLength < 0 || len(p.Events) > 0 && p.Events[0].At > p.HeadersAt || p.endAt() > p.HeadersAt || p.End != EndClean {
		return s.flush()
	}
	return nil
}

func (s *httpSink) write(data []byte) (int, error) {
	n, err := s.w.Write(data)
	if err == nil {
		err = s.flush()
	}
	return n, err
}

func (s *httpSink) flush() error {
	switch f := s.w.(type) {
	case interface{ FlushError() error }:
		return f.FlushError()
	case http.Flusher:
		f.Flush()
	}
	return nil
}
