package gate

import (
	"fmt"
	"math"
)

// most is how many samples a side a hint asks for: those who would need more
// need something else.
const most = 100

// Sees is the smallest change for the worse that the noise would have let us see,
// as a shift like Row.Shift: half the width of the interval. It is 0 for rows
// without an interval, and infinite for those with too few samples for one.
func (row Row) Sees() float64 {
	if row.Shift.Level == 0 {
		return 0
	}
	bad := row.Shift.worse(row.Better)
	return bad.Hi - bad.Center
}

// needs guesses how many samples a side would decide an undecided row: the width
// of an interval goes with the square root of their number.
func (row Row) needs(limit float64) float64 {
	bad := row.Shift.worse(row.Better)
	room := math.Abs(limit - bad.Center)
	return float64(row.Base.N) * math.Pow((bad.Hi-bad.Center)/room, 2)
}

// hint adds a note that says how undecided rows could be decided.
func (c *comparison) hint() {
	if !c.report.Paired {
		return // there is another note, which says what would help
	}
	undecided, want, hopeless := 0, 0.0, 0
	for _, row := range c.report.Rows {
		if row.Verdict.decided() {
			continue
		}
		undecided++
		cols := columns{base: row.base, settled: settled{limit: row.Limit, least: row.Least}}
		if n := row.needs(cols.limitShift(row.Ratio)); n > most || math.IsNaN(n) {
			hopeless++
		} else {
			want = max(want, n)
		}
	}
	if want > 0 {
		c.note("%s undecided: about %s would tell%s (tokpace ab -count)", count(undecided, "row"), count(int(math.Ceil(want)), "pair"),
			map[bool]string{true: fmt.Sprintf(" for all but %d", hopeless)}[hopeless > 0])
	}
	if hopeless > 0 {
		c.note("%s too noisy for any number of pairs: more iterations a sample, a quieter machine, or a higher limit in the policy", count(hopeless, "row"))
	}
}
