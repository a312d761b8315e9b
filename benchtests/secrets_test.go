package benchtests

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/tokpace/fakeserver"
	"example.com/tokpace/pkg/api"
	"example.com/tokpace/pkg/client"
)

// A secretSetting is one way of giving secrets. Each begins with a mark of letters
// and digits that no spelling changes; behind it stand characters that quoting, JSON
// and URLs write in other ways.
type secretSetting struct {
	name   string
	env    []string
	header []string // of probe, as K=V
	user   *url.Userinfo
	query  string
	marks  []string
}

const spiky = `-"x\y&z<w>+%41/`

var secretSettings = []secretSetting{
	{name: "OPENAI_API_KEY", env: []string{"OPENAI_API_KEY=oaikeymark7Q" + spiky}, marks: []string{"oaikeymark7Q"}},
	{name: "TOKPACE_API_KEY", env: []string{"TOKPACE_API_KEY=tpkeymark7Q" + spiky, "OPENAI_API_KEY=oaikeymark7Q" + spiky}, marks: []string{"tpkeymark7Q", "oaikeymark7Q"}},
	{name: "header", header: []string{"X-Api-Key=hdrkeymark7Q" + spiky, "Authorization=Bearer hdrauthmark7Q" + spiky, "Cookie=session=cookiemark7Q" + spiky},
		marks: []string{"hdrkeymark7Q", "hdrauthmark7Q", "cookiemark7Q"}},
	{name: "password", user: url.UserPassword("user", "passwordmark7Q"+spiky),
		marks: []string{"passwordmark7Q", base64.StdEncoding.EncodeToString([]byte("user:passwordmark7Q"))[:20]}},
	{name: "query", query: url.Values{"api-key": {"querymark7Q" + spiky}}.Encode(), marks: []string{"querymark7Q"}},
}

// base is a server's base URL with the setting's part in it.
func (s *secretSetting) base(scheme, addr string) string {
	u := url.URL{Scheme: scheme, User: s.user, Host: addr, Path: "/v1", RawQuery: s.query}
	return u.String()
}

// environ is the setting for benchmarks.
func (s *secretSetting) environ(more ...string) []string {
	env := slices.Concat(s.env, more)
	if s.header != nil {
		env = append(env, "TOKPACE_HEADER="+strings.Join(s.header, "\n"))
	}
	return env
}

// flags is the setting's part for probe.
func (s *secretSetting) flags() (flags []string) {
	for _, h := range s.header {
		flags = append(flags, "-header", h)
	}
	return flags
}

// echoes are answers that repeat all that a request held: said is that in one line,
// quoted the same as a JSON string.
var echoes = []func(said, quoted string) string{
	// where HTTP puts words
	func(said, quoted string) string { return "HTTP/1.1 500 " + said + "\r\nContent-Length: 0\r\n\r\n" },
	func(said, quoted string) string { return "HTTP/1.1 " + said + "\r\nContent-Length: 0\r\n\r\n" },
	func(said, quoted string) string { return said + "\r\n\r\n" },
	func(said, quoted string) string { return withBody("200 OK", said, "{}") },
	func(said, quoted string) string { return withBody("200 OK", "X-Said: "+said, "{}") },
	func(said, quoted string) string { return withBody("200 OK", "Content-Type: "+said, said) },
	func(said, quoted string) string { return withBody("200 OK", "Transfer-Encoding: "+said, "") },
	func(said, quoted string) string { return withBody("200 OK", "Content-Encoding: "+said, said) },
	func(said, quoted string) string { return "HTTP/1.1 200 OK\r\nContent-Length: " + said + "\r\n\r\n" },
	func(said, quoted string) string { return withBody("302 Found", "Location: /v1?said="+said, said) },
	func(said, quoted string) string {
		return withBody("307 Temporary Redirect", "Location: http://h/"+url.PathEscape(said), said)
	},
	func(said, quoted string) string { return streamHead + said + "\r\n" },
	func(said, quoted string) string { return streamHead + "5;" + said + "\r\n: pin\r\n" + said },
	func(said, quoted string) string { return "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + said },
	// errors
	func(said, quoted string) string { return withBody("401 Unauthorized", "", said) },
	func(said, quoted string) string {
		return withBody("403 Forbidden", "", `{"error":{"message":`+quoted+`}}`)
	},
	func(said, quoted string) string { return withBody("400 Bad Request", "", `{"detail":`+quoted+`}`) },
	func(said, quoted string) string {
		return withBody("422 Unprocessable Content", "", `{"detail":[{"input":`+quoted+`}]}`)
	},
	func(said, quoted string) string {
		return withBody("502 Bad Gateway", "Content-Type: text/html", "<html>"+said)
	},
	func(said, quoted string) string {
		return withBody("200 OK", "", `{"error":{"message":`+quoted+`,"code":`+quoted+`}}`)
	},
	func(said, quoted string) string { return withBody("200 OK", "", `{"error":{"key":`+quoted+`}}`) },
	func(said, quoted string) string {
		return withBody("200 OK", "", `{"object":"error","message":`+quoted+`}`)
	},
	// streams
	func(said, quoted string) string { return events(`{"error":{"message":` + quoted + `}}`) },
	func(said, quoted string) string { return events(`{"error":` + quoted + `}`) },
	func(said, quoted string) string {
		return withBody("200 OK", "Content-Type: text/event-stream", "event: error\ndata: "+said+"\n\n")
	},
	func(said, quoted string) string { return events(said) },
	func(said, quoted string) string { return events(quoted) },
	func(said, quoted string) string { return events(`{"choices":[{"index":0,"delta":{"content":` + quoted) },
	func(said, quoted string) string { return events(`{"choices":[],"usage":` + quoted + `}`) },
	func(said, quoted string) string {
		return events(`{"choices":[],"usage":{"prompt_tokens":` + quoted + `}}`)
	},
	func(said, quoted string) string { return events(`{"choices":[{"index":` + quoted + `}]}`) },
	func(said, quoted string) string {
		return events(`{"choices":[{"delta":{"content":{"a":` + quoted + `}}}]}`)
	},
	func(said, quoted string) string { return events(`{"choices":[{"error":{"message":` + quoted + `}}]}`) },
	func(said, quoted string) string {
		return events(`{"id":`+quoted+`,"model":`+quoted+`,"choices":[{"index":0,"delta":{"role":`+quoted+`,"content":`+quoted+`,"reasoning":`+quoted+
			`,"tool_calls":[{"index":0,"id":`+quoted+`,"function":{"name":`+quoted+`,"arguments":`+quoted+`}}]},"finish_reason":`+quoted+`}]}`, "[DONE]")
	},
	// plain answers
	func(said, quoted string) string { return withBody("200 OK", "", said) },
	func(said, quoted string) string { return withBody("200 OK", "", quoted) },
	func(said, quoted string) string { return withBody("200 OK", "", `{"said":`+quoted+`}`) },
	func(said, quoted string) string {
		return withBody("200 OK", "", `{"choices":[{"index":0,"message":{"content":`+quoted)
	},
	func(said, quoted string) string {
		return withBody("200 OK", "", `{"id":`+quoted+`,"model":`+quoted+`,"choices":[{"index":0,"text":`+quoted+`,"message":{"content":`+quoted+`,"reasoning":`+quoted+
			`,"tool_calls":[{"id":`+quoted+`,"function":{"name":`+quoted+`,"arguments":`+quoted+`}}]},"finish_reason":`+quoted+`}]}`)
	},
	func(said, quoted string) string {
		return withBody("200 OK", "", `{"data":[{"index":0,"embedding":`+quoted+`}]}`)
	},
	func(said, quoted string) string {
		return withBody("200 OK", "", `{"data":[{"index":0,"embedding":[`+quoted+`]}]}`)
	},
	func(said, quoted string) string {
		return withBody("200 OK", "", `{"data":[{"index":`+quoted+`,"embedding":[1]}]}`)
	},
	func(said, quoted string) string {
		return withBody("200 OK", "", `{"results":[{"index":0,"relevance_score":`+quoted+`}]}`)
	},
	func(said, quoted string) string { return withBody("200 OK", "", `{"results":`+quoted+`}`) },
	func(said, quoted string) string {
		return withBody("200 OK", "", `{"data":[{"index":0,"embedding":[1]}],"usage":{"prompt_tokens":`+quoted+`}}`)
	},
	func(said, quoted string) string {
		return withBody("200 OK", "Content-Type: application/octet-stream\r\nmetadata: "+said, said)
	},
	func(said, quoted string) string {
		return withBody("200 OK", "Content-Type: application/octet-stream\r\nmetadata: "+
			`{"id":`+quoted+`,"data":[{"index":0,"embed_dtype":`+quoted+`,"endianness":`+quoted+`,"start":0,"end":4,"shape":[1]}],"usage":{}}`, "1234")
	},
}

const streamHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"

func withBody(status, header, body string) string {
	if header != "" {
		header += "\r\n"
	}
	return fmt.Sprintf("HTTP/1.1 %s\r\nContent-Length: %d\r\n%s\r\n%s", status, len(body), header, body)
}

func events(data ...string) string {
	body := ""
	for _, d := range data {
		body += "data: " + d + "\n\n"
	}
	return withBody("200 OK", "Content-Type: text/event-stream", body)
}

// An echo is a server that repeats what it is told. It writes raw bytes, since it
// must be able to say it in any place.
type echo struct {
	net.Listener
	wg sync.WaitGroup

	mu    sync.Mutex
	next  int             // the echo of the next POST
	seen  strings.Builder // all that was said
	asked func(path string) (answer func(said, quoted string) string)
}

func startEcho(t *testing.T) *echo {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	e := &echo{Listener: l}
	conns := map[net.Conn]bool{}
	var mu sync.Mutex
	e.wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns[conn] = true
			mu.Unlock()
			e.wg.Go(func() {
				defer conn.Close()
				e.serve(conn)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for c := range conns {
			c.Close()
		}
		mu.Unlock()
		e.wg.Wait()
	})
	return e
}

func (e *echo) serve(conn net.Conn) {
	req, err := http.ReadRequest(bufio.NewReader(conn))
	if err != nil {
		return
	}
	if _, err := io.Copy(io.Discard, req.Body); err != nil {
		return
	}
	var said strings.Builder
	said.WriteString(req.RequestURI)
	for _, values := range req.URL.Query() {
		fmt.Fprintf(&said, " %s", values)
	}
	for name, values := range req.Header {
		fmt.Fprintf(&said, " %s=%s", name, values)
	}
	if user, password, ok := req.BasicAuth(); ok {
		fmt.Fprintf(&said, " %s:%s", user, password)
	}
	quoted, _ := json.Marshal(said.String())
	e.mu.Lock()
	e.seen.WriteString(said.String() + "\n")
	var answer func(said, quoted string) string
	if e.asked != nil {
		answer = e.asked(req.URL.Path)
	}
	if answer == nil && req.Method == http.MethodPost {
		answer = echoes[e.next%len(echoes)]
		e.next++
	}
	e.mu.Unlock()
	if answer == nil {
		answer = func(string, string) string {
			return withBody("200 OK", "", `{"data":[{"id":"m","owned_by":"tokpace-fake"}],"version":"1"}`)
		}
	}
	_, _ = io.WriteString(conn, answer(said.String(), string(quoted)))
}

// ask makes the server answer each path as f says, or go round the echoes.
func (e *echo) ask(f func(path string) func(said, quoted string) string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asked = f
}

// A key is in no output, whoever says it: not in that of benchmarks, of probe, of the
// fake and its journal, in no error and no panic.
func TestSecretsAreNowhere(t *testing.T) {
	exe := buildCommand(t)
	e := startEcho(t)
	addr := e.Addr().String()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	closed.Close()

	for k, set := range secretSettings {
		t.Run(set.name, func(t *testing.T) {
			var said strings.Builder // all output
			note := func(what, output string) {
				for _, mark := range set.marks {
					if i := strings.Index(output, mark); i >= 0 {
						t.Errorf("%s has %s: …%q…", what, mark, output[max(0, i-150):min(len(output), i+60)])
					}
				}
				said.WriteString(output)
			}
			records := filepath.Join(t.TempDir(), "records.ndjson")
			run := func(what string, env []string, args ...string) string {
				o := bench(t, set.environ(append(env, "TOKPACE_RECORDS="+records, "TOKPACE_RECORDS_TEXT=1")...), args...)
				note(what+", "+fmt.Sprint(args), o.stdout+o.stderr)
				return o.stdout + o.stderr
			}
			at := "OPENAI_BASE_URL=" + set.base("http", addr)

			// Each benchmark meets another echo.
			run("failing benchmarks", []string{at}, "-test.bench=.", "-test.benchtime=1x", "-test.v")
			run("benchmarks that may fail", []string{at, "TOKPACE_MAX_FAIL=1000"}, "-test.bench=conc=1", "-test.benchtime=30x", "-test.v")
			run("benchmarks over net/http", []string{at, "TOKPACE_TRANSPORT=net/http"}, "-test.bench=.", "-test.benchtime=1x")
			e.ask(func(path string) func(string, string) string {
				if path == "/v1/chat/completions" {
					return func(said, quoted string) string {
						return events(`{"choices":[{"index":0,"delta":{"content":`+quoted+`,"reasoning":`+quoted+`},"finish_reason":`+quoted+`}]}`, "[DONE]")
					}
				}
				return nil
			})
			run("answers that repeat the request", []string{at}, "-test.bench=Chat/stream=true/conc=1", "-test.benchtime=2x")
			// The settings share the rest of the echoes out: each is a process.
			for i := k; i < len(echoes); i += len(secretSettings) {
				e.ask(func(path string) func(string, string) string { return echoes[i] })
				run(fmt.Sprintf("model list as echo %d", i), []string{at}, "-test.bench=Rerank", "-test.benchtime=1x")
			}
			for name, body := range map[string]func(quoted string) string{
				"names": func(quoted string) string { return `{"data":[{"id":` + quoted + `,"owned_by":` + quoted + `}]}` },
				"versions": func(quoted string) string {
					return `{"data":[{"id":"m","owned_by":"tokpace-fake"}],"version":` + quoted + `}`
				},
			} {
				e.ask(func(path string) func(string, string) string {
					if path == "/v1/models" || path == "/version" {
						return func(said, quoted string) string { return withBody("200 OK", "", body(quoted)) }
					}
					return nil
				})
				run("echoed "+name, []string{at}, "-test.bench=Rerank", "-test.benchtime=1x", "-test.v")
				run("unknown model beside echoed "+name, []string{at, "TOKPACE_MODEL=nope"}, "-test.bench=Rerank", "-test.benchtime=1x")
			}
			e.ask(nil)

			// Nothing answers, or not as it should.
			for what, base := range map[string]string{
				"refused": set.base("http", closed.Addr().String()), "no TLS": set.base("https", addr), "remote": set.base("http", "api.example.com"),
				"no host": set.base("http", ""), "scheme": set.base("ftp", addr), "bad port": set.base("http", "127.0.0.1:port"), "bad host": set.base("http", "[::1"),
			} {
				run(what, []string{"OPENAI_BASE_URL=" + base}, "-test.bench=Rerank", "-test.benchtime=1x")
				run(what, []string{"TOKPACE_BASE_URL=" + base, "TOKPACE_SKIP_CHECK=1", "TOKPACE_MODEL=m"}, "-test.bench=Rerank/conc=1", "-test.benchtime=1x")
			}
			silence := make(chan struct{})
			e.ask(func(path string) func(string, string) string {
				if path == "/v1/models" {
					return nil
				}
				return func(string, string) string { <-silence; return "" }
			})
			run("timeout", []string{at, "TOKPACE_SKIP_CHECK=1", "TOKPACE_MODEL=m", "TOKPACE_TIMEOUT=20ms"}, "-test.bench=Rerank/conc=1", "-test.benchtime=1x")
			close(silence)
			e.ask(nil)
			if runtime.GOOS != "windows" {
				note("panic", stackDump(t, &set))
			}

			modes := []string{"-json=true", "-json=false"}
			probe := func(what, base string, more ...string) {
				for _, mode := range modes {
					cmd := exec.CommandContext(t.Context(), exe, slices.Concat([]string{"probe", "-base-url", base, mode}, set.flags(), more)...)
					cmd.Env = slices.Concat(benchCommand(t, nil).Env, set.env)
					out, _ := cmd.CombinedOutput()
					note("probe, "+what+", "+mode, string(out))
				}
			}
			for i := range echoes {
				e.ask(func(path string) func(string, string) string { return echoes[i] })
				modes = []string{"-json=true", "-json=false"}[(i+k)%2:][:1]
				for _, name := range []string{"openai-chat", []string{"openai-embeddings", "vllm-rerank"}[(i+k)/2%2]} {
					probe(fmt.Sprintf("echo %d, %s", i, name), set.base("http", addr), "-api", name, "-model", "m")
				}
				if i%len(secretSettings) == k {
					probe(fmt.Sprintf("model list as echo %d", i), set.base("http", addr), "-api", "openai")
				}
			}
			modes = []string{"-json=true", "-json=false"}
			e.ask(nil)
			for _, base := range []string{
				set.base("http", closed.Addr().String()), set.base("https", addr), set.base("ftp", addr), set.base("http", ""),
				set.base("http", "127.0.0.1:port"), set.base("http", "[::1"), "no scheme " + set.base("", addr),
			} {
				probe("bad address", base, "-api", "openai", "-model", "m")
			}
			still := make(chan struct{})
			e.ask(func(string) func(string, string) string { return func(string, string) string { <-still; return "" } })
			probe("timeout", set.base("http", addr), "-api", "openai", "-model", "m", "-timeout", "20ms")
			close(still)
			e.ask(nil)

			recorded, err := os.ReadFile(records)
			require.NoError(t, err)
			require.True(t, regexp.MustCompile(`"ok":true.*"text":".*\[redacted\]`).Match(recorded), "answers with their text")
			require.Greater(t, strings.Count(string(recorded), "[redacted]"), 10)
			note("records", string(recorded))
			note("journal", journalInProcess(t, &set))
			note("journal of the command", journalOfCommand(t, exe, &set))

			// The server was told, and what repeats it is in the outputs.
			e.mu.Lock()
			heard := e.seen.String()
			e.seen.Reset()
			e.mu.Unlock()
			require.Contains(t, heard, set.marks[0])
			require.Greater(t, strings.Count(said.String(), "[redacted]"), 100)
		})
	}
}

// stackDump is what a benchmark process says when it dies, as a panic makes it, with
// a request under way.
func stackDump(t *testing.T, set *secretSetting) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	cmd := benchCommand(t, set.environ("TOKPACE_SKIP_CHECK=1", "TOKPACE_MODEL=m", "OPENAI_BASE_URL="+set.base("http", l.Addr().String()), "GOTRACEBACK=all"),
		"-test.bench=Rerank/conc=1", "-test.benchtime=1x")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	require.NoError(t, cmd.Start())
	conn, err := l.Accept()
	require.NoError(t, err)
	defer conn.Close()
	_, err = http.ReadRequest(bufio.NewReader(conn))
	require.NoError(t, err)
	require.NoError(t, cmd.Process.Signal(syscall.SIGQUIT))
	require.Error(t, cmd.Wait())
	require.Contains(t, out.String(), "SIGQUIT")
	require.Contains(t, out.String(), "RoundTrip")
	return out.String()
}

// journalInProcess is all that a fake in this process tells of requests with the
// setting's secrets.
func journalInProcess(t *testing.T, set *secretSetting) string {
	t.Helper()
	srv := fakeserver.Start(t, fakeserver.Config{Rules: []fakeserver.Rule{{Name: "all", Fault: fakeserver.Fault{FirstDelay: time.Millisecond}}}})
	u, err := url.Parse(srv.URL)
	require.NoError(t, err)
	header := http.Header{}
	for _, h := range set.header {
		k, v, _ := strings.Cut(h, "=")
		header.Add(k, v)
	}
	c := &client.Client{BaseURL: set.base("http", u.Host), Header: header, Timeout: 10 * time.Second}
	if set.env != nil {
		_, c.APIKey, _ = strings.Cut(set.env[0], "=")
	}
	defer c.CloseIdleConnections()
	var out strings.Builder
	for _, path := range []string{"", "/v1/nowhere"} {
		req, err := api.NewCompletion("", "hi", api.Generation{MaxTokens: 2, Stream: true})
		require.NoError(t, err)
		req.Endpoint = path
		ex := c.Do(t.Context(), req)
		fmt.Fprintf(&out, "%+v %v\n", *ex, ex.Error)
	}
	records := srv.Journal()
	require.Len(t, records, 2)
	text, err := json.Marshal(records)
	require.NoError(t, err)
	fmt.Fprintf(&out, "%s %+v", text, records)
	return out.String()
}

// journalOfCommand is all that `tokpace fake` prints and tells of a probe with the
// setting's secrets.
func journalOfCommand(t *testing.T, exe string, set *secretSetting) string {
	t.Helper()
	cmd := exec.Command(exe, "fake", "-listen", "127.0.0.1:0", "-admin", "127.0.0.1:0")
	cmd.Env = slices.Concat(benchCommand(t, nil).Env, set.env)
	stderr, err := cmd.StderrPipe()
	require.NoError(t, err)
	var stdout bytes.Buffer
	cmd.Stdout = &stdout
	require.NoError(t, cmd.Start())
	var out strings.Builder
	r := bufio.NewReader(stderr)
	addresses := map[string]string{}
	for range 2 {
		line, err := r.ReadString('\n')
		require.NoError(t, err)
		out.WriteString(line)
		what, rest, _ := strings.Cut(line, " http://")
		addresses[what], _, _ = strings.Cut(rest, "/")
	}
	probe := exec.CommandContext(t.Context(), exe, slices.Concat([]string{"probe", "-api", "openai-chat", "-base-url", set.base("http", addresses["serving"])}, set.flags())...)
	probe.Env = cmd.Env
	text, err := probe.CombinedOutput()
	require.NoError(t, err, string(text))
	out.Write(text)
	res, err := http.Get("http://" + addresses["admin"] + "/fake/journal")
	require.NoError(t, err)
	journal, err := io.ReadAll(res.Body)
	res.Body.Close()
	require.NoError(t, err)
	require.Contains(t, string(journal), "/v1/chat/completions")
	out.Write(journal)
	_ = cmd.Process.Kill()
	rest, _ := io.ReadAll(r)
	_ = cmd.Wait()
	out.Write(rest)
	out.WriteString(stdout.String())
	return out.String()
}
