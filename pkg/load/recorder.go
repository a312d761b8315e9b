package load

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"example.com/tokpace/pkg/client"
)

// RunSchema names the form of a line that tells of a whole run, among those of its
// exchanges.
const RunSchema = "tokpace.run/v1"

// A Recorder appends records to a file, a line of JSON each, while a run goes
// on. A record is in the file, whole, when Append returns: a process that is
// killed loses none, and leaves at most one torn line, which the next Recorder
// of the file cuts off.
type Recorder struct {
	mu   sync.Mutex
	file *os.File
	size int64 // of the whole records
	zip  bool
	err  error // of the file; nothing more is written after it
	buf  bytes.Buffer
	gz   *gzip.Writer
}

// OpenRecorder opens a file for appending, and makes it if there is none. A name
// that ends in .gz stands for a compressed file, each record a gzip member of its
// own, so that what is there can be read at any time. It is an error if
// the file holds something else than records, or if another process has it open.
func OpenRecorder(path string) (*Recorder, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("records: %w", err)
	}
	r := &Recorder{file: f, zip: strings.HasSuffix(path, ".gz")}
	if err := r.resume(); err != nil {
		f.Close()
		return nil, fmt.Errorf("records: %s: %w", path, err)
	}
	return r, nil
}

// resume finds the end of the whole records, and cuts off what comes after it.
func (r *Recorder) resume() error {
	if err := lock(r.file); err != nil {
		return err
	}
	info, err := r.file.Stat()
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return errors.New("not a regular file")
	case info.Size() == 0:
		return nil
	}
	whole := wholeLines
	if r.zip {
		whole = wholeMembers
	}
	if r.size, err = whole(r.file); err != nil {
		return err
	}
	return r.file.Truncate(r.size)
}

var errNoRecords = errors.New("holds something else than records: give another file")

// isRecord reports whether a line, or what there is of one, can be a record.
func isRecord(line []byte) bool {
	for _, schema := range []string{client.Schema, RunSchema} {
		start := []byte(`{"schema":"` + schema)
		if n := min(len(line), len(start)); bytes.Equal(line[:n], start[:n]) {
			return true
		}
	}
	return false
}

// wholeLines returns the size of all lines of f that have an end.
func wholeLines(f *os.File) (size int64, err error) {
	head := make([]byte, 256)
	n, err := f.ReadAt(head, 0)
	if err != nil && err != io.EOF {
		return 0, err
	}
	if !isRecord(head[:n]) {
		return 0, errNoRecords
	}
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	block := make([]byte, 64<<10)
	for end := info.Size(); end > 0; {
		start := max(0, end-int64(len(block)))
		part := block[:end-start]
		if _, err := f.ReadAt(part, start); err != nil {
			return 0, err
		}
		if i := bytes.LastIndexByte(part, '\n'); i >= 0 {
			return start + int64(i) + 1, nil
		}
		end = start
	}
	return 0, nil
}

// byteReader reads through a small buffer, and counts what was taken from it.
// Package gzip takes no more than a member from a reader of single bytes.
type byteReader struct {
	*bufio.Reader
	n int64
}

func (r *byteReader) ReadByte() (byte, error) {
	b, err := r.Reader.ReadByte()
	if err == nil {
		r.n++
	}
	return b, err
}

func (r *byteReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.n += int64(n)
	return n, err
}

// wholeMembers returns the size of all gzip members of f that have an end.
func wholeMembers(f *os.File) (size int64, err error) {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return 0, err
	}
	in := &byteReader{Reader: bufio.NewReader(f)}
	var zr *gzip.Reader
	for first := true; ; first = false {
		if zr == nil {
			zr, err = gzip.NewReader(in)
		} else {
			err = zr.Reset(in)
		}
		switch {
		case err == io.EOF:
			return size, nil
		case err == nil:
			zr.Multistream(false)
			var line []byte
			line, err = io.ReadAll(zr)
			if err == nil && !isRecord(line) {
				return 0, errNoRecords
			}
		}
		switch {
		case errors.Is(err, io.ErrUnexpectedEOF):
			return size, nil // torn
		case err != nil && first:
			return 0, errNoRecords
		case err != nil:
			return 0, fmt.Errorf("damaged after %d bytes: %w", size, err)
		}
		size = in.n
	}
}

// Append writes one record: a struct that begins with the fields of an exchange, or
// with a schema of RunSchema.
// After an error of the file, which leaves the records before it whole, all calls
// return that error.
func (r *Recorder) Append(record any) error {
	line, err := json.Marshal(record)
	if err != nil {
		return fmt.Errorf("records: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return r.err
	}
	r.buf.Reset()
	if r.zip {
		if r.gz == nil {
			r.gz = gzip.NewWriter(&r.buf)
		} else {
			r.gz.Reset(&r.buf)
		}
		// Writes to a buffer do not fail.
		_, _ = r.gz.Write(append(line, '\n'))
		_ = r.gz.Close()
	} else {
		r.buf.Write(line)
		r.buf.WriteByte('\n')
	}
	if _, err := r.file.WriteAt(r.buf.Bytes(), r.size); err != nil {
		// A part of it may have been written, whatever WriteAt says.
		r.err = fmt.Errorf("records: %w", errors.Join(err, r.file.Truncate(r.size)))
		return r.err
	}
	r.size += int64(r.buf.Len())
	return nil
}

// Close closes the file. Its error is also that of an Append that failed.
func (r *Recorder) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.file.Close(); r.err == nil && err != nil {
		r.err = fmt.Errorf("records: %w", err)
	}
	return r.err
}
