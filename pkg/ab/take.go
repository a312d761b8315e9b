package ab

import (
	"context"
	"fmt"
	"strings"
	"time"

	"example.com/tokpace/pkg/gate"
)

// now is replaced by tests, in which time passes with each sample.
var now = time.Now

// take takes and judges pairs: as many as were asked for, or until no row is
// undecided or the time is over. Pairs that an earlier run took are there
// already; what was decided with them is decided again in the same way.
func (r *runner) take(ctx context.Context, base, head side) (*gate.Report, error) {
	if err := r.estimate(ctx, head); err != nil {
		return nil, err
	}
	t := &taking{runner: r, base: base, head: head, pattern: r.cfg.Bench, start: now(), perPair: 2 * r.trial}
	if r.cfg.Count == 0 {
		return t.looks(ctx)
	}
	t.next, t.last = r.cfg.Count, r.cfg.Count
	for r.res.len() < r.cfg.Count {
		if err := t.pair(ctx); err != nil {
			return nil, err
		}
	}
	if r.cfg.Benchstat != nil {
		return nil, nil
	}
	return t.judge(r.cfg.Count)
}

// estimate runs head once, unrecorded, and says how long all pairs will take. The
// run also warms up what only the first process pays for.
func (r *runner) estimate(ctx context.Context, head side) error {
	r.terminal("trial run of head, to see how long it takes")
	start := now()
	if _, err := r.sample(ctx, head, r.cfg.Bench, "trial run of head"); err != nil {
		return err
	}
	r.trial = now().Sub(start)
	left := func(pairs int) string {
		return roughly(time.Duration(max(0, pairs-r.res.len())) * 2 * r.trial).String()
	}
	if r.cfg.Count > 0 {
		r.say("expected: %s, about %s", count(r.cfg.Count, "pair"), left(r.cfg.Count))
		return nil
	}
	looks := gate.Looks()
	first, last := looks[0], looks[len(looks)-1]
	r.say("expected: %d to %d pairs, about %s to %s; none begins after %v", first, last, left(first), left(last), r.cfg.Budget)
	return nil
}

// roughly rounds a duration to what an estimate is good for.
func roughly(d time.Duration) time.Duration {
	if d < 10*time.Second {
		return max(d.Round(100*time.Millisecond), 100*time.Millisecond)
	}
	return d.Round(time.Second)
}

// taking is the state of take.
type taking struct {
	*runner
	base, head side
	pattern    string // of the benchmarks that run on
	start      time.Time
	perPair    time.Duration // what the last one took

	// For the terminal: the numbers of pairs at the next look and at the last
	// one, what number the next look has, and how many benchmarks are undecided.
	next, last, look, undecided int
}

// looks takes pairs from look to look.
func (t *taking) looks(ctx context.Context) (*gate.Report, error) {
	looks := gate.Looks()
	t.last = looks[len(looks)-1]
	var report *gate.Report
	for i, look := range looks {
		t.look, t.next = i+1, look
		for t.res.len() < look {
			if now().Sub(t.start) >= t.cfg.Budget {
				return t.outOfTime(report, i)
			}
			if err := t.pair(ctx); err != nil {
				return nil, err
			}
		}
		var err error
		if report, err = t.judge(look); err != nil {
			return nil, err
		}
		names := report.Undecided()
		if len(names) == 0 {
			break
		}
		if t.undecided = len(names); i+1 < len(looks) {
			t.say("%d pairs: %s undecided, and measured on", look, count(len(names), "benchmark"))
		}
		t.pattern = exactly(names, t.cfg.Bench)
	}
	return report, nil
}

// outOfTime ends with the verdict of the last look, if there was one.
func (t *taking) outOfTime(report *gate.Report, looks int) (*gate.Report, error) {
	n := t.res.len()
	if report == nil {
		return nil, &Error{Code: gate.CodeNoVerdict, Err: fmt.Errorf(
			"no verdict: the budget of %v was over after %s, and the first look is at %d (a longer -budget, or fewer benchmarks or iterations)",
			t.cfg.Budget, count(n, "pair"), t.next)}
	}
	note := fmt.Sprintf("the budget of %v was over after %s: undecided rows are as they were at the look at %d (-resume goes on)",
		t.cfg.Budget, count(n, "pair"), gate.Looks()[looks-1])
	report.Notes = append(report.Notes, note)
	return report, nil
}

// judge judges the first n pairs.
func (t *taking) judge(n int) (*gate.Report, error) {
	t.terminal(fmt.Sprintf("judging %s", count(n, "pair")))
	base, head, err := t.res.sets(n)
	if err != nil {
		return nil, err
	}
	return gate.Compare(base, head, t.cfg.Policy), nil
}

// pair takes the next one.
func (t *taking) pair(ctx context.Context) error {
	n := t.res.len() + 1
	start := now()
	var base, head string
	for i, c := range order(n) {
		t.show(n, i)
		s, out := t.base, &base
		if c == 'B' {
			s, out = t.head, &head
		}
		var err error
		if *out, err = t.sample(ctx, s, t.pattern, fmt.Sprintf("pair %d %s, %s", n, order(n), s.name)); err != nil {
			return err
		}
	}
	t.perPair = now().Sub(start)
	return t.res.add(base, head)
}

// show tells the terminal where we are: within pair n, after some of its
// samples.
func (t *taking) show(n, samples int) {
	text := []string{fmt.Sprintf("pair %d of %d", n, t.next)}
	end := func(pairs int) time.Time {
		left := time.Duration(2*(pairs-n+1)-samples) * t.perPair / 2
		return now().Add(left)
	}
	done := "done " + end(t.next).Format(time.TimeOnly)
	if t.look > 0 {
		latest := end(t.last)
		if over := t.start.Add(t.cfg.Budget).Add(t.perPair); over.Before(latest) {
			latest = over
		}
		done += ", latest " + latest.Format(time.TimeOnly)
		text = append(text, fmt.Sprintf("look %d of %d", t.look, len(gate.Looks())))
	}
	if t.undecided > 0 {
		text = append(text, fmt.Sprintf("%d undecided", t.undecided))
	}
	t.terminal(strings.Join(append(text, done), ", "))
}

// terminal rewrites the line on the terminal; an empty text removes it.
func (r *runner) terminal(text string) {
	if text == "" && !r.line {
		return
	}
	fmt.Fprintf(r.cfg.Terminal, "\r\x1b[K%s", text)
	r.line = text != ""
}

// say writes a line to stderr.
func (r *runner) say(format string, args ...any) {
	r.terminal("") // it may be the same terminal
	fmt.Fprintf(r.cfg.Stderr, format+"\n", args...)
}
