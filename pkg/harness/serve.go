package harness

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"example.com/tokpace/pkg/api"
	"example.com/tokpace/pkg/client"
	"example.com/tokpace/pkg/load"
	"example.com/tokpace/pkg/metric"
)

// serveName is the benchmark that the settings of a shape are for.
const serveName = "BenchmarkServe"

// Serve measures a target under the load that the settings describe: backend,
// lengths, rate, concurrency, sampling, adapters, with the names that the flags
// of `vllm bench serve` have. It makes one sub-benchmark of each combination of
// the rates and concurrencies that are given; their names hold all that decides
// what is sent and when. No other benchmark obeys these settings, so the one
// that calls Serve must be BenchmarkServe: Main refuses them where it does not
// run.
//
//	func BenchmarkServe(b *testing.B) { harness.Serve(b, harness.Target{}) }
//
// Without any of them it sends completions of 1024 tokens in and 128 out, eight
// at a time.
func Serve(b *testing.B, t Target) {
	b.Helper()
	set, err := currentSettings()
	if err != nil {
		b.Fatal(err)
	}
	for _, v := range set.shape.variations() {
		b.Run(v.name(), func(b *testing.B) { v.run(b, t) })
	}
}

// run measures one variation.
func (v variation) run(b *testing.B, t Target) {
	b.Helper()
	Benchmark{Target: t, Dataset: v.data(), Load: v.load(requestLimit()), Goodput: v.goodput, Steady: v.steady, serve: v.shape}.Run(b)
}

// reportPercentiles reports those that the settings ask for.
func (s *shape) reportPercentiles(b *testing.B, exchanges []*client.Exchange) {
	b.Helper()
	values, notes := metric.Percentiles(exchanges, s.percentilesOf(), s.percentiles)
	reportValues(b, values)
	for _, note := range notes {
		b.Log(note)
	}
}

// load is the load of a run of limit requests, 0 for one that is bounded by
// time.
func (v variation) load(limit int) load.Load {
	var schedule load.Schedule
	switch {
	case v.ramp.strategy != "":
		schedule = load.Ramp{From: v.ramp.from, To: v.ramp.to, Requests: limit, Exponential: v.ramp.strategy == "exponential", Burstiness: v.burstiness}
	case v.rate == 0:
		return load.Closed{N: v.inFlight, Limits: v.limits, Warmup: v.warmup}
	case v.burstiness == 0 || v.burstiness == 1:
		schedule = load.Poisson{Rate: v.rate}
	case math.IsInf(v.burstiness, 1):
		schedule = load.Constant{Rate: v.rate}
	default:
		schedule = load.Gamma{Rate: v.rate, Burstiness: v.burstiness}
	}
	return load.Open{Schedule: schedule, MaxConcurrency: v.inFlight, Limits: v.limits, Warmup: v.warmup}
}

// checkCount finds a shape that needs a number of requests where none was given:
// a ramp goes by the number of the request, not by time.
func (s *shape) checkCount(limit int) error {
	if s.ramp.strategy != "" && limit < 2 {
		return errors.New("ramp-up-strategy needs a number of requests over which the rate changes: give one, as in -benchtime=1000x")
	}
	return nil
}

// checkShape finds what the server cannot do of the shape.
func (s *server) checkShape(shape *shape) error {
	if s.settings.skipCheck {
		return nil
	}
	for _, name := range shape.adapters {
		if !slices.Contains(s.models, name) {
			return fmt.Errorf("%s has no model %q, which lora-modules names: it lists %s (a model that it does not list: set TOKPACE_SKIP_CHECK=1)",
				s.name(), api.Snippet([]byte(name)), s.shown(strings.Join(s.models, ", ")))
		}
	}
	return nil
}
