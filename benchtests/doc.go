// Package benchtests holds the benchmarks: one file per API family, each a
// plain benchmark function that hands its shape to the harness.
//
//	go test ./benchtests -bench 'Chat/stream=true/conc=8$'
//
// Without settings they measure the built-in fake server; OPENAI_BASE_URL and
// OPENAI_API_KEY name another. Variants that need the fake's own behaviour
// (usage placed elsewhere, a slow body) run only against a fake, in this
// process or another.
package benchtests
