package main

import (
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"example.com/tokpace/fakeserver"
	"example.com/tokpace/pkg/api"
	"example.com/tokpace/pkg/client"
	"example.com/tokpace/pkg/virtual"
)

// TestVirtualTime has 1,000 streams of 148 tokens at once in virtual time, looks at every latency, and says what real
// time that takes. It is a test because virtual time needs one.
func TestVirtualTime(t *testing.T) {
	if os.Getenv("PERF") == "" {
		t.Skip("with PERF=1, as make perf does")
	}
	const (
		streams, gaps = 1000, 147
		ttft, itl     = 137 * time.Millisecond, 7 * time.Millisecond
	)
	req, err := api.NewChat("tokpace-fake", []api.Message{{Role: "user", Content: "words"}}, api.Generation{MaxTokens: gaps + 1, Stream: true})
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	exchanges := make([]*client.Exchange, streams)
	virtual.Run(t, fakeserver.Config{TTFT: ttft, ITL: itl}, func(t *testing.T, c *client.Client) {
		c.DiscardText = true
		var wg sync.WaitGroup
		for i := range exchanges {
			wg.Go(func() { exchanges[i] = c.Do(t.Context(), req) })
		}
		wg.Wait()
	})
	took := time.Since(start)
	var worst time.Duration
	check := func(got, want time.Duration) { worst = max(worst, got-want, want-got) }
	for _, ex := range exchanges {
		if !ex.OK {
			t.Fatal(ex.Error)
		}
		if len(ex.ITL) != gaps {
			t.Fatalf("%d gaps instead of %d", len(ex.ITL), gaps)
		}
		check(ex.TTFT.V, ttft)
		check(ex.E2E.V, ttft+gaps*itl)
		for _, gap := range ex.ITL {
			check(gap, itl)
		}
	}
	fmt.Printf("virtual time: largest error %d ns, %.3f s\n", worst, took.Seconds())
}
