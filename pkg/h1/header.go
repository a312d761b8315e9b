package h1

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"
)

const (
	// maxFields limits the fields of an answer's header.
	maxFields = 1000
	// maxInterim limits the answers of status 1xx before the one that counts.
	maxInterim = 8
)

// A headScan looks for the end of an answer's head in bytes that become more.
type headScan struct {
	limit   int
	scanned int // bytes in which there is no other line end
	line    int // where the line begins
	lines   int // before it
}

const version = "HTTP/1."

// find returns the length of the head in b, 0 while its end is not there. What
// cannot become a head is an error at once.
func (s *headScan) find(b []byte) (int, error) {
	if n := min(len(b), len(version)); s.lines == 0 && string(b[:n]) != version[:n] {
		return 0, fault(BadStatusLine, b)
	}
	for {
		i := bytes.IndexByte(b[s.scanned:], '\n')
		if i < 0 {
			s.scanned = len(b)
			if len(b) >= s.limit {
				return 0, s.tooLarge()
			}
			return 0, nil
		}
		end := s.scanned + i
		switch {
		case end+1 > s.limit:
			return 0, s.tooLarge()
		case end == s.line || b[end-1] != '\r':
			return 0, fault(BareLF, b[s.line:end+1])
		case end-1 == s.line:
			return end + 1, nil
		}
		if s.lines++; s.lines-1 > maxFields {
			return 0, &ProtocolError{TooManyFields, "more than " + strconv.Itoa(maxFields)}
		}
		s.line, s.scanned = end+1, end+1
	}
}

func (s *headScan) tooLarge() error {
	return &ProtocolError{HeaderTooLarge, "more than " + strconv.Itoa(s.limit) + " bytes"}
}

// parseHead reads a head of so many lines, the empty one not counted.
func parseHead(head string, lines int, resp *http.Response) error {
	line, rest, _ := strings.Cut(head, "\r\n")
	if err := parseStatus(line, resp); err != nil {
		return err
	}
	// The values are substrings of head, and slices of one slice: two
	// allocations for all of them.
	var (
		header = make(http.Header, lines-1)
		values = make([]string, lines-1)
	)
	for i := range values {
		line, rest, _ = strings.Cut(rest, "\r\n")
		name, value, err := parseField(line)
		if err != nil {
			return err
		}
		if more := header[name]; more != nil {
			header[name] = append(more, value)
			continue
		}
		values[i] = value
		header[name] = values[i : i+1 : i+1]
	}
	resp.Header = header
	return nil
}

// parseStatus reads a status line. The space behind the code may be missing, as
// it often is.
func parseStatus(line string, resp *http.Response) error {
	const code = len("HTTP/1.1 ")
	if len(line) < code+3 || len(line) > code+3 && line[code+3] != ' ' || line[code-1] != ' ' ||
		line[code-2] != '0' && line[code-2] != '1' {
		return fault(BadStatusLine, line)
	}
	status, err := strconv.ParseUint(line[code:code+3], 10, 16)
	if err != nil || status < 100 || !isValue(line) {
		return fault(BadStatusLine, line)
	}
	resp.StatusCode = int(status)
	resp.Status = line[code:]
	resp.Proto = line[:code-1]
	resp.ProtoMajor, resp.ProtoMinor = 1, int(line[code-2]-'0')
	return nil
}

// parseField reads a field's line. Its name comes back in canonical form.
func parseField(line string) (name, value string, err error) {
	if line[0] == ' ' || line[0] == '\t' {
		return "", "", fault(FoldedField, line)
	}
	name, value, found := strings.Cut(line, ":")
	if !found || !isName(name) {
		return "", "", fault(BadField, line)
	}
	if !isValue(value) {
		if strings.IndexByte(value, '\r') >= 0 {
			return "", "", fault(BareCR, line)
		}
		return "", "", fault(BadField, line)
	}
	return http.CanonicalHeaderKey(name), strings.Trim(value, " \t"), nil
}

// hasToken reports whether a list of tokens, spread over fields, has one.
func hasToken(fields []string, token string) bool {
	for _, field := range fields {
		for t := range strings.SplitSeq(field, ",") {
			if strings.EqualFold(strings.Trim(t, " \t"), token) {
				return true
			}
		}
	}
	return false
}
