package h1

import "time"

// A Reads says how an answer came: how many reads of the socket brought bytes of
// it, and for how many of them Body.Arrived is the kernel's time.
type Reads struct {
	Total   int
	Stamped int
}

// tolerance is how far apart two readings of a pair of clocks may be before they
// tell that one of them was set, or that the process was stopped in between.
const tolerance = 10 * time.Microsecond

// A moment is one instant on the monotonic and on the wall clock. The second is
// kept as a number of nanoseconds, for that is what the kernel's stamps are.
type moment struct {
	t    time.Time
	wall int64
}

func now() moment {
	t := time.Now()
	return moment{t, t.UnixNano()}
}

// apart reports whether the wall clock went differently from the monotonic one
// between two moments. Slewing changes both; only a step of the wall clock, a
// suspended machine, or a stop between the two readings of one moment does this.
func (m moment) apart(earlier moment) bool {
	d := time.Duration(m.wall-earlier.wall) - m.t.Sub(earlier.t)
	return d > tolerance || d < -tolerance
}

// at is the time of a wall clock's stamp.
func (m moment) at(stamp int64) time.Time { return m.t.Add(time.Duration(stamp - m.wall)) }

// stamps gives the reads of one socket their times. A stamp of the kernel is one of
// the wall clock, which may be set at any moment; it counts only where it is
// plausible, else the time of the read does.
type stamps struct {
	now func() moment

	at    time.Time // of the last read that brought bytes
	reads Reads     // since begin

	sent time.Time // begin
	seen moment    // the last look at the clocks
	set  time.Time // when the wall clock was last found to have been set
}

func newStamps(now func() moment) stamps { return stamps{now: now, seen: now()} }

// begin says that an exchange begins: none of its answer can be earlier.
func (s *stamps) begin() {
	s.look()
	s.sent, s.reads = s.seen.t, Reads{}
}

// take stamps a read that has just returned n bytes, or the end. kernel is the
// kernel's stamp, 0 if it gave none. No stamp is later than the read, none earlier
// than the exchange's begin or the stamp before it.
func (s *stamps) take(n int, kernel int64) {
	read, known := s.look()
	if n > 0 {
		s.reads.Total++
	}
	at := read
	if kernel != 0 && known {
		if k := s.seen.at(kernel); s.plausible(k, read) {
			s.reads.Stamped++
			at = k
			// The kernel tells the time of the last segment that it handed out.
			// After a loss that one came before another, for which all waited.
			if at.Before(s.at) {
				at = s.at
			}
			if at.Before(s.sent) {
				at = s.sent
			}
			if at.After(read) {
				at = read
			}
		}
	}
	s.at = at
}

// plausible reports whether k can be a stamp of what was read at read: neither from
// the future, nor from before the request, nor from before the clock was set.
func (s *stamps) plausible(k, read time.Time) bool {
	return !k.After(read.Add(tolerance)) && !k.Before(s.sent.Add(-tolerance)) && !k.Before(s.set)
}

// look reads the clocks. known says that the wall clock was not set since the last
// look, so that stamps taken meanwhile can be told; the time is that of the first
// reading.
func (s *stamps) look() (read time.Time, known bool) {
	first := s.now()
	before := s.seen
	s.seen = first
	if !first.apart(before) {
		return first.t, true
	}
	// Perhaps only this goroutine was stopped between two readings.
	s.seen = s.now()
	if !s.seen.apart(before) {
		return first.t, true
	}
	s.set = s.seen.t
	return first.t, false
}
