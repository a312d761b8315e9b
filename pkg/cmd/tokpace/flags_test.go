package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDoubleDashes(t *testing.T) {
	for _, c := range []struct{ in, want []string }{
		{in: []string{}, want: []string{}},
		{in: []string{"probe", "-api", "openai", "-json"}, want: []string{"probe", "--api", "openai", "--json"}},
		{in: []string{"probe", "--api", "openai", "--json"}, want: []string{"probe", "--api", "openai", "--json"}},
		{in: []string{"probe", "-api=openai", "-json=false"}, want: []string{"probe", "--api=openai", "--json=false"}},
		// Values stay, whatever they look like.
		{in: []string{"probe", "-body", "-", "-json"}, want: []string{"probe", "--body", "-", "--json"}},
		{in: []string{"probe", "-model", "-json", "-json"}, want: []string{"probe", "--model", "-json", "--json"}},
		{in: []string{"probe", "--model", "-json", "-json"}, want: []string{"probe", "--model", "-json", "--json"}},
		{in: []string{"probe", "-model", "--", "-json"}, want: []string{"probe", "--model", "--", "--json"}},
		{in: []string{"probe", "-model=x", "-json"}, want: []string{"probe", "--model=x", "--json"}},
		{in: []string{"probe", "-model", "fake", "-body", "-dim"}, want: []string{"probe", "--model", "fake", "--body", "-dim"}},
		// A flag that takes no value has none.
		{in: []string{"probe", "-json", "-api", "x"}, want: []string{"probe", "--json", "--api", "x"}},
		// Numbers, single dashes and what follows a double dash.
		{in: []string{"fake", "-dim", "-5"}, want: []string{"fake", "--dim", "-5"}},
		{in: []string{"fake", "-5", "-.5", "-"}, want: []string{"fake", "-5", "-.5", "-"}},
		{in: []string{"probe", "-json", "--", "-api"}, want: []string{"probe", "--json", "--", "-api"}},
		// Help keeps its short form; unknown flags become long ones.
		{in: []string{"-h"}, want: []string{"-h"}},
		{in: []string{"-help"}, want: []string{"--help"}},
		{in: []string{"probe", "-x", "-json"}, want: []string{"probe", "--x", "--json"}},
		{in: []string{"nothing", "-api", "-json"}, want: []string{"nothing", "--api", "--json"}},
		// The word that is being completed stays.
		{in: []string{"__complete", "probe", "-api", ""}, want: []string{"__complete", "probe", "--api", ""}},
		{in: []string{"__complete", "probe", "-ap"}, want: []string{"__complete", "probe", "-ap"}},
	} {
		require.Equal(t, c.want, doubleDashes(newRoot(), c.in), "%q", c.in)
	}
}

func TestOneLine(t *testing.T) {
	require.Equal(t, "a; b \uFFFD[31m", oneLine("a\n\n  b\t\x1b[31m\r\n"))
	require.Equal(t, "x\uFFFDy\uFFFD", oneLine("x\u202ey\u009b"))
}

func TestConfigErrorsNameFlags(t *testing.T) {
	o := fakeFlags{listen: "127.0.0.1:0", fakeConfig: fakeConfig{usage: "off"}}
	o.config.MaxModelLen = -1
	_, _, err := o.server()
	require.EqualError(t, err, "-max-model-len: -1 is not between 0 and 1073741824")
	o.config.MaxModelLen, o.config.ITL = 0, -1
	_, _, err = o.server()
	require.EqualError(t, err, "-itl: -1ns is not between 0 and 1h0m0s")
}

func TestIsLoopback(t *testing.T) {
	for _, host := range []string{"localhost", "a.localhost", "127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"} {
		require.True(t, isLoopback(host), host)
	}
	for _, host := range []string{"", "0.0.0.0", "::", "10.0.0.1", "example.com", "localhost.example.com", "127.0.0.1.example.com"} {
		require.False(t, isLoopback(host), host)
	}
}
