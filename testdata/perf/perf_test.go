package main

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestVerdicts(t *testing.T) {
	more := row{must: 6, aim: 12}
	less := row{atMost: true, must: 20, aim: 4}
	for _, c := range []struct {
		r    row
		v    float64
		want string
	}{
		{more, 5.9, missed}, {more, 6, "ok, aim missed"}, {more, 12, "aim"},
		{less, 20.1, missed}, {less, 20, "ok, aim missed"}, {less, 4, "aim"},
		{row{must: 6, aim: none}, 7, "ok"}, {row{must: none, aim: none}, 7, "measured"},
		// A division by what was not there is no success.
		{more, math.NaN(), missed}, {less, math.NaN(), missed},
	} {
		if got := c.r.verdict(c.v); got != c.want {
			t.Errorf("%+v: %v is %q, want %q", c.r, c.v, got, c.want)
		}
	}
}

func TestExitDependsOnRows(t *testing.T) {
	one := []group{{rows: []row{{id: "a", must: 6, aim: 12}, {id: "b", must: none, aim: none}}}}
	s := newSheet()
	if _, lack := s.failed(one); !lack {
		t.Error("nothing was measured, and nothing is lacking")
	}
	for _, v := range []float64{5, 6, 7} {
		s.add("a", v)
		s.add("b", v)
	}
	if miss, lack := s.failed(one); miss || lack {
		t.Error("the median is 6")
	}
	s.add("a", 1)
	s.add("a", 2)
	if miss, _ := s.failed(one); !miss {
		t.Error("the median is 5")
	}
	s.lackTool("b", "wrk")
	if _, lack := s.failed(one); !lack {
		t.Error("a peer is lacking")
	}
	if table := s.table(one); !strings.Contains(table, "wrk is not installed: make perf-tools | not measured |") {
		t.Error(table)
	}
}

func TestIdleEnough(t *testing.T) {
	for _, c := range []struct {
		lost []float64
		load string
		want bool
	}{
		{[]float64{0.01, 0.02, 0.01}, "0.70 3.1 4.2 1/80 7", true},
		{[]float64{0.01, 0.02, 0.01}, "1.01 3.1 4.2 1/80 7", false},
		{[]float64{0.01, 0.02, 0.01}, "unknown", false},
		{[]float64{0.06, 0.07, 0.01}, "0.00", false},
		{[]float64{0.01, 0.01, 0.5}, "0.00", false},
		{[]float64{0.01, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01, 0.5}, "0.00", true},
	} {
		i := idleness{lost: c.lost}
		if i.begin(c.load); i.enough() != c.want {
			t.Errorf("%v with load %s: %v", c.lost, c.load, !c.want)
		}
	}
}

func TestSpread(t *testing.T) {
	if s := spreadOf([]float64{3, 1, 2}); s != (spread{2, 1, 3}) {
		t.Error(s)
	}
	if s := spreadOf([]float64{4, 1, 2, 3}); s != (spread{2.5, 1, 4}) {
		t.Error(s)
	}
	values := make([]int64, 100)
	for i := range values {
		values[i] = int64(100 - i)
	}
	for p, want := range map[int]int64{50: 50, 99: 99, 100: 100} {
		if got := percentile(values, p); got != want {
			t.Errorf("p%d is %d", p, got)
		}
	}
	if got := percentile([]int64{7}, 50); got != 7 {
		t.Error(got)
	}
}

func TestShow(t *testing.T) {
	for v, want := range map[float64]string{12.345: "12.3 µs", 1234.5: "1234 µs", 0.5: "0.5 µs", 0.25: "0.25 µs", 0.0456: "0.046 µs", 0: "0 µs", 20: "20 µs", 100: "100 µs"} {
		if got := (row{unit: "µs"}).show(v); got != want {
			t.Errorf("%v is shown as %q, want %q", v, got, want)
		}
	}
}

// All events have the size that the promises speak of, and say valid JSON.
func TestEvents(t *testing.T) {
	const n = 3
	events := tokenEvents(n)
	if len(events) != 1+n+2 || len(events[1]) != 258 {
		t.Fatalf("%d events, one has %d bytes", len(events), len(events[1]))
	}
	for _, e := range events[:len(events)-1] {
		data, ok := bytes.CutPrefix(e, dataPrefix)
		if !ok || !json.Valid(bytes.TrimSpace(data)) {
			t.Errorf("%q", e)
		}
	}
	if size := len(embeddingsJSON()); size < 8800 || size > 9000 || !json.Valid(embeddingsJSON()) {
		t.Errorf("embeddings of %d bytes", size)
	}
}

func TestStamps(t *testing.T) {
	e := newStampedEvent(eventClose)
	putStamp(e.stamp, 123456789)
	if !bytes.Contains(e.bytes, []byte(`"content":"00000000000123456789"`)) {
		t.Fatalf("%q", e.bytes)
	}
	got, err := stampsOf("0000000000012345678900000000000000000002", 2)
	if err != nil || !slices.Equal(got, []int64{123456789, 2}) {
		t.Error(got, err)
	}
	if _, err := stampsOf("000", 1); err == nil {
		t.Error("a short text has stamps")
	}
}

// What a client reads of an answer is all of it, however the bytes come.
func TestWireExchange(t *testing.T) {
	for _, secondWrite := range []int{0, 1, 40, 200} {
		whole := bytes.Join(streamAnswer(100), nil)
		url, err := serveWires(false, func(c *wire) error {
			for {
				r, err := c.request()
				if err != nil {
					return err
				}
				if string(r.body) != "body" {
					t.Errorf("request %q %q", r.head, r.body)
				}
				cut := len(whole) - secondWrite
				if _, err := c.Write(whole[:cut]); err != nil {
					return err
				}
				if _, err := c.Write(whole[cut:]); err != nil {
					return err
				}
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		c, err := dial(url)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if n, err := c.exchange(asRequest("/", []byte("body"))); err != nil || n != len(whole) {
				t.Fatalf("%d bytes of %d: %v", n, len(whole), err)
			}
		}
		c.Close()
	}
}

func TestRates(t *testing.T) {
	out := "Running 1s test\n  1 threads and 64 connections\nRequests/sec:  46231.07\nTransfer/sec: 1MB\n"
	if v, err := rateIn("wrk", out); err != nil || v != 46231.07 {
		t.Error(v, err)
	}
	for _, bad := range []string{"", out + "  Non-2xx or 3xx responses: 7\n", out + "  Socket errors: connect 0, read 3, write 0, timeout 0\n"} {
		if _, err := rateIn("wrk", bad); err == nil {
			t.Errorf("%q is a rate", bad)
		}
	}
}

func TestZero(t *testing.T) {
	z := newZero()
	if clock() == 0 {
		t.Skip("no clock here")
	}
	for range 100 {
		before := clock()
		at := z.of(time.Now())
		after := clock()
		if const10us := int64(10_000); at < before-const10us || at > after+const10us {
			t.Errorf("%d is not within %d and %d", at, before, after)
		}
	}
}

func TestFileIsBenchmarkText(t *testing.T) {
	s := newSheet()
	s.bench("SSE/client=tokpace", 5.25e6, "events/s", int64(190), "cpu-ns/event")
	text := file("head\nmore", "| a |\n", s.lines)
	if !strings.HasPrefix(text, "# head\n# more\n#\n# | a |\n\ngoos: ") || !strings.HasSuffix(text, "BenchmarkSSE/client=tokpace 1\t5.25e+06 events/s\t190 cpu-ns/event\n") {
		t.Errorf("%q", text)
	}
}

// README's table has every promise, and what the last run that is kept measured.
func TestReadmeTable(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	name, kept, err := lastRun()
	if err != nil {
		t.Fatal(err)
	}
	table, err := promises(kept)
	if err != nil {
		t.Fatal(name, err)
	}
	if !bytes.Contains(readme, []byte(tableBegin+table+tableEnd)) {
		t.Errorf("README's table is not that of the rows here and of %q: go run . -readme", name)
	}
}

func TestPromises(t *testing.T) {
	s := newSheet()
	for _, g := range groups {
		for _, r := range g.rows {
			s.add(r.id, 1)
		}
	}
	bare, err := promises("")
	if err != nil {
		t.Fatal(err)
	}
	full, err := promises(file("head", s.table(groups), nil))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(bare, "\n") != strings.Count(full, "\n") || strings.Contains(full, notMeasured) || !strings.Contains(full, " 1 [1–1] |") {
		t.Errorf("%s\n%s", bare, full)
	}
	if _, err := promises("# | something else |\n"); err == nil {
		t.Error("a run without the rows passes")
	}
	seen := map[string]bool{}
	for _, g := range groups {
		for _, r := range g.rows {
			if seen[r.what] || seen[r.id] {
				t.Errorf("%s is there twice", r.what)
			}
			seen[r.what], seen[r.id] = true, true
		}
	}
}
