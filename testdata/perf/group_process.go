package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"time"
)

var transports = group{
	name: "memnet",
	rows: []row{
		{id: "memnet-trip", what: "in-memory transport ÷ loopback TCP: round trip", atMost: true, must: 0.65, aim: none},
		{id: "memnet-event", what: "in-memory transport ÷ loopback TCP: CPU per event", atMost: true, must: 0.1, aim: none},
	},
	open: func(m *machine) (*session, error) {
		round := func(s *sheet, n int) error {
			var found [2]memnetResult // TCP, memory
			for _, i := range rotated([]int{0, 1}, n) {
				// Both ends are the client here, so both are on its processor.
				if err := m.client(&memnetClient{TCP: i == 0, For: 500 * time.Millisecond}, &found[i]); err != nil {
					return err
				}
				s.bench("Transport/transport="+[]string{"tcp", "memnet"}[i], found[i].RoundTrip, "ns/op", found[i].EventCPU, "cpu-ns/event")
			}
			s.add("memnet-trip", found[1].RoundTrip/found[0].RoundTrip)
			s.add("memnet-event", found[1].EventCPU/found[0].EventCPU)
			return nil
		}
		return &session{round, func() {}}, nil
	},
}

var recording = group{
	name: "recording",
	rows: []row{
		{id: "record-ns", what: "recording, time per event, 64 events a write", unit: "ns", atMost: true, must: 1, aim: none},
		{id: "record-one-ns", what: "recording, time per event, 1 event a write", unit: "ns", atMost: true, must: none, aim: none},
		{id: "record-bytes", what: "recording, memory per event", unit: "B", atMost: true, must: 8, aim: none},
	},
	open: func(m *machine) (*session, error) {
		test, err := buildTest("pkg/client")
		if err != nil {
			return nil, err
		}
		round := func(s *sheet, n int) error {
			var r recordResult
			if err := m.client(&recordClient{}, &r); err != nil {
				return err
			}
			s.bench("Record", r.PerEvent, "B/event")
			s.add("record-bytes", hundredths(r.PerEvent))
			out, err := test.run(m.clientCPU, "-test.run=^$", "-test.bench=^BenchmarkRecord$", "-test.benchtime=500ms")
			if err != nil {
				return err
			}
			for _, way := range []struct{ events, id string }{{"64-events", "record-ns"}, {"one-event", "record-one-ns"}} {
				ns, err := numbers(out, `way=`+way.events+`\S*\s+[0-9]+\s+([0-9.]+) ns/event`)
				if err != nil {
					return err
				}
				s.bench("Record/way="+way.events, ns[0], "ns/event")
				s.add(way.id, ns[0])
			}
			return nil
		}
		return &session{round, test.remove}, nil
	},
}

var virtualTime = group{
	name: "virtual",
	rows: []row{
		{id: "virtual-error", what: "virtual time, 1,000 streams x 147 gaps: largest error", unit: "ns", atMost: true, must: 0, aim: none},
		{id: "virtual-real", what: "virtual time, 1,000 streams x 147 gaps: real time", unit: "s", atMost: true, must: 2, aim: none},
	},
	open: func(m *machine) (*session, error) {
		test, err := buildTest("testdata/perf")
		if err != nil {
			return nil, err
		}
		round := func(s *sheet, n int) error {
			out, err := test.run(anywhere, "-test.run=^TestVirtualTime$", "-test.v")
			if err != nil {
				return err
			}
			v, err := numbers(out, `largest error ([0-9]+) ns, ([0-9.]+) s`)
			if err != nil {
				return err
			}
			s.bench("Virtual", v[0], "error-ns", v[1], "real-s")
			s.add("virtual-error", v[0])
			s.add("virtual-real", v[1])
			return nil
		}
		return &session{round, test.remove}, nil
	},
}

var gateSpeed = group{
	name: "gate",
	rows: []row{
		{id: "gate-time", what: "gate: time for 1 million result lines", unit: "s", atMost: true, must: 10, aim: none},
		{id: "gate-memory", what: "gate: memory for 1 million result lines", unit: "MiB", atMost: true, must: 500, aim: none},
	},
	open: func(m *machine) (*session, error) {
		test, err := buildTest("pkg/gate")
		if err != nil {
			return nil, err
		}
		round := func(s *sheet, n int) error {
			// The test fails when it misses its limits; what it says counts here.
			out, failed := test.run(anywhere, "-test.run=^TestMillionLines$", "-test.v")
			v, err := numbers(out, `1 million lines in ([0-9.]+) s and ([0-9]+) MiB`)
			if err != nil && failed != nil {
				return failed
			}
			if err != nil {
				return err
			}
			s.bench("Gate/lines=1000000", v[0], "real-s", v[1], "MiB")
			s.add("gate-time", v[0])
			s.add("gate-memory", v[1])
			return nil
		}
		return &session{round, test.remove}, nil
	},
}

// A binary is built for a group: a program, or a package's tests for what cannot be measured from outside.
type binary struct{ exe, dir string }

// root is this repository, seen from the folder that this program runs in.
const root = "../.."

func buildTest(pkg string) (*binary, error) { return goBuild(filepath.Join(root, pkg), "test", "-c") }

func build(dir string) (*binary, error) { return goBuild(dir, "build", "-buildvcs=false") }

// goBuild builds what is in a folder, with what that folder's go.mod says.
func goBuild(dir string, args ...string) (*binary, error) {
	tmp, err := os.MkdirTemp("", "tokpace-perf-")
	if err != nil {
		return nil, err
	}
	b := &binary{exe: filepath.Join(tmp, "perf.bin"), dir: dir}
	cmd := exec.Command("go", append(args, "-o", b.exe, ".")...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		b.remove()
		return nil, fmt.Errorf("go %s in %s: %w: %s", args[0], dir, err, bytes.TrimSpace(out))
	}
	return b, nil
}

func (b *binary) run(cpu int, args ...string) (out []byte, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), childLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, b.exe, args...)
	cmd.Dir = b.dir
	cmd.Env = append(os.Environ(), "PERF=1")
	var both bytes.Buffer
	cmd.Stdout, cmd.Stderr = &both, &both
	if err := start(cpu, cmd); err != nil {
		return nil, err
	}
	if err := cmd.Wait(); err != nil {
		return both.Bytes(), childError(err, both.Bytes())
	}
	return both.Bytes(), nil
}

func (b *binary) remove() { _ = os.RemoveAll(filepath.Dir(b.exe)) }

// numbers finds a pattern and reads its groups.
func numbers(text []byte, pattern string) ([]float64, error) {
	found := regexp.MustCompile(pattern).FindSubmatch(text)
	if found == nil {
		return nil, fmt.Errorf("no %q in %q", pattern, text)
	}
	values := make([]float64, 0, len(found)-1)
	for _, f := range found[1:] {
		v, err := strconv.ParseFloat(string(f), 64)
		if err != nil {
			return nil, err
		}
		values = append(values, v)
	}
	return values, nil
}
