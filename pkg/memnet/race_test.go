//go:build race

package memnet_test

// raceEnabled makes long tests short: the detector costs a factor of ten.
const raceEnabled = true
