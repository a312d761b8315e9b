//go:build !race

package memnet_test

const raceEnabled = false
