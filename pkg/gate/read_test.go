package gate

import (
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf16"

	"github.com/stretchr/testify/require"
)

const header = "goos: linux\ngoarch: amd64\npkg: example.test/b\n"

// readSet reads one text as one file, byte by byte every other time.
func readSet(t *testing.T, texts ...string) *Set {
	t.Helper()
	s := &Set{}
	for i, text := range texts {
		var r io.Reader = strings.NewReader(text)
		if i%2 == 1 {
			r = iotest.OneByteReader(r)
		}
		require.NoError(t, s.Read(r, "f.txt"))
	}
	return s
}

func (s *Set) at(t *testing.T, name, unit string) *series {
	t.Helper()
	for _, b := range s.benches {
		if b.name == name {
			if col := b.find(unit); col != nil {
				return col
			}
		}
	}
	require.Fail(t, "not there", "%s %s", name, unit)
	return nil
}

func toUTF16(s string, order binary.ByteOrder, bom bool) string {
	var b []byte
	if bom {
		s = "\ufeff" + s
	}
	for _, u := range utf16.Encode([]rune(s)) {
		b = order.(binary.AppendByteOrder).AppendUint16(b, u)
	}
	return string(b)
}

// TestEncodings: the same results in every form that editors and shells make.
func TestEncodings(t *testing.T) {
	text := header + "# größer 😀\nBenchmarkA-8 10 1 ns/op\nBenchmarkÄ/x=😀-8\t10\t2 ns/op\n"
	crlf := strings.ReplaceAll(text, "\n", "\r\n")
	for name, in := range map[string]string{
		"plain":                  text,
		"byte order mark":        "\ufeff" + text,
		"CRLF":                   crlf,
		"CRLF twice":             strings.ReplaceAll(text, "\n", "\r\r\n"),
		"no end of last line":    strings.TrimSuffix(text, "\n"),
		"joined":                 "\ufeff" + header + "\n\ufeff" + text,
		"UTF-16 little":          toUTF16(crlf, binary.LittleEndian, true),
		"UTF-16 big":             toUTF16(crlf, binary.BigEndian, true),
		"UTF-16 little, no mark": toUTF16(text, binary.LittleEndian, false),
		"UTF-16 big, no mark":    toUTF16(text, binary.BigEndian, false),
	} {
		t.Run(name, func(t *testing.T) {
			for _, r := range []io.Reader{strings.NewReader(in), iotest.OneByteReader(strings.NewReader(in)), iotest.DataErrReader(strings.NewReader(in))} {
				s := &Set{}
				require.NoError(t, s.Read(r, "f.txt"))
				require.Equal(t, []float64{1e-9}, s.at(t, "A-8", "sec/op").values)
				require.Equal(t, []float64{2e-9}, s.at(t, "Ä/x=😀-8", "sec/op").values)
				require.Equal(t, []config{{"goos": "linux", "goarch": "amd64", "pkg": "example.test/b"}}, s.configs)
			}
		})
	}
}

// TestLogTextIsSkipped: what is no result does no harm, at any length.
func TestLogTextIsSkipped(t *testing.T) {
	for name, noise := range map[string]string{
		"long line":        strings.Repeat("x", 200_000),
		"long CRLF line":   strings.Repeat("x", 200_000) + "\r",
		"lines of 64 KiB":  strings.Repeat("x", 65533) + "\n" + strings.Repeat("y", 65534) + "\n" + strings.Repeat("z", 65535) + "\n" + strings.Repeat("z", 65536),
		"a word":           "Benchmarking 3 servers now",
		"another":          "Benchmark of 3 servers",
		"long word":        "Benchmarking" + strings.Repeat("x", 70_000),
		"name of -v":       "BenchmarkA",
		"notes":            "--- BENCH: BenchmarkA-8\n    a_test.go:43: p99 of 2 samples",
		"end":              "PASS\nok  \texample.test/b\t0.144s",
		"log line":         "2026/11/30 12:00:00 http: superfluous WriteHeader call",
		"sentence of logs": "took BenchmarkA-8 for 10 times",
	} {
		t.Run(name, func(t *testing.T) {
			s := readSet(t, header+"BenchmarkA-8 10 1 ns/op\n"+noise+"\nBenchmarkA-8 10 2 ns/op\n"+noise)
			require.Equal(t, []float64{1e-9, 2e-9}, s.at(t, "A-8", "sec/op").values)
		})
	}
}

// TestLongResultLine: a line of just under 64 KiB is read.
func TestLongResultLine(t *testing.T) {
	line := "BenchmarkA-8 10" + strings.Repeat(" ", 65_500) + "1 ns/op"
	s := readSet(t, line+"\n"+line)
	require.Len(t, s.at(t, "A-8", "sec/op").values, 2)
}

// TestDamageIsAnError: each text would lose a sample if read on.
func TestDamageIsAnError(t *testing.T) {
	good := header + "BenchmarkA-8 10 1 ns/op\n" // 4 lines
	for _, c := range []struct{ name, text, want string }{
		{"log inside a result", good + "BenchmarkA-8   \t2026/11/30 log\n       2\t 1017 ns/op\n", "f.txt:5: parsing iteration count"},
		{"log behind a name", good + "BenchmarkA-8   \t\nlog\n       2\t 1017 ns/op\n", "f.txt:5: "},
		{"result without name", good + "log\n       2\t 1017 ns/op\n", "f.txt:6: a result has lost its name"},
		{"log before a result", good + "2026/11/30 log BenchmarkA-8 \t 10\t 240 ns/op\n", "f.txt:5: a result has other text before it"},
		{"log before a result, far", good + strings.Repeat("x", 100_000) + "BenchmarkA-8 \t 10\t 240 ns/op\n", "f.txt:5: a result has other text before it"},
		{"log after a result", good + "BenchmarkA-8 10 240 ns/op2026/11/30 http: error\n", "f.txt:5: parsing measurement"},
		{"cut", good + "BenchmarkA-8 10 240", "f.txt:5: missing units"},
		{"long result", good + "BenchmarkA-8 10" + strings.Repeat(" 1 ns/op", 10_000) + "\n", "f.txt:5: line is longer than 64 KiB"},
		{"failed", good + "--- FAIL: BenchmarkB-8\n", "f.txt:5: a run failed: --- FAIL: BenchmarkB-8"},
		{"sub failed", good + "    --- FAIL: BenchmarkB/x-8\n", "f.txt:5: a run failed"},
		{"no build", good + "FAIL\texample.test/c [build failed]\n", "f.txt:5: a run failed: FAIL\texample.test/c [build failed]"},
		{"bad mark", good + "# tokpace-pair x BA\n", "f.txt:5: "},
		{"mark of no order", good + "# tokpace-pair 7\n", "f.txt:5: "},
		{"two orders", "# tokpace-pair 7 AB\n" + good + "# tokpace-pair 7 BA\nBenchmarkA-8 10 1 ns/op\n", "f.txt:6: pair 7 is BA here and AB before"},
		{"direction", good + "Unit score better=up\n", "f.txt:5: better=up: want higher or lower"},
		{"assumption", good + "Unit score assume=normal\n", "f.txt:5: assume=normal: want exact or nothing"},
		{"contradiction", good + "Unit score better=lower\nUnit score better=higher\n", "f.txt:6: metadata better of unit score already set to lower"},
		{"Latin-1", header + "# gr\xf6\xdfer\n", "f.txt:4: text is neither UTF-8 nor UTF-16"},
		{"half a character", "\xff\xfeB\x00e", "f.txt:1: UTF-16 text ends in the middle"},
		{"empty", "", "f.txt: no benchmark result"},
		{"no result", header + "PASS\n", "f.txt: no benchmark result"},
		{"JSON", `{"Time":"2026-11-30T12:00:00Z","Action":"output","Output":"BenchmarkA-8 \t 10\t 1 ns/op\n"}` + "\n", "f.txt: no benchmark result: this is go test -json"},
		{"endless line", strings.Repeat("x", 20<<20), "f.txt:1: line is longer than 16 MiB"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := (&Set{}).Read(strings.NewReader(c.text), "f.txt")
			var e *InputError
			require.ErrorAs(t, err, &e)
			require.True(t, strings.HasPrefix(err.Error(), c.want), "%v", err)
		})
	}
	broken := errors.New("disk on fire")
	err := (&Set{}).Read(io.MultiReader(strings.NewReader(good), iotest.ErrReader(broken)), "f.txt")
	require.ErrorContains(t, err, "disk on fire")
}

// TestZeroKeepsItsUnit: benchfmt leaves a 0 in ns, and so in another row.
func TestZeroKeepsItsUnit(t *testing.T) {
	s := readSet(t, "BenchmarkA-8 10 5 ttft-ns 0 MB/s\nBenchmarkA-8 10 0 ttft-ns 4 MB/s\n")
	require.Equal(t, []float64{5e-9, 0}, s.at(t, "A-8", "ttft-sec").values)
	require.Equal(t, []float64{0, 4e6}, s.at(t, "A-8", "B/s").values)
}

func TestNonFiniteIsKeptApart(t *testing.T) {
	s := readSet(t, "BenchmarkA-8 10 5 ns/op\nBenchmarkA-8 10 +Inf ns/op\nBenchmarkA-8 10 NaN ns/op\n")
	col := s.at(t, "A-8", "sec/op")
	require.Equal(t, []float64{5e-9}, col.values)
	require.Equal(t, 2, col.nonFinite)
	require.Equal(t, "+Inf ns/op at f.txt:2", col.first)
}

func TestMarksPairSamples(t *testing.T) {
	file := "BenchmarkA-8 1 1 x\n# tokpace-pair 1 AB\nBenchmarkA-8 1 2 x\nlog\nBenchmarkB-8 1 2 x\n# tokpace-pair 2 BA\n# tokpace-pair 3 AB\nBenchmarkA-8 1 3 x\n"
	s := readSet(t, file, file)
	require.True(t, s.loose)
	require.Equal(t, []int32{0, 1, 3, 0, 4, 6}, s.at(t, "A-8", "x").pairs)
	require.Equal(t, []int32{1, 4}, s.at(t, "B-8", "x").pairs)
	require.Equal(t, []pair{{1, 1, "AB"}, {1, 2, "BA"}, {1, 3, "AB"}, {2, 1, "AB"}, {2, 2, "BA"}, {2, 3, "AB"}}, s.pairs)
}

// TestDefinitionsEndWithTheirPackage: in the output of ./... the next package
// may be of somebody else.
func TestDefinitionsEndWithTheirPackage(t *testing.T) {
	s := readSet(t, "harness-metrics: v1\npkg: a\nBenchmarkA-8 1 2 x\nPASS\nok  \ta\t0.1s\npkg: b\nBenchmarkB-8 1 2 x\n")
	require.Equal(t, []config{{"harness-metrics": "v1", "pkg": "a"}, {"pkg": "b"}}, s.configs)
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(header + "BenchmarkA-8 10 1 ns/op\n# tokpace-pair 1 AB\nUnit x better=lower\n"))
	f.Add([]byte(toUTF16("BenchmarkA 1 1 x", binary.BigEndian, true)))
	f.Fuzz(func(t *testing.T, data []byte) {
		s := &Set{}
		if s.Read(strings.NewReader(string(data)), "f") == nil {
			require.NotEmpty(t, s.benches)
			require.NoError(t, Compare(s, s, nil).WriteText(io.Discard))
		}
	})
}
