//go:build race

package h1

// raceEnabled keeps tests small, and those of memory away: the race detector
// makes them slow, and their figures those of the detector.
const raceEnabled = true
