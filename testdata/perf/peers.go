package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

var errNoTool = errors.New("not installed")

// A toolLoad is what a peer is asked to send: the same request on so many connections for a while.
type toolLoad struct {
	url   string
	body  []byte
	conns int
	d     time.Duration
}

// toolRate runs a peer and returns the answers per second.
func (m *machine) toolRate(name string, l toolLoad) (float64, error) {
	path := findTool(name)
	if path == "" {
		return 0, errNoTool
	}
	dir, err := os.MkdirTemp("", "tokpace-perf-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if e := os.WriteFile(path, []byte(text), 0o600); e != nil {
			err = e
		}
		return path
	}
	body := file("body.json", string(l.body))
	conns, seconds := strconv.Itoa(l.conns), fmt.Sprintf("%ds", max(int(l.d.Seconds()), 1))
	var out []byte
	switch name {
	case "wrk":
		script := file("post.lua", fmt.Sprintf("wrk.method = \"POST\"\nwrk.headers[\"Content-Type\"] = \"application/json\"\nwrk.body = %s\n", luaString(l.body)))
		if err == nil {
			out, err = m.tool(path, "-t1", "-c"+conns, "-d"+seconds, "-s", script, l.url)
		}
	case "hey":
		if err == nil {
			out, err = m.tool(path, "-z", seconds, "-c", conns, "-cpus", "1", "-m", "POST", "-T", "application/json", "-D", body, l.url)
		}
	case "vegeta":
		targets := file("targets", "POST "+l.url+"\nContent-Type: application/json\n@"+body+"\n")
		results := filepath.Join(dir, "results")
		if err == nil {
			_, err = m.tool(path, "-cpus=1", "attack", "-targets="+targets, "-rate=0", "-workers="+conns, "-max-workers="+conns, "-duration="+seconds, "-output="+results)
		}
		if err == nil {
			return m.vegetaRate(path, results)
		}
	}
	if err != nil {
		return 0, err
	}
	return rateIn(name, string(out))
}

var requestsPerSecond = regexp.MustCompile(`Requests/sec:\s+([0-9.]+)`)

// rateIn reads what wrk and hey say. What they count as answers must all be good ones.
func rateIn(name, out string) (float64, error) {
	for _, bad := range []string{"Non-2xx", "Socket errors", "Error distribution"} {
		if strings.Contains(out, bad) {
			return 0, fmt.Errorf("%s: %s", name, out)
		}
	}
	found := requestsPerSecond.FindStringSubmatch(out)
	if found == nil {
		return 0, fmt.Errorf("%s: no rate in %q", name, out)
	}
	return strconv.ParseFloat(found[1], 64)
}

func (m *machine) vegetaRate(path, results string) (float64, error) {
	out, err := m.tool(path, "report", "-type=json", results)
	if err != nil {
		return 0, err
	}
	var report struct {
		Throughput float64 `json:"throughput"`
		Success    float64 `json:"success"`
	}
	if err := json.Unmarshal(out, &report); err != nil {
		return 0, err
	}
	if report.Success < 0.999 {
		return 0, fmt.Errorf("vegeta: only a share of %v succeeded", report.Success)
	}
	return report.Throughput, nil
}

// luaString quotes JSON for Lua, in which it has no escapes of its own.
func luaString(b []byte) string { return "[==[" + string(b) + "]==]" }
