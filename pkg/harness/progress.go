package harness

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"
)

// A terminal is the one that controls the process, whatever standard output and
// error are. It holds at most one line of ours, below the one where its cursor is:
// that one may be a result in the making, which nothing may break.
type terminal struct {
	tty   *os.File
	mine  chan struct{} // holds a token while somebody draws
	drawn bool
	err   error // a terminal that takes nothing more is none
}

// openTerminal returns nil where there is no terminal, or one that can only be
// written from left to right.
func openTerminal() *terminal {
	term := os.Getenv("TERM")
	if term == "dumb" || term == "" && runtime.GOOS != "windows" {
		return nil
	}
	tty, err := openTTY()
	if err != nil {
		return nil
	}
	return &terminal{tty: tty, mine: make(chan struct{}, 1)}
}

// below is text for the line under the cursor, and the cursor back where it was.
// The first two make room at the end of the screen: index and cursor up.
func below(text string) string { return "\x1bD\x1b[A\x1b7\x1bE\x1b[K" + text + "\x1b8" }

// draw replaces the line. While the process is in the background, it leaves the
// terminal to others.
func (t *terminal) draw(text string) {
	t.mine <- struct{}{}
	defer func() { <-t.mine }()
	width := ttyWidth(t.tty)
	if t.err != nil || width == 0 {
		return
	}
	// A line that wraps would scroll what is above it.
	if line := []rune(text); len(line) >= width {
		text = string(line[:width-1])
	}
	t.write(text)
	t.drawn = true
}

// erase takes the line away, unless the terminal is stuck in a write, as after
// Ctrl-S. forEver says that nothing shall be drawn any more.
func (t *terminal) erase(forEver bool) {
	if t == nil {
		return
	}
	select {
	case t.mine <- struct{}{}:
	case <-time.After(2 * redraw):
		return
	}
	defer func() { <-t.mine }()
	if t.drawn && t.err == nil && ttyWidth(t.tty) > 0 {
		t.write("")
	}
	t.drawn = false
	if forEver {
		t.err = os.ErrClosed
	}
}

func (t *terminal) write(text string) {
	// Where it cannot be set, the write may wait for as long as the user does.
	_ = t.tty.SetWriteDeadline(time.Now().Add(redraw))
	_, t.err = t.tty.WriteString(below(text))
}

const (
	// quiet is how long a load is sent before it is drawn.
	quiet  = time.Second
	redraw = 200 * time.Millisecond
)

// follow draws where s is, until the function that it returns is called.
func (t *terminal) follow(s *sending) (end func()) {
	if t == nil {
		return func() {}
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		wait := time.NewTimer(quiet)
		defer wait.Stop()
		for {
			select {
			case <-wait.C:
				t.draw(s.line(time.Since(s.begun)))
				wait.Reset(redraw)
			case <-stop:
				t.erase(false)
				return
			}
		}
	}()
	return sync.OnceFunc(func() {
		close(stop)
		select {
		case <-stopped:
		case <-time.After(2 * redraw):
		}
	})
}

// expected is how far a load goes, as far as that is known: zero is not.
type expected struct {
	requests int
	duration time.Duration
}

// left is how long it will still take, when done requests took elapsed.
func (e expected) left(done int64, elapsed time.Duration) (left time.Duration, known bool) {
	if e.duration > 0 {
		left, known = e.duration-elapsed, true
	}
	if e.requests > 0 && done > 0 {
		all := time.Duration(float64(elapsed) * float64(e.requests) / float64(done))
		if !known || all-elapsed < left {
			left, known = all-elapsed, true
		}
	}
	return max(left, 0), known
}

// line says where a load is. The benchmark's name comes last: package testing
// prints it only when the benchmark has ended, but a narrow terminal cuts it off.
func (s *sending) line(elapsed time.Duration) string {
	sent, done, failed := s.sent.Load(), s.done.Load(), s.failed.Load()
	var b strings.Builder
	switch {
	case s.p.ctx.Err() != nil:
		b.WriteString("interrupted: ")
	case s.warmup:
		b.WriteString("warm-up: ")
	}
	fmt.Fprintf(&b, "%d sent, %d in flight, %d done", sent, max(sent-done, 0), done)
	if s.expect.requests > 0 {
		fmt.Fprintf(&b, " of %d", s.expect.requests)
	}
	fmt.Fprintf(&b, ", %d failed, %.1f req/s", failed, float64(done)/elapsed.Seconds())
	if left, known := s.expect.left(done, elapsed); known {
		fmt.Fprintf(&b, ", %v left", left.Round(time.Second))
	}
	return b.String() + "  " + s.p.name
}
