package h1

import (
	"net/http"
	"strconv"
	"strings"
)

// A bodyKind is how the end of a body is known.
type bodyKind uint8

const (
	noBody bodyKind = iota
	sized
	chunked
	untilClose
)

// frame finds how the body of an answer ends (RFC 9112, section 6.3) and sets the
// fields of resp that follow from it. All that is ambiguous is an error, also
// where the standard would let one field win.
func frame(resp *http.Response, method string) (bodyKind, error) {
	h := resp.Header
	encodings, encoded := h["Transfer-Encoding"]
	lengths, hasLength := h["Content-Length"]
	length := int64(-1)
	if hasLength {
		for _, other := range lengths[1:] {
			if other != lengths[0] {
				return 0, fault(DifferingLengths, strings.Join(lengths, ", "))
			}
		}
		n, err := strconv.ParseUint(lengths[0], 10, 63)
		if err != nil {
			return 0, fault(BadLength, lengths[0])
		}
		length = int64(n)
		h["Content-Length"] = lengths[:1:1]
	}
	switch {
	case encoded && hasLength:
		return 0, &ProtocolError{Fault: LengthAndEncoding}
	case encoded && (len(encodings) > 1 || !strings.EqualFold(encodings[0], "chunked")):
		return 0, fault(BadTransferEncoding, strings.Join(encodings, ", "))
	case encoded && resp.ProtoMinor == 0:
		return 0, &ProtocolError{BadTransferEncoding, "in HTTP/1.0"}
	}

	connection := h["Connection"]
	resp.Close = hasToken(connection, "close") || resp.ProtoMinor == 0 && !hasToken(connection, "keep-alive")
	resp.ContentLength = length
	if encoded {
		delete(h, "Transfer-Encoding")
		resp.TransferEncoding = chunkedOnly
	}
	switch {
	case method == http.MethodHead:
		return noBody, nil
	case resp.StatusCode == http.StatusNoContent || resp.StatusCode == http.StatusNotModified:
		resp.ContentLength = 0
		return noBody, nil
	case encoded:
		return chunked, nil
	case length == 0:
		return noBody, nil
	case length > 0:
		return sized, nil
	}
	resp.Close = true
	return untilClose, nil
}

// chunkedOnly is shared by all answers: nobody has a reason to write to it.
var chunkedOnly = []string{"chunked"}
