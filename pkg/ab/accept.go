package ab

import (
	"context"
	"slices"
	"strings"

	"example.com/tokpace/pkg/gate"
)

// Accepted reads what a commit says about findings that are known and wanted:
//
//	Gate-Accept: allocs/op:Chat/* one more header per request
//
// among its trailers, the last paragraph of its message. dir is a folder of the
// working tree. A trailer that says something else is an error.
func Accepted(ctx context.Context, dir, commit string) ([]gate.Acceptance, error) {
	hash, err := resolve(ctx, dir, commit)
	if err != nil {
		return nil, err
	}
	out, err := output(ctx, dir, "git", "show", "--no-patch",
		"--format=%(trailers:key=Gate-Accept,valueonly,unfold)", hash)
	if err != nil {
		return nil, err
	}
	var list []gate.Acceptance
	for line := range strings.Lines(string(out)) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		a, err := gate.ParseAcceptance(line, "Gate-Accept of "+hash[:12])
		if err != nil {
			return nil, inputError("commit %.12s: %v", hash, err)
		}
		list = append(list, a)
	}
	return list, nil
}

// withTrailers adds to a policy what the commit HEAD accepts. If that is base,
// it speaks of changes that are on both sides.
func withTrailers(ctx context.Context, src *source, p *gate.Policy) (*gate.Policy, error) {
	head, err := resolve(ctx, src.top, "HEAD")
	if err != nil || head == src.base {
		return p, ctx.Err() // a branch may have no commit yet
	}
	accepted, err := Accepted(ctx, src.top, head)
	if err != nil {
		return nil, err
	}
	with := *p
	with.Accept = append(slices.Clone(p.Accept), accepted...)
	return &with, nil
}

// resolve returns the full hash of a commit.
func resolve(ctx context.Context, dir, commit string) (string, error) {
	// A leading dash would be taken for an option; git has no such refs.
	if !strings.HasPrefix(commit, "-") {
		hash, err := output(ctx, dir, "git", "rev-parse", "--verify", "--quiet", commit+"^{commit}")
		if err == nil {
			return strings.TrimSpace(string(hash)), nil
		}
		if ctx.Err() != nil {
			return "", err
		}
	}
	return "", inputError("unknown commit %q", commit)
}
