package harness

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// started is when the process did, about.
var started = time.Now()

// maxNotice is how long before its end a run is told of it at most.
const maxNotice = time.Minute

// watchTimeout says on standard error when -timeout is about to end the process in
// the middle of a run; stop must be called when the run is over.
//
// That can happen only to a benchmark that a test runs, by testing.Benchmark:
// package testing stops its alarm before the benchmarks of -bench, and with -bench
// the go command sets none of its own.
func watchTimeout(b *testing.B) (stop func()) {
	timeout, err := time.ParseDuration(flagValue("test.timeout"))
	if err != nil || timeout <= 0 || strings.HasPrefix(b.Name(), "Benchmark") {
		return func() {}
	}
	notice := min(maxNotice, timeout/4)
	timer := time.AfterFunc(time.Until(started.Add(timeout-notice)), func() {
		fmt.Fprintf(os.Stderr, "tokpace: the test that runs this benchmark times out in %v (-timeout %v): give go test -timeout 0, or make it a benchmark for -bench, which has no timeout\n", notice, timeout)
	})
	return func() { timer.Stop() }
}
