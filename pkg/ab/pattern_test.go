package ab

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTopLevelOfPattern(t *testing.T) {
	for _, tc := range []struct{ bench, want string }{
		{".", "."},
		{"", ""},
		{"Chat", "Chat"},
		{"Chat/stream=true", "Chat"},
		{"^Chat$/^conc=8$/x", "^Chat$"},
		{"Chat/a|Images/b", "Chat|Images"},
		{"Chat/a|b", "Chat|b"},
		{"(Chat|Images)/b", "(Chat|Images)"},
		{"(a/b)/c", "(a/b)"},
		{"[/|]x/c", "[/|]x"},
		{`a\/b/c`, `a\/b`},
		{`a\|b|c/d`, `a\|b|c`},
		{"a](/b)/c", "a](/b)"},
		{"[(]a/b", "[(]a"},
		{"/sub", ""},
		{`a\`, `a\`},
	} {
		require.Equal(t, tc.want, topLevel(tc.bench), "pattern %s", tc.bench)
	}
}

func TestCheckPattern(t *testing.T) {
	for _, good := range []string{".", "", "Chat/a|Images/b", "(a|b)/c", "[/]"} {
		require.NoError(t, checkPattern(good), good)
	}
	for _, bad := range []string{"(", "Chat/[", "a|*", `a\`, "a)/b"} {
		require.Error(t, checkPattern(bad), bad)
	}
}

func TestCheckOutput(t *testing.T) {
	for _, good := range []string{
		"BenchmarkA 16 5 ns/op\n",
		"goos: linux\nBenchmarkA/x=1-2 \t 16 \t 5.5 ns/op\t 1606 input-tok/op\nPASS\n",
		"    a_test.go:1: says\n        Benchmark 3 was slow today\nBenchmarkA 1 1 ns/op\n",
	} {
		require.NoError(t, checkOutput(good), good)
	}
	for _, none := range []string{
		"", "PASS\n", "BenchmarkA\n", "BenchmarkA some words of text\n", "# BenchmarkA 16 5 ns/op\n",
	} {
		require.Equal(t, errNoResult, checkOutput(none), none)
	}
	for _, bad := range []string{
		"BenchmarkA 0 NaN ns/op\n",
		"BenchmarkA 16 5 ns/op +Inf req/s\n",
		"BenchmarkB 1 1 ns/op\nBenchmarkA 16 5 ns/op x req/s\n",
	} {
		require.ErrorContains(t, checkOutput(bad), "BenchmarkA has the value", bad)
	}
}

func TestRoughly(t *testing.T) {
	for in, want := range map[string]string{
		"80.4s": "1m20s", "12.7s": "13s", "9.96s": "10s", "1.234s": "1.2s", "3ms": "100ms",
	} {
		d, err := time.ParseDuration(in)
		require.NoError(t, err)
		require.Equal(t, want, roughly(d).String())
	}
}
