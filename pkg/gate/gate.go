// Package gate decides whether one set of benchmark results is worse than
// another. It knows the Go benchmark format and nothing of servers; it stands on
// golang.org/x/perf and on no package of this module.
//
// The statistics need no assumption about how a benchmark's noise is
// distributed, and no random numbers, so the same input gives the same answer.
// [SignedRank] is for samples taken in pairs, [RankSum] for two samples that
// have nothing to do with each other:
//
//	d := make([]float64, len(base)) // log ratios of 10 pairs
//	for i := range d {
//		d[i] = math.Log(head[i]) - math.Log(base[i])
//	}
//	iv := gate.SignedRank(d, 0.9975)
//	fmt.Printf("%+.1f %%, at least %+.1f %%\n", 100*math.Expm1(iv.Center), 100*math.Expm1(iv.Lo))
package gate
