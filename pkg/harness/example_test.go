package harness_test

import (
	"fmt"
	"testing"

	"example.com/tokpace/fakeserver"
	"example.com/tokpace/pkg/dataset"
	"example.com/tokpace/pkg/harness"
	"example.com/tokpace/pkg/load"
)

func TestMain(m *testing.M) { harness.Main(m) }

// BenchmarkMyServer is the benchmark that README shows.
func BenchmarkMyServer(b *testing.B) {
	chat := dataset.Chat{Input: 512, Output: 64, Stream: true}
	for _, n := range []int{1, 8} {
		b.Run(fmt.Sprintf("conc=%d", n), func(b *testing.B) {
			harness.Run(b, harness.Target{}, chat, load.Closed{N: n})
		})
	}
}

// A whole benchmark of a server: here a fake one on a real socket. With the zero
// Target it is the server that OPENAI_BASE_URL names.
func ExampleRun() {
	r := testing.Benchmark(func(b *testing.B) {
		srv := fakeserver.Start(b, fakeserver.Config{})
		chat := dataset.Chat{Input: 512, Output: 64, Stream: true}
		harness.Run(b, harness.Target{URL: srv.URL}, chat, load.Closed{N: 8})
	})
	fmt.Println("input tokens:", r.Extra["input-tok/op"])
	fmt.Println("output tokens:", r.Extra["output-tok/op"])
	// Output:
	// input tokens: 531
	// output tokens: 64
}
