package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"tokpace": main})
}

// TestScript runs the command as its users do. Beside testscript's own commands
// there are:
//
//	fake [FLAGS]       start `tokpace fake` on a free port, and set $URL and $ADDR, with -admin $ADMIN
//	endfake SIGNAL     send SIGTERM or SIGINT; it must exit with 0 and say nothing more
//	code N ARGS…       run tokpace: exit code N, one line on stderr if not 0, no stdout if 2
//	ab N ARGS…         run tokpace ab: exit code N, the last line of stderr is the error if not 0
//	http N METHOD URL [FILE [HEADER]]  send a request, with the file as its body; the answer is of status N and goes to stdout
//	[!] json KEY [VAL] stdout is one line of JSON that has (not) KEY, as VAL
func TestScript(t *testing.T) {
	out, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	cache := strings.TrimSpace(string(out))
	testscript.Run(t, testscript.Params{
		Dir:                "testdata/script",
		ContinueOnError:    true,
		RequireUniqueNames: true,
		Setup: func(e *testscript.Env) error {
			e.Values[fakeKey{}] = &fakeProcess{}
			e.Setenv("GORACE", "atexit_sleep_ms=0") // else each process of a -race run sleeps for a second
			// For those that build and commit, whatever the user's settings are.
			for _, kv := range []string{
				"GOCACHE=" + cache, "GOFLAGS=-ldflags=-w", "GOPROXY=off", "GOWORK=off", "GOTOOLCHAIN=local",
				"GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_CONFIG_SYSTEM=" + os.DevNull,
				"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com",
			} {
				name, value, _ := strings.Cut(kv, "=")
				e.Setenv(name, value)
			}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"fake": startFake, "endfake": endFake, "code": wantCode, "ab": wantABCode, "json": wantJSON, "http": doHTTP,
		},
	})
}

type fakeKey struct{}

type fakeProcess struct {
	cmd  *exec.Cmd
	rest chan string // what it said after the first line
}

var serving = regexp.MustCompile(`^serving (http://(\S+)/v1), Ctrl-C ends it\n$`)

var administered = regexp.MustCompile(`^admin (http://\S+)/fake/\n$`)

func startFake(ts *testscript.TestScript, neg bool, args []string) {
	cmd := exec.Command("tokpace", append([]string{"fake", "-listen", "127.0.0.1:0"}, args...)...)
	cmd.Dir = ts.MkAbs(".")
	stderr, err := cmd.StderrPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	p := ts.Value(fakeKey{}).(*fakeProcess)
	said := make(chan string, 1)
	p.cmd, p.rest = cmd, said
	ts.Defer(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
	r := bufio.NewReader(stderr)
	line, err := r.ReadString('\n')
	ts.Check(err)
	if m := administered.FindStringSubmatch(line); m != nil {
		ts.Setenv("ADMIN", m[1])
		line, err = r.ReadString('\n')
		ts.Check(err)
	}
	m := serving.FindStringSubmatch(line)
	if m == nil {
		ts.Fatalf("fake said %q", line)
	}
	ts.Setenv("URL", m[1])
	ts.Setenv("ADDR", m[2])
	go func() {
		rest, _ := io.ReadAll(r)
		said <- string(rest)
	}()
}

func endFake(ts *testscript.TestScript, neg bool, args []string) {
	sig := map[string]os.Signal{"SIGTERM": syscall.SIGTERM, "SIGINT": os.Interrupt}[args[0]]
	p := ts.Value(fakeKey{}).(*fakeProcess)
	ts.Check(p.cmd.Process.Signal(sig))
	if rest := <-p.rest; rest != "" {
		ts.Fatalf("fake said more: %q", rest)
	}
	ts.Check(p.cmd.Wait()) // an error if the code is not 0
}

func wantCode(ts *testscript.TestScript, neg bool, args []string) {
	if code := exitCode(ts, args[1:]); code != args[0] {
		ts.Fatalf("exit code %s, want %s", code, args[0])
	}
	if stderr := ts.ReadFile("stderr"); args[0] != "0" {
		if !strings.HasPrefix(stderr, "tokpace: ") || strings.Count(stderr, "\n") != 1 || !strings.HasSuffix(stderr, "\n") {
			ts.Fatalf("stderr is not one line of ours: %q", stderr)
		}
	}
	if stdout := ts.ReadFile("stdout"); args[0] == "2" && stdout != "" {
		ts.Fatalf("wrong use, and yet on stdout: %q", stdout)
	}
}

var abError = regexp.MustCompile(`(?m)^tokpace: .*$`)

func wantABCode(ts *testscript.TestScript, neg bool, args []string) {
	if code := exitCode(ts, append([]string{"ab"}, args[1:]...)); code != args[0] {
		ts.Fatalf("exit code %s, want %s", code, args[0])
	}
	stderr := ts.ReadFile("stderr")
	switch found := abError.FindAllString(stderr, -1); {
	case args[0] == "0" && found != nil:
		ts.Fatalf("an error, and yet exit code 0: %q", stderr)
	case args[0] != "0" && (len(found) != 1 || !strings.HasSuffix(stderr, found[0]+"\n")):
		ts.Fatalf("stderr does not end in one error: %q", stderr)
	}
	if stdout := ts.ReadFile("stdout"); args[0] == "2" && stdout != "" {
		ts.Fatalf("it failed, and yet on stdout: %q", stdout)
	}
}

// exitCode runs tokpace.
func exitCode(ts *testscript.TestScript, args []string) string {
	err := ts.Exec("tokpace", args...)
	if e, ok := err.(*exec.ExitError); ok {
		return strings.TrimPrefix(e.ProcessState.String(), "exit status ")
	}
	ts.Check(err)
	return "0"
}

func doHTTP(ts *testscript.TestScript, neg bool, args []string) {
	var body io.Reader
	if len(args) > 3 {
		body = strings.NewReader(ts.ReadFile(args[3]))
	}
	req, err := http.NewRequest(args[1], args[2], body)
	ts.Check(err)
	if len(args) > 4 {
		name, value, _ := strings.Cut(args[4], ": ")
		req.Header.Set(name, value)
		if name == "Host" {
			req.Host = value
		}
	}
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	ts.Check(err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	ts.Check(err)
	_, err = ts.Stdout().Write(text)
	ts.Check(err)
	if got := strconv.Itoa(res.StatusCode); got != args[0] {
		ts.Fatalf("status %s, want %s: %s", got, args[0], text)
	}
}

func wantJSON(ts *testscript.TestScript, neg bool, args []string) {
	out := ts.ReadFile("stdout")
	if strings.Count(out, "\n") != 1 || !strings.HasSuffix(out, "\n") {
		ts.Fatalf("stdout is not one line: %q", out)
	}
	var value any
	dec := json.NewDecoder(strings.NewReader(out))
	dec.UseNumber()
	ts.Check(dec.Decode(&value))
	known := true
	for key := range strings.SplitSeq(args[0], ".") {
		object, _ := value.(map[string]any)
		if value, known = object[key]; !known {
			break
		}
	}
	if known == neg {
		ts.Fatalf("%s: present is %v in %s", args[0], known, out)
	}
	if neg || len(args) == 1 {
		return
	}
	var got bytes.Buffer
	enc := json.NewEncoder(&got)
	enc.SetEscapeHTML(false)
	ts.Check(enc.Encode(value))
	if s := strings.TrimSpace(got.String()); s != args[1] {
		ts.Fatalf("%s is %s, want %s", args[0], s, args[1])
	}
}
