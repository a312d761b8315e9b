package main

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// doubleDashes rewrites long flags with a single dash, as the go command and its
// relatives have them, to the double dash that cobra wants. Values of flags,
// numbers, "-", and what follows "--" stay as they are.
func doubleDashes(root *cobra.Command, args []string) []string {
	if len(args) > 1 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) {
		// The shell asks how to go on after a command line; its last word is
		// being typed.
		last := len(args) - 1
		out := append([]string{args[0]}, doubleDashes(root, args[1:last])...)
		return append(out, args[last])
	}
	var (
		out     = make([]string, 0, len(args))
		cmd     = root
		isValue bool
	)
	for i, arg := range args {
		switch {
		case isValue:
			isValue = false
		case arg == "--":
			return append(out, args[i:]...)
		case !strings.HasPrefix(arg, "-"):
			if c, _, err := cmd.Find([]string{arg}); err == nil {
				cmd = c
			}
		default:
			name, _, hasValue := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(arg, "-"), "-"), "=")
			isValue = !hasValue && takesValue(cmd, name)
			if isLongFlag(arg) {
				arg = "-" + arg
			}
		}
		out = append(out, arg)
	}
	return out
}

// isLongFlag reports whether arg is a flag's name behind one dash: neither "-",
// nor a number, nor the one short flag there is.
func isLongFlag(arg string) bool {
	if len(arg) < 2 || arg == "-h" {
		return false
	}
	c := arg[1]
	return c != '-' && c != '.' && (c < '0' || c > '9')
}

func takesValue(cmd *cobra.Command, name string) bool {
	f := cmd.Flags().Lookup(name)
	return f != nil && f.NoOptDefVal == ""
}

var helpDashes = regexp.MustCompile(`(?m)^(\s+(?:-\w, )?)--`)

// flagHelp lists flags as they are meant to be typed.
func flagHelp(flags *pflag.FlagSet) string {
	return helpDashes.ReplaceAllString(flags.FlagUsages(), "$1-")
}

// wanted says what a flag of a type of pflag's wants.
var wanted = map[string]string{
	"bool":     "want true or false",
	"duration": "want a duration such as 90s or 5ms",
	"int":      "want a whole number",
	"uint64":   "want a whole number from 0 on",
}

// flagError explains what pflag did not understand.
func flagError(cmd *cobra.Command, err error) error {
	var (
		unknown *pflag.NotExistError
		missing *pflag.ValueRequiredError
		invalid *pflag.InvalidValueError
		see     = "see " + cmd.CommandPath() + " -h"
	)
	switch {
	case errors.As(err, &unknown):
		return fmt.Errorf("there is no flag -%s: %s", unknown.GetSpecifiedName(), see)
	case errors.As(err, &missing):
		return fmt.Errorf("-%s needs a value: %s", missing.GetSpecifiedName(), see)
	case errors.As(err, &invalid):
		want := wanted[invalid.GetFlag().Value.Type()]
		if want == "" {
			want = invalid.Unwrap().Error()
		}
		return fmt.Errorf("-%s: %q: %s", invalid.GetFlag().Name, invalid.GetValue(), want)
	}
	return fmt.Errorf("%w: %s", err, see)
}
