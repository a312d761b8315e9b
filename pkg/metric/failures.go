package metric

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"example.com/tokpace/pkg/api"
	"example.com/tokpace/pkg/client"
)

// Failures describes the failed ones of exchanges, of which there were total in
// all: how many of each class, with the first message of each. It is empty when
// none failed.
func Failures(exchanges []*client.Exchange, total int) string {
	type group struct {
		n     int
		first *api.Failure
	}
	groups := map[api.Class]*group{}
	failed := 0
	for _, ex := range exchanges {
		if ex.OK {
			continue
		}
		failed++
		g := groups[ex.Error.Class]
		if g == nil {
			g = &group{first: ex.Error}
			groups[ex.Error.Class] = g
		}
		g.n++
	}
	if failed == 0 {
		return ""
	}
	classes := slices.SortedFunc(maps.Keys(groups), func(a, b api.Class) int {
		return cmp.Or(groups[b].n-groups[a].n, cmp.Compare(a, b))
	})
	var s strings.Builder
	fmt.Fprintf(&s, "%d of %d requests failed:", failed, total)
	for _, class := range classes {
		fmt.Fprintf(&s, "\n  %d × %v", groups[class].n, groups[class].first)
	}
	return s.String()
}
