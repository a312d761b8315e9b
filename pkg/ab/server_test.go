//go:build unix

package ab_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"example.com/tokpace/pkg/ab"
	"example.com/tokpace/pkg/gate"

	"github.com/stretchr/testify/require"
)

// ofServer is the text of a test file whose benchmark reports what the server
// that it is told of answers.
const ofServer = `package benchtests

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
)

func TestMain(m *testing.M) {
	fmt.Println("Unit ns/op gate=off")
	fmt.Println("Unit value/op assume=exact")
	fmt.Println("# server", os.Getenv("TOKPACE_BASE_URL"), os.Getenv("TOKPACE_TARGET"), os.Getenv("TOKPACE_ALLOW_REMOTE"))
	fmt.Fprintln(os.Stderr, "server", os.Getenv("OPENAI_BASE_URL"))
	os.Exit(m.Run())
}

func BenchmarkValue(b *testing.B) {
	for b.Loop() {
	}
	res, err := http.Get(strings.TrimSuffix(os.Getenv("TOKPACE_BASE_URL"), "/") + "/value")
	if err != nil {
		b.Fatal(err)
	}
	text, _ := io.ReadAll(res.Body)
	v, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(v, "value/op")
}
`

// newServers is a module in no repository whose benchmark asks a server.
func newServers(t *testing.T) (r *repo, cfg ab.Config, stderr *bytes.Buffer) {
	r = &repo{t: t, root: t.TempDir(), tmp: t.TempDir()}
	t.Setenv("TMPDIR", r.tmp)
	t.Setenv("TOKPACE_TARGET", "fake")
	t.Setenv("OPENAI_BASE_URL", "http://stray.invalid")
	r.write("go.mod", "module example.com/m\n\ngo 1.24\n")
	r.write("benchtests/bench_test.go", ofServer)
	stderr = new(bytes.Buffer)
	return r, ab.Config{Dir: r.root, Out: "out", Iters: 1, Count: 2, Stderr: stderr}, stderr
}

func (r *repo) requireNoTemporaryFiles() {
	r.t.Helper()
	left, err := os.ReadDir(r.tmp)
	require.NoError(r.t, err)
	require.Empty(r.t, left)
}

func TestTargets(t *testing.T) {
	r, cfg, stderr := newServers(t)
	var order []string
	target := func(value string) string {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			order = append(order, value)
			_, pass, _ := req.BasicAuth()
			require.Equal(t, "sesame-9", pass)
			fmt.Fprint(w, value)
		}))
		t.Cleanup(srv.Close)
		return strings.Replace(srv.URL, "http://", "http://me:sesame-9@", 1) + "/v1"
	}
	cfg.BaseTarget, cfg.HeadTarget = target("3"), target("4")
	cfg.Redact = func(s string) string { return strings.ReplaceAll(s, "sesame-9", "…") }
	report, err := ab.Run(t.Context(), cfg)
	require.NoError(t, err)
	require.Equal(t, "1 changed, 1 not gated", report.Summary())
	require.Equal(t, "4 3 4 4 3", strings.Join(order, " "), "a trial, AB, BA")
	require.Regexp(t, `^building the benchmarks of the working tree\nexpected: 2 pairs, about \S+\n$`, stderr.String())
	require.Contains(t, r.read("out/base.txt"), strings.Replace(cfg.BaseTarget, "sesame-9", "…", 1)+"  1\n")
	for _, file := range []string{"base.txt", "head.txt", "ab.log"} {
		require.NotContains(t, r.read("out/"+file), "sesame", file)
	}
	require.Contains(t, r.read("out/ab.log"), "\nserver http://me:…@127.0.0.1:")
	r.requireNoTemporaryFiles()

	// Another password is the same server, another port is not.
	cfg.Resume, cfg.Count = true, 3
	other := cfg
	other.HeadTarget = target("4")
	_, err = ab.Run(t.Context(), other)
	requireCode(t, err, gate.CodeInput)
	require.ErrorContains(t, err, "the servers were others")
	_, err = ab.Run(t.Context(), cfg)
	require.NoError(t, err)
	require.Equal(t, 3, strings.Count(r.read("out/head.txt"), " 4.000 value/op"))

	for want, edit := range map[string]func(*ab.Config){
		"give both -base-target and -head-target":      func(c *ab.Config) { c.BaseTarget = "" },
		"give both -base-server and -head-server":      func(c *ab.Config) { c.BaseTarget, c.HeadTarget, c.BaseServer = "", "", "true" },
		"not several of them":                          func(c *ab.Config) { c.Base = "HEAD" },
		"-head-target is no address":                   func(c *ab.Config) { c.HeadTarget = "sesame-9:80" },
		"-bench-from is for the comparison of commits": func(c *ab.Config) { c.BenchFromHead = true },
		"-server-url is a Unix socket": func(c *ab.Config) {
			c.BaseTarget, c.HeadTarget, c.BaseServer, c.HeadServer, c.ServerURL = "", "", "a", "b", "http://unix:/a:/"
		},
		"there are 3 pairs already, more than -count 2":       func(c *ab.Config) { c.Count = 2 },
		"benchstat compares a fixed number of pairs: say how": func(c *ab.Config) { c.Count, c.Benchstat = 0, []string{"x"} },
	} {
		bad := cfg
		edit(&bad)
		_, err := ab.Run(t.Context(), bad)
		requireCode(t, err, gate.CodeInput)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "sesame")
	}
}

// address is one that is free, and none of those that the system gives away by
// itself: another test's server could have it while ours is between two runs.
func address(t *testing.T) string {
	for range 100 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 10000+rand.IntN(20000)))
		if err == nil {
			defer l.Close()
			return l.Addr().String()
		}
	}
	t.Fatal("no free port")
	return ""
}

func serverCommand(t *testing.T, addr, env string) string {
	exe, err := os.Executable()
	require.NoError(t, err)
	return fmt.Sprintf("%s=serve %s '%s' %s", toolVariable, env, exe, addr)
}

func TestServers(t *testing.T) {
	r, cfg, _ := newServers(t)
	addr := address(t)
	cfg.ServerURL = "http://" + addr + "/v1"
	cfg.BaseServer = serverCommand(t, addr, "AB_TEST_VALUE=3")
	cfg.HeadServer = serverCommand(t, addr, "AB_TEST_VALUE=4 AB_TEST_HEALTH=yes")
	// Each server has a child, whose connection ends with it.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	t.Setenv("AB_TEST_ADDR", l.Addr().String())
	report, err := ab.Run(t.Context(), cfg)
	require.NoError(t, err)
	require.Equal(t, "1 changed, 1 not gated", report.Summary())
	requireGone(t, l, 10)
	require.Equal(t, 2, strings.Count(r.read("out/base.txt"), " 3.000 value/op"))
	require.Equal(t, 2, strings.Count(r.read("out/head.txt"), " 4.000 value/op"))
	var titles []string
	for _, m := range regexp.MustCompile(`(?m)^== server of (.*)\nserving (\d)$`).FindAllStringSubmatch(r.read("out/ab.log"), -1) {
		titles = append(titles, m[1]+": "+m[2])
	}
	require.Equal(t, []string{
		"head, for trial run of head: 4", "base, for pair 1 AB, base: 3", "head, for pair 1 AB, head: 4",
		"head, for pair 2 BA, head: 4", "base, for pair 2 BA, base: 3",
	}, titles)
	r.requireNoTemporaryFiles()
}

// requireGone checks that the processes that made n connections have ended.
func requireGone(t *testing.T, l net.Listener, n int) {
	t.Helper()
	for range n {
		c, err := l.Accept()
		require.NoError(t, err)
		_, err = c.Read(make([]byte, 1))
		require.Error(t, err)
		require.NoError(t, c.Close())
	}
}

func TestServersThatDoNotServe(t *testing.T) {
	r, cfg, _ := newServers(t)
	addr := address(t)
	cfg.ServerURL = "http://" + addr + "/v1/"
	cfg.BaseServer = serverCommand(t, addr, "AB_TEST_VALUE=3")
	for name, tc := range map[string]struct {
		command string
		wait    time.Duration
		want    []string
	}{
		"ends": {serverCommand(t, addr, "AB_TEST_VALUE=early"), time.Minute, []string{
			"server of head, for trial run of head: it ended by itself: exit status 7\nserving early\nout of memory\nlog: "}},
		"no command":  {"no-such-command-as-this", time.Minute, []string{"it ended by itself: exit status 127\n", "no-such-command-as-this"}},
		"never ready": {serverCommand(t, addr, "AB_TEST_HEALTH=never"), 500 * time.Millisecond, []string{"no answer of " + addr + " within 500ms"}},
		"dies in the middle": {serverCommand(t, addr, "AB_TEST_VALUE=dies"), time.Minute, []string{
			"trial run of head: exit status 1\n", "EOF", "\nthe server ended by itself; its last lines:\nserving dies\nsegmentation fault"}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg.HeadServer, cfg.ServerWait = tc.command, tc.wait
			_, err := ab.Run(t.Context(), cfg)
			requireCode(t, err, gate.CodeInput)
			for _, want := range tc.want {
				require.ErrorContains(t, err, want)
			}
			require.Equal(t, []string{"ab.log"}, r.out())
			r.requireNoTemporaryFiles()
		})
	}
	l, err := net.Listen("tcp", addr)
	require.NoError(t, err)
	defer l.Close()
	_, err = ab.Run(t.Context(), cfg)
	requireCode(t, err, gate.CodeInput)
	require.ErrorContains(t, err, "something answers at "+addr+" already: stop it, or give another -server-url")
}

// An interrupt ends the server too, whether it is awaited or measured.
func TestServersInterrupted(t *testing.T) {
	r, cfg, _ := newServers(t)
	addr := address(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	t.Setenv("AB_TEST_ADDR", l.Addr().String())
	cfg.ServerURL = "http://" + addr
	cfg.BaseServer = "true"
	cfg.HeadServer = serverCommand(t, addr, "AB_TEST_HEALTH=never")
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error, 1)
	go func() { done <- run(ctx, cfg) }()
	var held []net.Conn
	for range 2 { // the server and its child
		c, err := l.Accept()
		require.NoError(t, err)
		held = append(held, c)
	}
	cancel(errors.New("interrupt signal received"))
	err = <-done
	requireCode(t, err, gate.CodeInput)
	require.EqualError(t, err, "interrupt signal received")
	for _, c := range held {
		_, err := c.Read(make([]byte, 1))
		require.Error(t, err)
		require.NoError(t, c.Close())
	}
	require.NoDirExists(t, filepath.Join(r.root, "out"))
	r.requireNoTemporaryFiles()
}
