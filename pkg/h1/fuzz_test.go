package h1

import (
	"bytes"
	"testing"
)

// FuzzResponse reads answers with this package's reader and net/http's. What ours
// takes theirs must take, with the same result: stricter is right, looser is not.
func FuzzResponse(f *testing.F) {
	for _, c := range valid {
		if len(c.raw) < 4096 && !c.special {
			f.Add([]byte(c.raw), c.method == "HEAD", uint16(7), uint16(1))
		}
	}
	for _, c := range invalid {
		if len(c.raw) < 4096 {
			f.Add([]byte(c.raw), false, uint16(0), uint16(4096))
		}
	}
	f.Fuzz(func(t *testing.T, raw []byte, head bool, cut, size uint16) {
		method := "GET"
		if head {
			method = "HEAD"
		}
		at := min(int(cut), len(raw))
		ours := deliver(t, method, max(int(size), 1), bytes.Clone(raw[:at]), bytes.Clone(raw[at:]))
		whole := deliver(t, method, directRead, bytes.Clone(raw))
		if (ours.err == nil) != (whole.err == nil) || !bytes.Equal(ours.body, whole.body) {
			t.Fatalf("cut at %d, reads of %d bytes: %v %q; whole: %v %q", at, size, ours.err, ours.body, whole.err, whole.body)
		}
		if ours.err != nil {
			return
		}
		for bytes.HasPrefix(raw, []byte("HTTP/1.1 1")) || bytes.HasPrefix(raw, []byte("HTTP/1.0 1")) {
			// The transport skips interim answers, not the reader.
			raw = raw[bytes.Index(raw, []byte("\r\n\r\n"))+4:]
		}
		theirs, body, err := byNetHTTP(method, raw)
		if err != nil {
			if ours.resp.Header["Trailer"] != nil {
				return // net/http checks its names
			}
			t.Fatalf("net/http refuses what was taken: %v", err)
		}
		requireSame(t, theirs, body, ours)
	})
}
