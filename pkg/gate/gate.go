// Package gate decides whether one set of benchmark results is worse than
// another. It knows the Go benchmark format and nothing of servers; it stands on
// golang.org/x/perf and on no package of this module.
//
//	var base, head gate.Set
//	if err := base.Read(oldText, "old.txt"); err != nil { … } // head likewise
//	report := gate.Compare(&base, &head, nil)
//	report.WriteText(os.Stdout)
//	os.Exit(report.Code())
//
// A row is one unit of one benchmark; [Verdict] lists what can be found out
// about it. Where all results stand under marks of pairs, `# tokpace-pair 7 BA`,
// as `tokpace ab` writes them, row by row the two samples of a pair are compared
// with each other: what slowed both down is then no difference. Files without
// marks are two separate samples.
//
// Pairs are judged at several looks, 10, 14, 20 and 26 of them, and a row is
// decided at the first look that decides it. How often that goes wrong on a
// machine that others use too (noise within a run 2 %, of a process 1.5 %, a
// drift of 3 %, a lasting step of 6 % in 15 % of the sessions, spikes of 20 % in
// 4 % of the processes; "rough" is twice as much) is simulated, with the rule as
// it is and a limit of 5 %, in 8,000 sessions for each line; `make gate-sim`
// prints it:
//
//	                                regression  improvement  ok      noisy   suspect  exit 1  exit 3
//	shared, A/A, 100 rows           0.01%       0.01%        86.81%  13.18%  0.00%    0.57%   0.01%
//	shared, +3 %, 1 row             6.90%       0.00%        17.91%  75.17%  0.01%    6.90%   0.01%
//	shared, +5 %, 1 row             60.02%      0.00%        0.45%   37.96%  1.56%    60.02%  1.56%
//	shared, +10 %, 1 row            99.06%      0.00%        0.00%   0.00%   0.94%    99.06%  0.94%
//	rough, A/A, 100 rows            0.25%       0.09%        32.59%  66.72%  0.35%    10.41%  5.04%
//	rough, +5 %, 1 row              31.52%      0.00%        0.45%   48.08%  19.95%   31.52%  19.95%
//	rough, +10 %, 1 row             85.92%      0.00%        0.00%   0.57%   13.50%   85.92%  13.50%
//	shared, two files of 6, A/A     0.25%       0.20%        50.96%  42.70%  5.89%    0.25%   5.89%
//	shared, two files of 10, A/A    0.64%       0.46%        67.75%  25.75%  5.40%    0.64%   5.40%
//	shared, two files of 20, A/A    1.14%       0.89%        78.08%  15.41%  4.49%    1.14%   4.49%
//	shared, two files of 10, +10 %  65.74%      0.00%        0.54%   5.99%   27.74%   65.74%  27.74%
//	shared, two files of 10, +20 %  99.16%      0.00%        0.00%   0.00%   0.84%    99.16%  0.84%
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
