// Package gate decides whether one set of benchmark results is worse than
// another. It knows the Go benchmark format and nothing of servers; it stands on
// golang.org/x/perf and on no package of this module.
//
//	var base, head gate.Set
//	if err := base.Read(oldText, "old.txt"); err != nil { … } // head likewise
//	report := gate.Compare(&base, &head)
//	report.WriteText(os.Stdout)
//	os.Exit(report.Code())
//
// A row is one unit of one benchmark; [Verdict] lists what can be found out
// about it. Where all results stand under marks of pairs, `# tokpace-pair 7 BA`,
// as `tokpace ab` writes them, row by row the two samples of a pair are compared
// with each other: what slowed both down is then no difference. Files without
// marks are two separate samples.
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
