package gate

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Limits of a line. Package benchfmt takes no longer ones than 64 KiB, which is
// room for 2000 values; what is longer is log text and is dropped.
const (
	maxResultLine = 64<<10 - 2 // without its end
	maxLogLine    = 16 << 20
)

// InputError is why benchmark text cannot be judged.
type InputError struct {
	File string
	Line int // from 1; 0 if it is no matter of one line
	Msg  string
}

func (e *InputError) Error() string {
	if e.Line == 0 {
		return e.File + ": " + e.Msg
	}
	return e.File + ":" + strconv.Itoa(e.Line) + ": " + e.Msg
}

// mark is a line `# tokpace-pair 7 BA`: what follows is a sample of pair 7.
type mark struct {
	line  int
	pair  int
	order string
}

// text hands benchmark text on in the form that benchfmt reads: UTF-8, no byte
// order mark, lines of limited length ending in \n. The number of lines stays
// the same. What would lose a sample without a word is an error.
type text struct {
	file  string
	src   *bufio.Reader
	line  int    // number of the last line read
	rest  []byte // of that line, not yet handed on
	marks []mark
	json  bool // there was a line of go test -json
	err   error
}

func newText(r io.Reader, file string) *text {
	t := &text{file: file}
	src := bufio.NewReader(r)
	start, _ := src.Peek(4) // less than 4 bytes are looked at too
	if order := utf16Order(start); order != nil {
		t.src = bufio.NewReaderSize(&utf16Text{src: src, order: order}, maxResultLine)
	} else {
		t.src = bufio.NewReaderSize(src, maxResultLine)
	}
	return t
}

// Read has the form that benchfmt wants.
func (t *text) Read(p []byte) (int, error) {
	for len(t.rest) == 0 {
		if t.err != nil {
			return 0, t.err
		}
		line, err := t.readLine()
		if err != nil && err != io.EOF {
			err = t.locate(err)
			line = nil
		}
		t.err = err
		if len(line) > 0 || err == nil {
			if t.rest, err = t.normal(line); err != nil {
				t.rest, t.err = nil, t.locate(err)
			}
		}
	}
	n := copy(p, t.rest)
	t.rest = t.rest[n:]
	return n, nil
}

func (t *text) locate(err error) error {
	return &InputError{File: t.file, Line: t.line, Msg: err.Error()}
}

// readLine returns the next line without its end. Of the last line, the error
// is io.EOF.
func (t *text) readLine() ([]byte, error) {
	t.line++
	line, err := t.src.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		line = bytes.Clone(line)
		for errors.Is(err, bufio.ErrBufferFull) {
			if len(line) > maxLogLine {
				return nil, fmt.Errorf("line is longer than %d MiB", maxLogLine>>20)
			}
			var more []byte
			more, err = t.src.ReadSlice('\n')
			line = append(line, more...)
		}
	}
	line = bytes.TrimRight(line, "\r\n")
	for bytes.HasPrefix(line, []byte("\ufeff")) { // also where files were joined
		line = line[len("\ufeff"):]
	}
	return line, err
}

var (
	// A result that has log text before it on its line, and one whose name has
	// log text behind it and so stands on another line.
	buried   = regexp.MustCompile(`Benchmark(?:[^a-z\s]\S*)?[ \t]+\d+[ \t]+[-+.\d]\S*[ \t]+\S`)
	nameless = regexp.MustCompile(`^\s+\d+\t\s*[-+.\d]\S* [^\s\d]`)
)

// normal returns the line as benchfmt shall see it, with its end.
func (t *text) normal(line []byte) ([]byte, error) {
	switch {
	case isResult(line) || bytes.HasPrefix(line, []byte("Unit ")):
		if len(line) > maxResultLine {
			return nil, fmt.Errorf("line is longer than %d KiB", maxResultLine>>10+1)
		}
	case bytes.HasPrefix(line, []byte("# tokpace-pair")):
		m, err := parseMark(string(line))
		if err != nil {
			return nil, err
		}
		m.line = t.line
		t.marks = append(t.marks, m)
		line = nil
	case bytes.Equal(line, []byte("PASS")):
		// The next package has definitions of its own, or none. An empty value
		// deletes the key.
		line = []byte(definitionKey + ":")
	case bytes.HasPrefix(line, []byte("FAIL\t")), bytes.HasPrefix(bytes.TrimLeft(line, " "), []byte("--- FAIL: ")):
		return nil, fmt.Errorf("a run failed: %.200s", bytes.TrimSpace(line))
	case bytes.Contains(line, []byte("Benchmark")) && buried.Match(line):
		return nil, errors.New("a result has other text before it on its line")
	case nameless.Match(line):
		return nil, errors.New("a result has lost its name: other text was written between them")
	case bytes.HasPrefix(line, []byte("Benchmark")), len(line) > maxResultLine:
		line = nil // log text
	case bytes.HasPrefix(line, []byte(`{"`)) && bytes.Contains(line, []byte(`"Action":"`)):
		t.json = true
	}
	if !utf8.Valid(line) {
		return nil, errors.New("text is neither UTF-8 nor UTF-16 with a byte order mark")
	}
	return append(line[:len(line):len(line)], '\n'), nil
}

// isResult reports whether the line begins like a result. `Benchmarking the
// server` and `Benchmark of 3 servers` are log text.
func isResult(line []byte) bool {
	rest, ok := bytes.CutPrefix(line, []byte("Benchmark"))
	if !ok {
		return false
	}
	c, _ := utf8.DecodeRune(rest)
	if c == ' ' || c == '\t' { // a function of just this name
		f := bytes.Fields(rest)
		return len(f) > 0 && f[0][0] >= '0' && f[0][0] <= '9'
	}
	return c < 'a' || c > 'z'
}

func parseMark(line string) (mark, error) {
	f := strings.Fields(line)
	if len(f) == 4 && f[1] == "tokpace-pair" && (f[3] == "AB" || f[3] == "BA") {
		if n, err := strconv.ParseInt(f[2], 10, 32); err == nil && n > 0 {
			return mark{pair: int(n), order: f[3]}, nil
		}
	}
	return mark{}, fmt.Errorf("%.60q is no mark of a pair: want # tokpace-pair 7 AB, or BA", line)
}
