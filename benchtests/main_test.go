package benchtests

import (
	"flag"
	"testing"

	"example.com/tokpace/pkg/harness"
)

func init() { harness.RegisterFlags(flag.CommandLine, "tokpace.") }

func TestMain(m *testing.M) { harness.Main(m) }
