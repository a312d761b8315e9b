package h1

import (
	"io"
	"strconv"
	"sync"
	"time"
)

// An upload is a large request that is written while the answer is waited for.
type upload struct {
	done chan struct{}
	// err and ofBody are set before done is closed: why it failed, and whether
	// that was the request's body and not the connection.
	err    error
	ofBody bool

	body  io.Closer
	close sync.Once
}

// start writes a message on a goroutine of its own. fail is called when the
// request's body fails: nobody else would end the wait for an answer then.
func start(m message, w io.Writer, fail func(), wrote func(error)) *upload {
	u := &upload{done: make(chan struct{}), body: m.req.Body}
	go func() {
		u.err, u.ofBody = m.write(w)
		u.closeBody()
		wrote(u.err)
		close(u.done)
		if u.ofBody {
			fail()
		}
	}()
	return u
}

func (u *upload) closeBody() { u.close.Do(func() { u.body.Close() }) }

// failed returns the error of the request's body, nil if that did not fail.
func (u *upload) failed() error {
	select {
	case <-u.done:
		if u.ofBody {
			return u.err
		}
	default:
	}
	return nil
}

// lateWrite is how long the end of an answer waits for the writer of its request
// to notice that it has written it all.
const lateWrite = 50 * time.Millisecond

// complete reports whether the whole request was written.
func (u *upload) complete() bool {
	timer := time.NewTimer(lateWrite)
	defer timer.Stop()
	select {
	case <-u.done:
		return u.err == nil
	case <-timer.C:
		return false
	}
}

// write writes a message that is not whole.
func (m *message) write(w io.Writer) (err error, ofBody bool) {
	_, err = w.Write(*m.head)
	putHead(m.head)
	if err != nil {
		return err, false
	}
	if m.length < 0 {
		return m.writeChunks(w)
	}
	to := &counted{w: w, left: m.length}
	_, err = io.Copy(to, m.req.Body)
	switch {
	case to.err != nil:
		return to.err, false
	case err != nil:
		return err, true
	case to.left > 0:
		return errShortBody, true
	}
	return nil, false
}

// counted is a writer that takes no more than a length.
type counted struct {
	w    io.Writer
	left int64
	err  error // of w
}

func (c *counted) Write(p []byte) (n int, err error) {
	if int64(len(p)) > c.left {
		return 0, errLongBody
	}
	n, c.err = c.w.Write(p)
	c.left -= int64(n)
	return n, c.err
}

func (m *message) writeChunks(w io.Writer) (err error, ofBody bool) {
	const room = len("ffffffff\r\n")
	buf := make([]byte, room+32<<10+len("\r\n"))
	for {
		n, err := m.req.Body.Read(buf[room : len(buf)-len("\r\n")])
		if n > 0 {
			var size [room]byte
			digits := append(strconv.AppendInt(size[:0], int64(n), 16), "\r\n"...)
			begin := room - len(digits)
			copy(buf[begin:], digits)
			copy(buf[room+n:], "\r\n")
			if _, err := w.Write(buf[begin : room+n+len("\r\n")]); err != nil {
				return err, false
			}
		}
		if err == io.EOF {
			_, err = io.WriteString(w, "0\r\n\r\n")
			return err, false
		}
		if err != nil {
			return err, true
		}
	}
}
