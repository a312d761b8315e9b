package metric

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"example.com/tokpace/pkg/client"
)

// A Percent is a percentile's share in thousandths of a percent, so that ranks
// are computed in integers: 99.9 % is 99900.
type Percent int

const wholePercent = 100_000

// ParsePercent reads a share such as 90 or 99.9: above 0, below 100, with at most
// three decimals.
func ParsePercent(text string) (Percent, error) {
	whole, fraction, _ := strings.Cut(text, ".")
	n, err := strconv.ParseUint(whole+(fraction + "000")[:3], 10, 32)
	if err != nil || len(fraction) > 3 || n == 0 || n >= wholePercent {
		return 0, errors.New("want a percent above 0 and below 100 with at most three decimals, as in 90 or 99.9")
	}
	return Percent(n), nil
}

// String is the share as it was read, without zeros at its end.
func (p Percent) String() string {
	text := strconv.Itoa(int(p) / 1000)
	if part := int(p) % 1000; part != 0 {
		text += "." + strings.TrimRight(fmt.Sprintf("%03d", part), "0")
	}
	return text
}

// of is the nearest-rank percentile of sorted samples, as Percentile.
func (p Percent) of(samples []time.Duration) time.Duration {
	rank := (len(samples)*int(p) + wholePercent - 1) / wholePercent
	return samples[rank-1]
}

// unit is the percentile's unit of a latency.
func (p Percent) unit(latency string) string { return latency + "-p" + p.String() + "-ns" }

// ParseLatency reads the name of a latency: that of its unit, or the one that
// `vllm bench serve` has for it.
func ParseLatency(name string) (string, error) {
	switch name {
	case "e2el":
		name = "e2e"
	case "client_queue_time":
		name = "queue"
	case "e2el_including_client_queue":
		name = "e2e-sched"
	}
	var names []string
	for _, l := range latencies {
		if l.name == name {
			return name, nil
		}
		names = append(names, l.name)
	}
	return "", fmt.Errorf("no latency is called %q: choose among %s", name, strings.Join(names, ", "))
}

// Percentiles are further percentiles of latencies, beside those of Of, over the
// successful exchanges. Latencies without samples have none.
func Percentiles(exchanges []*client.Exchange, names []string, percents []Percent) (values []Value, notes []string) {
	for _, l := range latencies {
		if !slices.Contains(names, l.name) {
			continue
		}
		var samples []time.Duration
		for _, ex := range exchanges {
			if ex.OK {
				samples = append(samples, l.of(ex)...)
			}
		}
		if len(samples) == 0 {
			continue
		}
		slices.Sort(samples)
		known, _ := l.units()
		for _, p := range percents {
			unit := p.unit(l.name)
			if slices.Contains(known, unit) {
				continue
			}
			values = append(values, Value{Unit: unit, V: float64(p.of(samples))})
			if len(samples)*(wholePercent-int(p)) < wholePercent {
				notes = append(notes, fmt.Sprintf("p%v of %d samples is just the largest: %s", p, len(samples), l.name))
			}
		}
	}
	return values, notes
}

// PercentileUnits lists the units of Percentiles that Units does not list.
func PercentileUnits(names []string, percents []Percent) (units []Unit) {
	for _, l := range latencies {
		known, _ := l.units()
		for _, p := range percents {
			if unit := p.unit(l.name); slices.Contains(names, l.name) && !slices.Contains(known, unit) {
				units = append(units, Unit{Name: unit, Better: "lower"})
			}
		}
	}
	return units
}
