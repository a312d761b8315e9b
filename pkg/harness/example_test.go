package harness_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"
	"time"

	"example.com/tokpace/fakeserver"
	"example.com/tokpace/pkg/dataset"
	"example.com/tokpace/pkg/harness"
	"example.com/tokpace/pkg/load"
	"example.com/tokpace/pkg/metric"
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

// BenchmarkGateway measures a server directly and through a gateway.
func BenchmarkGateway(b *testing.B) {
	srv := fakeserver.Start(b, fakeserver.Config{Headers: time.Millisecond, TTFT: 5 * time.Millisecond, ITL: time.Millisecond})
	gateway := startMyGateway(b, srv.URL)
	chat := dataset.Chat{Input: 512, Output: 64, Stream: true}
	b.Run("via=direct", func(b *testing.B) { harness.Run(b, harness.Target{URL: srv.URL}, chat, load.Closed{N: 8}) })
	b.Run("via=gateway", func(b *testing.B) { harness.Run(b, harness.Target{URL: gateway}, chat, load.Closed{N: 8}) })
}

// BenchmarkOpenLoop sends 50 requests a second at random times, whatever the
// server does, at most 64 at once.
func BenchmarkOpenLoop(b *testing.B) {
	harness.Benchmark{
		Dataset: dataset.Chat{Input: 512, Output: 64, Stream: true},
		Load:    load.Open{Schedule: load.Poisson{Rate: 50}, MaxConcurrency: 64, Warmup: load.Warmup{Requests: 10}},
		Goodput: metric.SLO{"ttft-sched": 200 * time.Millisecond, "tpot": 50 * time.Millisecond},
	}.Run(b)
}

// startMyGateway starts the smallest gateway there is.
func startMyGateway(b *testing.B, upstream string) (address string) {
	u, err := url.Parse(upstream)
	if err != nil {
		b.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(u)
	proxy.Transport = &http.Transport{MaxIdleConnsPerHost: 64}
	srv := httptest.NewServer(proxy)
	b.Cleanup(srv.Close)
	return srv.URL
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
