package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strconv"
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
		parse = func(r io.Reader) (int, error) { return parseLines(r, decodeJSONParser) }
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
	st := api.NewStream(api.Chat)
	for {
		ev, err := reader.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return 0, err
		}
		if _, f := st.Event(ev.Data, ev.Type); f != nil {
			return 0, f
		}
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

// decodeJSONParser takes the content, the finish reason and the usage with jsonparser, which checks nothing else.
func decodeJSONParser(data []byte) (bool, error) {
	var (
		output bool
		failed error
	)
	_, err := jsonparser.ArrayEach(data, func(choice []byte, _ jsonparser.ValueType, _ int, err error) {
		if err != nil {
			failed = err
			return
		}
		content, _, _, err := jsonparser.Get(choice, "delta", "content")
		if err != nil && !errors.Is(err, jsonparser.KeyPathNotFoundError) {
			failed = err
			return
		}
		output = output || len(content) > 0
		if reason, kind, _, err := jsonparser.Get(choice, "finish_reason"); err == nil && kind == jsonparser.String && len(reason) == 0 {
			failed = errors.New("empty finish reason")
		}
	}, "choices")
	if err == nil {
		err = failed
	}
	if err != nil {
		return false, err
	}
	usage, kind, _, err := jsonparser.Get(data, "usage")
	if err == nil && kind == jsonparser.Object {
		n, _, _, err := jsonparser.Get(usage, "completion_tokens")
		if err != nil {
			return false, err
		}
		if _, err := strconv.ParseInt(string(n), 10, 64); err != nil {
			return false, err
		}
	}
	return output, nil
}
