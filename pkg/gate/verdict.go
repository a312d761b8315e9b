package gate

// Verdict is what was found out about a row. Worse ones are smaller.
type Verdict int

const (
	// Regression: worse beyond the limit, and not by chance.
	Regression Verdict = iota
	// Changed: an exact row has another value.
	Changed
	// Incomparable: the two sides did not measure the same thing, or not often
	// enough, or a value is no finite number.
	Incomparable
	// Missing: only base has it.
	Missing
	// Suspect: worse beyond the limit, but it may be chance.
	Suspect
	// Noisy: not worse beyond the limit as far as one can see, and one cannot
	// see far enough.
	Noisy
	// Accepted: a finding of the verdicts above that somebody knows and wants.
	Accepted
	// Improvement: better beyond the limit, and not by chance.
	Improvement
	// New: only head has it.
	New
	// Shown: not gated.
	Shown
	// OK: not worse beyond the limit.
	OK
)

var verdictNames = [...]string{"regression", "changed", "incomparable", "missing", "suspect", "noisy", "accepted", "improvement", "new", "not gated", "ok"}

func (v Verdict) String() string { return verdictNames[v] }

// Exit codes of a gate. An input that cannot be read comes before all others.
const (
	CodePass      = 0
	CodeWorse     = 1 // a regression or a change
	CodeInput     = 2 // wrong use, or an input that cannot be read
	CodeNoVerdict = 3 // something cannot be judged, is missing or suspect
)

// decided reports whether more samples would change nothing.
func (v Verdict) decided() bool { return v != Suspect && v != Noisy }

// code is the exit code that a verdict asks for.
func (v Verdict) code(strict bool) int {
	switch v {
	case Regression, Changed:
		return CodeWorse
	case Incomparable, Missing, Suspect:
		return CodeNoVerdict
	case Noisy:
		if strict {
			return CodeNoVerdict
		}
	}
	return CodePass
}
