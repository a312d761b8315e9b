package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// The machine is idle enough when nobody takes the processors away from a loop that does nothing but look at the clock.
// Looked at is each of the two processors, before the first round, after each and at the end, for 100 ms: what the clock
// jumped by more than 20 µs was lost. (A tick of the kernel takes a few µs; a neighbour, or the machine that this virtual
// machine runs on, takes more; a virtual machine that has nothing to do loses two to four percent to its host.) A run is
// valid when the median share of these looks is at most 5 %, at most one in
// ten looks lost more than 10 %, and the load average of the minute before was at most 1: a run with a higher priority than
// all others would otherwise find the machine idle, but not its caches.
const (
	lookFor    = 100 * time.Millisecond
	jump       = 20 * time.Microsecond
	lostMedian = 0.05
	lostOften  = 0.10
	loadBefore = 1.0
)

type idleness struct {
	lost []float64 // share of each look
	load float64   // average before the run
}

// begin notes the load average, of which the first number is that of a minute.
func (i *idleness) begin(average string) {
	minute, _, _ := strings.Cut(average, " ")
	load, err := strconv.ParseFloat(minute, 64)
	if err != nil {
		load = math.Inf(1)
	}
	i.load = load
}

func (i *idleness) look(m *machine) error {
	for _, cpu := range []int{m.serverCPU, m.clientCPU} {
		err := onCPU(cpu, func() error {
			i.lost = append(i.lost, spin())
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func spin() float64 {
	start := time.Now()
	var lost time.Duration
	last := start
	for last.Sub(start) < lookFor {
		now := time.Now()
		if d := now.Sub(last); d > jump {
			lost += d
		}
		last = now
	}
	return float64(lost) / float64(last.Sub(start))
}

func (i *idleness) median() float64 { return spreadOf(i.lost).median }

// enough reports whether the machine was idle enough so far.
func (i *idleness) enough() bool {
	often := 0
	for _, l := range i.lost {
		if l > lostOften {
			often++
		}
	}
	return i.load <= loadBefore && i.median() <= lostMedian && often*10 <= len(i.lost)
}

func (i *idleness) String() string {
	s := spreadOf(i.lost)
	return fmt.Sprintf("%.1f %% of a spinning loop's time was lost in the median of %d looks, at most %.1f %%", 100*s.median, len(i.lost), 100*s.high)
}
