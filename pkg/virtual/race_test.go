//go:build race

package virtual_test

// raceEnabled keeps virtual tests small: the race detector makes them some
// fifty times slower.
const raceEnabled = true
