package harness

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"example.com/tokpace/pkg/api"
	"example.com/tokpace/pkg/client"
	"example.com/tokpace/pkg/load"
	"example.com/tokpace/pkg/metric"
)

// defaultGrace lets short answers end. Long ones would not end in a time that
// somebody who wants to leave would wait, and a run that is interrupted has no
// result that they could be missing in.
const defaultGrace = 500 * time.Millisecond

// oneInterrupt is how soon after the first an interrupt is still the same one: it
// comes from the terminal, and again from programs that pass it on, like timeout.
const oneInterrupt = 50 * time.Millisecond

// watchInterrupts returns a context that the first interrupt ends; a second one
// ends the process at once, and so does the first when no benchmark of ours is
// there to see it.
func watchInterrupts() (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	over := make(chan struct{})
	go func() {
		var first time.Time
		for {
			select {
			case <-signals:
			case <-over:
				return
			}
			if ctx.Err() != nil && time.Since(first) < oneInterrupt {
				continue
			}
			process.Lock()
			idle := process.running == 0
			process.Unlock()
			if idle || ctx.Err() != nil {
				currentTerminal().erase(true)
				if text := comments(); text != "" {
					_, _ = os.Stdout.WriteString("\n" + text) // in the middle of a line, perhaps
				}
				os.Exit(exitInterrupt)
			}
			first = time.Now()
			cancel()
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(over)
	}
}

// interrupted waits for what is in flight, leaves what there is of the run for
// Main to print, and fails b, so that it has no line.
func (s *sending) interrupted(b *testing.B, run *load.Run) {
	b.Helper()
	if run != nil {
		exchanges, elapsed, _ := run.Wait()
		s.end()
		process.Lock()
		process.summary += s.summary(exchanges, elapsed)
		process.Unlock()
	}
	b.Fatal(errInterrupted)
}

// summary tells of the exchanges of a run that was interrupted.
func (s *sending) summary(exchanges []*client.Exchange, elapsed time.Duration) string {
	var done []*client.Exchange
	failed := 0
	for _, ex := range exchanges {
		switch {
		case ex.OK:
		case ex.Error.Class == api.Canceled:
			continue // cut off by the interrupt
		default:
			failed++
		}
		done = append(done, ex)
	}
	var text strings.Builder
	fmt.Fprintf(&text, "interrupted after %v: %s\n", time.Since(s.begun).Round(time.Millisecond), s.p.name)
	fmt.Fprintf(&text, "%d sent, %d done, %d failed, %d cut off\n", s.sent.Load(), len(done), failed, len(exchanges)-len(done))
	set := metric.Of(metric.Run{Exchanges: done, Elapsed: elapsed, Goodput: s.p.Goodput})
	for _, v := range set.Values {
		if v.V < 1000 {
			fmt.Fprintf(&text, "%s %.4g\n", v.Unit, v.V)
		} else {
			fmt.Fprintf(&text, "%s %.0f\n", v.Unit, v.V)
		}
	}
	return text.String()
}

// comments is what there is of the run that was interrupted, in lines that tools
// leave out. Package testing breaks its own lines by itself, so they are for the end.
func comments() string {
	process.Lock()
	defer process.Unlock()
	var out strings.Builder
	for line := range strings.Lines(process.summary) {
		out.WriteString("# " + line)
	}
	return out.String()
}
