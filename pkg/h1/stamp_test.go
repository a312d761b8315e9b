package h1

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// clocks are a monotonic and a wall clock that a test moves. Its stamps are what a
// kernel would give.
type clocks struct {
	start time.Time
	mono  time.Duration // since start
	wall  time.Duration // ahead of the monotonic clock
	// apart is how much later than the wall clock the monotonic one is read in the
	// next moments: the goroutine was stopped in between.
	apart []time.Duration
}

func newClocks() *clocks { return &clocks{start: time.Now()} }

func (c *clocks) now() moment {
	m := moment{wall: c.stamp()}
	if len(c.apart) > 0 {
		c.mono += c.apart[0]
		c.apart = c.apart[1:]
	}
	m.t = c.start.Add(c.mono)
	return m
}

func (c *clocks) stamp() int64 { return c.start.UnixNano() + int64(c.mono+c.wall) }

func TestStamps(t *testing.T) {
	const (
		ms   = time.Millisecond
		hour = time.Hour
	)
	type read struct {
		sent  time.Duration // before the kernel's stamp; from the exchange's begin
		shift time.Duration // error of the kernel's stamp
		step  time.Duration // of the wall clock, between stamp and read
		lag   time.Duration // from the kernel's stamp to the read
		none  bool          // the kernel gives none
		apart []time.Duration

		want    time.Duration // from the exchange's begin
		stamped bool
	}
	for name, reads := range map[string][]read{
		"the kernel's":             {{sent: 5 * ms, lag: 3 * ms, want: 5 * ms, stamped: true}},
		"none":                     {{sent: 5 * ms, lag: 3 * ms, none: true, want: 8 * ms}},
		"a late kernel":            {{sent: 5 * ms, lag: ms, none: true, want: 6 * ms}, {sent: ms, lag: ms, want: 7 * ms, stamped: true}},
		"a suspended process":      {{sent: 5 * ms, lag: 10 * time.Minute, want: 5 * ms, stamped: true}},
		"set forward":              {{sent: 5 * ms, lag: 3 * ms, step: hour, want: 8 * ms}, {sent: ms, lag: ms, want: 9 * ms, stamped: true}},
		"set back":                 {{sent: 5 * ms, lag: 3 * ms, step: -hour, want: 8 * ms}, {sent: ms, lag: ms, want: 9 * ms, stamped: true}},
		"set by little":            {{sent: 5 * ms, lag: 3 * ms, step: -20 * time.Microsecond, want: 8 * ms}},
		"a suspended machine":      {{sent: 5 * ms, lag: 0, step: 8 * hour, want: 5 * ms}},
		"set twice":                {{sent: 5 * ms, lag: ms, step: hour, want: 6 * ms}, {sent: ms, lag: ms, step: -hour, want: 8 * ms}},
		"set before the last read": {{sent: 5 * ms, lag: ms, step: hour, want: 6 * ms}, {shift: -hour, lag: 0, want: 6 * ms}},
		"stopped while looking":    {{sent: 5 * ms, lag: ms, apart: []time.Duration{4 * ms}, want: 5 * ms, stamped: true}},
		"stopped twice": {{sent: 5 * ms, lag: ms, apart: []time.Duration{4 * ms, 4 * ms}, want: 10 * ms},
			{sent: ms, lag: ms, want: 16 * ms}, {sent: ms, lag: ms, want: 17 * ms, stamped: true}},
		"just from the future":       {{sent: 5 * ms, shift: tolerance, lag: 0, want: 5 * ms, stamped: true}},
		"from the future":            {{sent: 5 * ms, shift: 2 * ms, lag: ms, want: 6 * ms}},
		"just from before the send":  {{sent: 0, shift: -tolerance, lag: ms, want: 0, stamped: true}},
		"from before the send":       {{sent: 5 * ms, shift: -6 * ms, lag: ms, want: 6 * ms}},
		"of the epoch":               {{sent: 5 * ms, shift: -40 * 365 * 24 * hour, lag: ms, want: 6 * ms}},
		"segments in the wrong turn": {{sent: 5 * ms, lag: ms, want: 5 * ms, stamped: true}, {sent: 0, shift: -3 * ms, lag: ms, want: 5 * ms, stamped: true}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClocks()
			s := newStamps(c.now)
			c.mono += time.Second
			s.begin()
			begin := s.sent
			want := Reads{}
			for i, r := range reads {
				c.mono += r.sent
				stamp := c.stamp() + int64(r.shift)
				if r.none {
					stamp = 0
				}
				c.wall += r.step
				c.mono += r.lag
				c.apart = r.apart
				s.take(1, stamp)
				want.Total++
				if r.stamped {
					want.Stamped++
				}
				require.Equal(t, r.want, s.at.Sub(begin), "read %d", i)
				require.Equal(t, want, s.reads)
			}
			c.wall += time.Hour
			s.begin()
			require.Zero(t, s.reads)
			c.mono += ms
			s.take(1, c.stamp())
			require.Equal(t, ms, s.at.Sub(s.sent), "a step between exchanges spoils none")
			require.Equal(t, Reads{1, 1}, s.reads)
			s.take(0, 0)
			require.Equal(t, Reads{1, 1}, s.reads, "an end is no read that brought bytes")
		})
	}
}

// Whatever clocks and kernel do, time does not run backwards.
func TestStampsAreInOrder(t *testing.T) {
	const seed = 7
	rnd := rand.New(rand.NewPCG(seed, seed))
	span := func() time.Duration { return time.Duration(rnd.Int64N(1 << rnd.IntN(45))) }
	for range 2000 {
		c := newClocks()
		s := newStamps(c.now)
		for range 3 {
			c.mono += span()
			s.begin()
			last := s.sent
			for range 10 {
				c.mono += span()
				stamp := c.stamp()
				switch rnd.IntN(6) {
				case 0:
					c.wall += span()
				case 1:
					c.wall -= span()
				case 2:
					stamp -= int64(span())
				case 3:
					stamp += int64(span())
				case 4:
					c.apart = []time.Duration{span()}
				}
				c.mono += span()
				s.take(1, stamp)
				require.False(t, s.at.Before(last))
				require.False(t, s.at.After(c.start.Add(c.mono)))
				last = s.at
			}
			require.LessOrEqual(t, s.reads.Stamped, s.reads.Total)
		}
	}
}
