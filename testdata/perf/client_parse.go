package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/buger/jsonparser"

	"example.com/tokpace/pkg/api"
	"example.com/tokpace/pkg/sse"
)

// parseClient parses a stream of 1,000 events out of memory, in reads of 16 KiB.
type parseClient struct {
	Parser string // ours, "encoding/json" or "jsonparser"
	For    time.Duration
}

type parseResult struct {
	NS     float64 // per event
	Allocs float64 // per event, of a long stream over those of a short one
}

const (
	encodingJSON = "encoding-json"
	jsonParser   = "jsonparser"
	framing      = "framing-only"

	parsedEvents = 1000
	parsedRead   = 16 << 10
)

func (s *parseClient) role() string { return "parse" }

func (s *parseClient) run() error {
	var parse func(io.Reader) (events int, err error)
	switch s.Parser {
	case ours:
		parse = parseOurs
	case encodingJSON:
		parse = func(r io.Reader) (int, error) { return parseLines(r, decodeStruct()) }
	case jsonParser:
		parse = func(r io.Reader) (int, error) { return parseLines(r, decodeJSONParser()) }
	case framing:
		parse = func(r io.Reader) (int, error) {
			return parseLines(r, func([]byte) (bool, error) { return true, nil })
		}
	default:
		return fmt.Errorf("no parser %q", s.Parser)
	}
	short := bytes.Join(tokenEvents(parsedEvents), nil)
	long := bytes.Join(tokenEvents(4*parsedEvents), nil)
	once := func(data []byte, want int) error {
		n, err := parse(pieces{bytes.NewReader(data)})
		if err == nil && n < want {
			err = fmt.Errorf("%d events of %d", n, want)
		}
		return err
	}
	allocs := func(data []byte, want int) (float64, error) {
		const times = 20
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range times {
			if err := once(data, want); err != nil {
				return 0, err
			}
		}
		runtime.ReadMemStats(&after)
		return float64(after.Mallocs-before.Mallocs) / times, nil
	}
	few, err := allocs(short, parsedEvents)
	if err != nil {
		return err
	}
	many, err := allocs(long, 4*parsedEvents)
	if err != nil {
		return err
	}
	start, n := time.Now(), 0
	for time.Since(start) < s.For {
		if err := once(short, parsedEvents); err != nil {
			return err
		}
		n += parsedEvents
	}
	return result(parseResult{float64(time.Since(start)) / float64(n), (many - few) / (3 * parsedEvents)})
}

// pieces hands out 16 KiB a read.
type pieces struct{ r *bytes.Reader }

func (p pieces) Read(b []byte) (int, error) { return p.r.Read(b[:min(len(b), parsedRead)]) }

func parseOurs(r io.Reader) (events int, err error) {
	var at time.Duration
	reader := sse.NewReader(r, func() time.Duration { at++; return at })
	defer reader.Release()
	st := api.NewStream(api.Chat)
	st.DiscardText = true
	defer st.Release()
	for {
		_, out, f, err := st.Next(reader)
		if err == io.EOF {
			break
		}
		if err != nil {
			return 0, err
		}
		if f != nil {
			return 0, f
		}
		events += out.Events
	}
	if events != st.Outputs() {
		return 0, fmt.Errorf("%d events, then %d", events, st.Outputs())
	}
	if f := st.End(); f != nil {
		return 0, f
	}
	if usage := st.Answer().Usage; !usage.Output.Known {
		return 0, errors.New("no usage")
	}
	return st.Outputs(), nil
}

// parseLines splits events as cheaply as can be and gives each to decode, which says whether it has output.
func parseLines(r io.Reader, decode func(data []byte) (bool, error)) (events int, err error) {
	lines := bufio.NewReaderSize(r, parsedRead)
	for {
		line, err := lines.ReadSlice('\n')
		if err == io.EOF {
			return events, nil
		}
		if err != nil {
			return 0, err
		}
		data, ok := bytes.CutPrefix(line[:len(line)-1], dataPrefix)
		if !ok || bytes.Equal(data, doneData) {
			continue
		}
		output, err := decode(data)
		if err != nil {
			return 0, err
		}
		if output {
			events++
		}
	}
}

// decodeStruct decodes all of a chunk with encoding/json.
func decodeStruct() func([]byte) (bool, error) {
	return func(data []byte) (bool, error) {
		var chunk fullChunk
		if err := json.Unmarshal(data, &chunk); err != nil {
			return false, err
		}
		return len(chunk.Choices) > 0 && chunk.Choices[0].Delta.Content != "", nil
	}
}

// decodeJSONParser takes the content, the finish reason and the usage with jsonparser, in one pass. It checks nothing else.
func decodeJSONParser() func([]byte) (bool, error) {
	var (
		output bool
		tokens int64
		failed error
	)
	// Made once: a closure for each event would be an allocation.
	take := func(path int, value []byte, kind jsonparser.ValueType, err error) {
		switch {
		case err != nil:
			failed = err
		case path == 0:
			output = len(value) > 0
		case path == 1 && kind == jsonparser.String && len(value) == 0:
			failed = errors.New("empty finish reason")
		case path == 2:
			tokens, failed = jsonparser.ParseInt(value)
		}
	}
	return func(data []byte) (bool, error) {
		output, failed = false, nil
		jsonparser.EachKey(data, take, chunkPaths...)
		if tokens < 0 {
			return false, errors.New("negative usage")
		}
		return output, failed
	}
}

var chunkPaths = [][]string{{"choices", "[0]", "delta", "content"}, {"choices", "[0]", "finish_reason"}, {"usage", "completion_tokens"}}
