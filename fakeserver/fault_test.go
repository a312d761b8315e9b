package fakeserver

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"reflect"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// dechunk takes the framing off what was read at one time; each read holds whole chunks here.
func dechunk(t *testing.T, data string) string {
	t.Helper()
	var b strings.Builder
	for data != "" {
		size, rest, ok := strings.Cut(data, "\r\n")
		require.True(t, ok, "%q", data)
		var n int
		_, err := fmt.Sscanf(size, "%x", &n)
		require.NoError(t, err)
		if n == 0 {
			break
		}
		b.WriteString(rest[:n])
		data = strings.TrimPrefix(rest[n:], "\r\n")
	}
	return b.String()
}

// What is compressed can be decoded as far as it is there at every time, and only as far; the bytes are compress/gzip's
// and no golden.
func TestFaultGzip(t *testing.T) {
	rawVirtual(t, Config{}, func(t *testing.T, s *Server, dial func() net.Conn) {
		get := func(request, fault string) ([]read, string) {
			r := faultRequests[request]
			c := dial()
			defer c.Close()
			_, err := io.WriteString(c, rawRequest("POST", r.path, r.body, FaultHeader, fault))
			require.NoError(t, err)
			reads, end, _ := rawRead(t, c, time.Minute)
			return reads, end
		}
		reads, _ := get("script", script+"gzip=on; line-end=crlf")
		require.Len(t, reads, 4)
		require.Contains(t, reads[0].data, "Content-Encoding: gzip\r\n")
		var sofar bytes.Buffer
		want := ""
		for i, event := range []string{"data: {\"a\":1}\r\n\r\n", "data: {\"b\":\"x,y\",\"c\":2}\r\n\r\n", "data: [DONE]\r\n\r\n"} {
			require.Equal(t, time.Duration(i+1)*10*ms, reads[i+1].at)
			sofar.WriteString(dechunk(t, reads[i+1].data))
			want += event
			z, err := gzip.NewReader(bytes.NewReader(sofar.Bytes()))
			require.NoError(t, err)
			got, err := io.ReadAll(z)
			require.Equal(t, want, string(got))
			if i < 2 {
				require.ErrorIs(t, err, io.ErrUnexpectedEOF)
			} else {
				require.NoError(t, err)
			}
		}

		plain, _ := get("rerank", "interim=103; gzip=hidden")
		head, body, _ := strings.Cut(strings.TrimPrefix(plain[0].data, "HTTP/1.1 103 Early Hints\r\n\r\n"), "\r\n\r\n")
		require.NotContains(t, head, "Content-Encoding")
		require.Contains(t, head, fmt.Sprintf("Content-Length: %d\r\n", len(body)))
		z, err := gzip.NewReader(strings.NewReader(body))
		require.NoError(t, err)
		got, err := io.ReadAll(z)
		require.NoError(t, err)
		require.True(t, json.Valid(got))

		_, end := get("rerank", "gzip=on; cut=1")
		require.Equal(t, "closed", end)

		reads, _ = get("script", "gzip=bomb; flood-size=5000000")
		_, body, _ = strings.Cut(reads[0].data, "\r\n\r\n")
		require.Less(t, len(body), 20000)
		z, err = gzip.NewReader(strings.NewReader(dechunk(t, body)))
		require.NoError(t, err)
		n, err := io.Copy(io.Discard, z)
		require.NoError(t, err)
		require.EqualValues(t, 5<<20, n)
	})
}

// Floods do not end by themselves and cost no memory; the server is free as soon as the client has left.
func TestFloodsEndWithTheClient(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	for _, fault := range []string{"flood=comments", "flood=line", "flood=events", "flood=headers", "gzip=bomb; flood-size=1099511627776", "body=x; body-size=1099511627776"} {
		t.Run(fault, func(t *testing.T) {
			rawVirtual(t, Config{}, func(t *testing.T, s *Server, dial func() net.Conn) {
				c := dial()
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				_, err := io.WriteString(c, rawRequest("POST", "/v1/completions", `{"prompt":"a","stream":true}`, FaultHeader, fault))
				require.NoError(t, err)
				n, err := io.CopyN(io.Discard, c, 16<<20)
				require.NoError(t, err)
				require.EqualValues(t, 16<<20, n)
				runtime.ReadMemStats(&after)
				require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(8<<20))
				require.Equal(t, Running, s.Journal()[0].End)
				start := time.Now()
				c.Close()
				synctest.Wait()
				require.Zero(t, time.Since(start))
				require.Equal(t, Disconnected, s.Journal()[0].End)
			})
		})
	}
}

// The ends of connections over TCP: by class only.
func TestFaultsOverTCP(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("resets have another name there")
	}
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	s := Start(t, Config{})
	defer s.Close()
	for _, tc := range []struct{ fault, end, tail string }{
		{script, "open", "0\r\n\r\n"},
		{script + "cut=1", "closed", "\"a\":1}\n\n\r\n"},
		{script + "cut=1; cut-with=rst; end-delay=50ms", "reset", ""},
		{script + "cut-byte=20", "closed", "19\r\ndata:"},
		{script + "cut-byte=20; cut-with=rst; end-delay=50ms", "reset", ""},
		{"no-answer=close", "closed", ""},
		{"no-answer=reset", "reset", ""},
		{"no-answer=hang", "open", ""},
		{script + "idle-close=20ms", "closed", "0\r\n\r\n"},
		{script + "framing=close", "closed", "data: [DONE]\n\n"},
		{script + "framing=length; length-off=3", "closed", "data: [DONE]\n\n"},
	} {
		t.Run(tc.fault, func(t *testing.T) {
			c, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
			require.NoError(t, err)
			defer c.Close()
			_, err = io.WriteString(c, rawRequest("POST", "/v1/completions", `{"prompt":"a","stream":true,"max_tokens":1}`, FaultHeader, tc.fault))
			require.NoError(t, err)
			reads, end, _ := rawRead(t, c, time.Second)
			require.Equal(t, tc.end, end)
			var all string
			for _, r := range reads {
				all += r.data
			}
			require.True(t, strings.HasSuffix(all, tc.tail), "%q", all)
		})
	}
}

// A connection that is to be closed when idle is not, if another request comes first; a later one is answered on a new
// connection, and the server has seen each request once.
func TestIdleClose(t *testing.T) {
	cfg := Config{Rules: []Rule{{Match: Match{First: 1}, Fault: Fault{IdleClose: new(30 * ms)}}, {Match: Match{Nth: 3}, Fault: Fault{IdleClose: new(time.Duration(0))}}}}
	rawVirtual(t, cfg, func(t *testing.T, s *Server, dial func() net.Conn) {
		request := rawRequest("POST", "/tokenize", `{"prompt":"a"}`)
		c := dial()
		for _, pause := range []time.Duration{29 * ms, time.Hour} {
			_, err := io.WriteString(c, request)
			require.NoError(t, err)
			_, end, _ := rawRead(t, c, pause)
			require.Equal(t, "open", end)
		}
		start := time.Now()
		_, err := io.WriteString(c, request)
		require.NoError(t, err)
		_, end, _ := rawRead(t, c, time.Hour)
		require.Equal(t, "closed", end)
		require.Zero(t, time.Since(start))
		records := s.Journal()
		require.Len(t, records, 3)
		require.Empty(t, records[0].Actions)
		require.Equal(t, []Action{{What: ActionIdleClose, Events: 1}}, records[2].Actions)
	})
}

// H28 at the fake's side: an idle connection that closes at random moments of the client's next request never makes the
// server count a request that it did not answer.
func TestIdleCloseRacesWithTheNextRequest(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	s := Start(t, Config{Rules: []Rule{{Fault: Fault{IdleClose: new(200 * time.Microsecond)}}}})
	defer s.Close()
	for i := range 200 {
		req, err := http.NewRequest("POST", s.URL+"/tokenize", strings.NewReader(`{"prompt":"a"}`))
		require.NoError(t, err)
		req.Header.Set("Idempotency-Key", "1") // lets net/http send it again on a fresh connection
		res, err := s.Client().Do(req)
		require.NoError(t, err, "request %d", i)
		_, err = io.Copy(io.Discard, res.Body)
		require.NoError(t, err)
		res.Body.Close()
	}
	require.NoError(t, s.Close())
	complete := 0
	for _, r := range s.Journal() {
		if r.End == Complete {
			complete++
		}
	}
	require.Equal(t, 200, complete)
}

// In a server of the caller's own, what needs the connection is refused, unless that server makes it known.
func TestFaultsInAnotherServer(t *testing.T) {
	s := newServer(t, Config{})
	ask := func(other *httptest.Server, fault string) (*http.Response, string, error) {
		req, err := http.NewRequest("POST", other.URL+"/tokenize", strings.NewReader(`{"prompt":"a"}`))
		require.NoError(t, err)
		req.Header.Set(FaultHeader, fault)
		res, err := other.Client().Do(req)
		if err != nil {
			return nil, "", err
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		return res, string(b), err
	}
	bare := httptest.NewServer(s.Handler())
	defer bare.Close()
	for _, fault := range []string{"no-answer=reset", "framing=close", "idle-close=1s", "length-off=1"} {
		res, body, err := ask(bare, fault)
		require.NoError(t, err)
		require.Equal(t, 500, res.StatusCode)
		require.Contains(t, body, "this fault needs the connection: set ConnContext")
	}
	_, _, err := ask(bare, "cut-byte=3")
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)

	helped := httptest.NewUnstartedServer(s.Handler())
	helped.Config.ConnContext = s.ConnContext
	helped.Start()
	defer helped.Close()
	res, body, err := ask(helped, "framing=close")
	require.NoError(t, err)
	require.True(t, res.Close)
	require.Contains(t, body, `"count"`)
}

func TestFaultTextErrors(t *testing.T) {
	s := newServer(t, Config{})
	for _, tc := range []struct{ fault, message string }{
		{"speed=1", `"speed": unknown key`},
		{"stall", `"stall" is not key=value`},
		{"cut=1; cut=2", "cut is given twice"},
		{"cut=x", `cut: "x" is not a number`},
		{"cut=-1", "cut: -1 is not between 0 and 1048576"},
		{"malformed=0", "malformed: 0 is not between 1 and 1048576"},
		{"cut=99999999999999999999", "is not a number"},
		{"status=99", "status: 99 is not between 200 and 599"},
		{"stall=1; stall-for=2h", `stall-for: "2h" is not a duration between 0 and 1h0m0s`},
		{"stall-for=2s", "stall-for needs stall"},
		{"line-end=lfcr", `line-end: "lfcr" is not one of lf, crlf, cr, mixed`},
		{"redirect=300", `redirect: "300" is not one of 301, 302, 303, 307, 308`},
		{"bom=perhaps", `bom: "perhaps" is not true or false`},
		{"header=X", `header: "X" is not NAME:VALUE`},
		{"header=X Y:1", `header: "X Y" is no name of a header`},
		{`header=X:"a\nb"`, "header: the value of X has more than one line"},
		{"header=Content-Length:1", "header: Content-Length is set by framing and length-off"},
		{"step=x", `step: "x" is not TIME:DATA`},
		{"step=2ms:a; step=1ms:b", "step: 1ms is not between 2ms and 1h0m0s"},
		{`body="a`, "a quote is not closed"},
		{`body="a"b`, "is not quoted as in Go"},
		{`comment-every=1s; comment="a\nb"`, "comment: more than one line"},
		{"body=a; redirect=301", "body, step, redirect and no-answer exclude one another"},
		{"no-answer=hang; status=500", "no-answer and status exclude each other"},
		{"split=1; split-at=2", "split and split-at exclude each other"},
		{"split-gap=1ms", "split-gap needs split or split-at"},
		{"cut-with=rst", "cut-with needs cut or cut-byte"},
		{"cut=1; cut-byte=1", "cut and cut-byte exclude each other"},
		{"stall=1; cut=1", "a stall without stall-for and a cut exclude each other"},
		{"flood-size=1", "flood-size needs flood or gzip=bomb"},
		{"tool-calls; reasoning=1", "tool-calls and reasoning exclude each other"},
		{"length-off=1; framing=close", "length-off excludes bad-http and framing other than length"},
		{"comment-every=1ns; stall=1; stall-for=1h", "comment-every: the answer would have over 1048576 writes"},
	} {
		p := s.Plan(Request{Method: "POST", Path: "/v1/completions", Fault: tc.fault, Body: []byte(`{"prompt":"a","stream":true}`)})
		require.Equal(t, 400, p.Status, tc.fault)
		message := dig(obj(t, bodyOf(t, p)), "error", "message").(string)
		require.True(t, strings.HasPrefix(message, FaultHeader+": "), message)
		require.Contains(t, message, tc.message)
	}
	require.Equal(t, 400, s.Plan(Request{Method: "POST", Path: "/pooling", Fault: "gzip=on", Fake: "dim=16777216",
		Body: []byte(`{"input":["a","b","c","d","e"],"encoding_format":"bytes"}`)}).Status, "too large to compress")
	_, err := New(Config{Rules: []Rule{{}, {Match: Match{First: -1}}}})
	require.ErrorContains(t, err, "fakeserver: Config.Rules[1]: match: ")
	_, err = New(Config{Rules: []Rule{{Match: Match{Probability: 1.5}}}})
	require.ErrorContains(t, err, "probability: 1.5 is not between 0 and 1")
	_, err = New(Config{Rules: []Rule{{Match: Match{HeaderValue: "x"}}}})
	require.ErrorContains(t, err, "header-value needs header")
	_, err = New(Config{Rules: []Rule{{Fault: Fault{Cut: new(-1)}}}})
	require.ErrorContains(t, err, "fakeserver: Config.Rules[0]: fault: cut: -1")
}

// The text form can be read back, whatever the fields hold.
func FuzzParseFault(f *testing.F) {
	for _, g := range faultGoldens {
		f.Add(g.fault)
	}
	f.Add(`body="\x00\xff;\"";header=A:" x ";step=1s:"";bom`)
	s, err := New(Config{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		fault, err := ParseFault(text)
		if err != nil {
			return
		}
		again, err := ParseFault(fault.String())
		if err != nil || again.String() != fault.String() {
			t.Fatalf("%q gave %q, and that %q, %v", text, fault.String(), again.String(), err)
		}
		if fault.PadSize > 1<<16 || fault.PadHeaderSize > 1<<16 || fault.CommentEvery > 0 && fault.CommentEvery < ms {
			return // slow, and tested elsewhere
		}
		for _, request := range []string{"script", "chat2", "plain", "embeddings", "pieces", "rerank"} {
			r := faultRequests[request]
			p := s.Plan(Request{Method: "POST", Path: r.path, Fake: r.plan, Body: []byte(r.body), Fault: text})
			last := p.HeadersAt
			for _, e := range p.Events {
				if e.At < last {
					t.Fatalf("event at %v after %v", e.At, last)
				}
				last = e.At
			}
			if p.ContentLength >= 0 && p.End == EndClean && p.Raw == nil && p.ContentLength != size(p.Events) {
				t.Fatalf("length %d, body %d", p.ContentLength, size(p.Events))
			}
		}
	})
}

// All of the vocabulary is in the package's table, in the order of the fields.
func TestPackageDocHasAllFaults(t *testing.T) {
	text, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	_, table, ok := strings.Cut(string(text), "# Faults")
	require.True(t, ok)
	table, _, ok = strings.Cut(table, "# In virtual time")
	require.True(t, ok)
	var keys []string
	lines := map[string]string{}
	for _, line := range strings.Split(table, "\n") {
		if m := regexp.MustCompile(`^//\t([a-z-]+)(=[A-Z:]+)? {2,}(.+)`).FindStringSubmatch(line); m != nil {
			keys = append(keys, m[1])
			lines[m[1]] = m[3]
		}
	}
	require.Equal(t, FaultKeys(), keys)
	for _, f := range faultFields() {
		for _, word := range f.enum {
			require.Regexp(t, `\b`+word+`\b`, lines[f.key], f.key)
		}
	}
}

// Each field can be set in the text form, and has all that the tools that read its tags need.
func TestFaultFields(t *testing.T) {
	v := reflect.TypeFor[Fault]()
	require.Equal(t, v.NumField(), len(FaultKeys()))
	for _, f := range faultFields() {
		require.NotEmpty(t, f.key)
		field := v.Field(f.index)
		if f.needs != "" {
			require.Contains(t, FaultKeys(), f.needs)
		}
		kind := field.Type
		if kind.Kind() == reflect.Pointer {
			kind = kind.Elem()
		}
		text := map[string]string{"string": "x", "int": "1", "int64": "1", "bool": "true", "time.Duration": "1s",
			"map[string]string": "A:b", "[]fakeserver.Step": "1s:x"}[kind.String()]
		require.NotEmpty(t, text, "%s has a type that the text form does not know: %s", field.Name, kind)
		var fault Fault
		require.NoError(t, setField(reflect.ValueOf(&fault).Elem().Field(f.index), text))
		require.True(t, strings.HasPrefix(fault.String(), f.key+"="), fault.String())
	}
}

// applied plans a request and returns the names of the rules that applied, "" for none.
func applied(s *Server, r Request) string {
	p := s.state.Load().faulty(&r)
	return strings.Join(p.Rules, "+")
}

func TestRuleMatching(t *testing.T) {
	fault := Fault{EndDelay: ms}
	rule := func(name string, m Match) Rule { return Rule{Name: name, Match: m, Fault: fault} }
	s := newServer(t, Config{Model: "m", Rules: []Rule{
		rule("endpoint", Match{Endpoint: "/tokenize"}),
		rule("model", Match{Model: "other"}),
		rule("header", Match{Header: "x-mark"}),
		rule("value", Match{Header: "X-Value", HeaderValue: "b"}),
		rule("", Match{Endpoint: "/v1/rerank"}),
	}})
	body := []byte(`{"prompt":"a"}`)
	for _, tc := range []struct {
		want string
		r    Request
	}{
		{"endpoint", Request{Method: "POST", Path: "/tokenize", Body: body}},
		{"", Request{Method: "POST", Path: "/v1/completions", Body: body}},
		{"model", Request{Method: "POST", Path: "/v1/completions", Body: []byte(`{"prompt":"a","model":"other"}`)}},
		{"header", Request{Method: "POST", Path: "/v1/completions", Body: body, Header: http.Header{"X-Mark": {""}}}},
		{"value", Request{Method: "POST", Path: "/v1/completions", Body: body, Header: http.Header{"X-Value": {"a", "b"}}}},
		{"", Request{Method: "POST", Path: "/v1/completions", Body: body, Header: http.Header{"X-Value": {"a"}}}},
		{"rule 5", Request{Method: "POST", Path: "/v1/rerank"}},
	} {
		require.Equal(t, tc.want, applied(s, tc.r))
	}
}

func TestRuleCounting(t *testing.T) {
	fault := Fault{EndDelay: ms}
	s := newServer(t, Config{Rules: []Rule{
		{Name: "first", Match: Match{Endpoint: "/tokenize", First: 2}, Fault: fault},
		{Name: "third", Match: Match{Nth: 3, Endpoint: "/tokenize"}, Fault: fault},
		{Name: "all", Fault: fault, Continue: true},
		{Name: "every", Match: Match{Every: 4}, Fault: fault},
	}})
	tokenize := Request{Method: "POST", Path: "/tokenize", Body: []byte(`{"prompt":"a"}`)}
	other := Request{Method: "POST", Path: "/v1/rerank"}
	play := func() (got []string) {
		for _, r := range []Request{tokenize, other, tokenize, tokenize, tokenize, other, other, tokenize} {
			got = append(got, applied(s, r))
		}
		return got
	}
	want := []string{"first", "all", "first", "third", "all", "all", "all", "all+every"}
	require.Equal(t, want, play())
	require.NotEqual(t, want, play(), "the counts go on")
	s.Reset()
	require.Equal(t, want, play(), "and begin again")
	own := tokenize
	own.Fault = "end-delay=1ms"
	s.Reset()
	require.Empty(t, applied(s, own))
	require.Equal(t, want, play(), "a fault of its own is not counted")
	require.NoError(t, s.Configure(s.state.Load().cfg))
	require.Equal(t, want, play(), "a new configuration counts from 1")
}

// However many requests come at once, exactly as many meet each fault as the numbers say.
func TestRulesCountAtConcurrency(t *testing.T) {
	s := Start(t, Config{Rules: []Rule{
		{Name: "first", Match: Match{First: 100}, Fault: Fault{Status: 503}},
		{Name: "every", Match: Match{Every: 7}, Fault: Fault{Status: 429}},
		{Name: "nth", Match: Match{Nth: 500}, Fault: Fault{Status: 500}},
	}})
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			for range 20 {
				res, err := s.Client().Post(s.URL+"/tokenize", "", strings.NewReader(`{"prompt":"a"}`))
				if err != nil {
					t.Error(err)
					return
				}
				io.Copy(io.Discard, res.Body)
				res.Body.Close()
			}
		})
	}
	wg.Wait()
	require.NoError(t, s.Close())
	statuses := map[int]int{}
	for _, r := range s.Journal() {
		statuses[r.Status]++
	}
	require.Equal(t, map[int]int{503: 100, 429: 640/7 - 100/7, 500: 1, 200: 640 - 100 - (640/7 - 100/7) - 1}, statuses)
}

// draws plays many requests, each several times, and returns who met the fault.
func draws(t testing.TB, seed uint64) string {
	s, err := New(Config{Seed: seed, Rules: []Rule{{Name: "1", Match: Match{Probability: 0.3}, Fault: Fault{EndDelay: ms}}}})
	require.NoError(t, err)
	defer s.Close()
	var b strings.Builder
	for i := range 300 {
		for range 3 {
			b.WriteString(applied(s, Request{Method: "POST", Path: "/tokenize", Body: fmt.Appendf(nil, `{"prompt":"%d"}`, i)}))
			b.WriteByte(',')
		}
	}
	return b.String()
}

const drawsVariable = "TEST_FAKESERVER_DRAWS"

// The draws are the same in another process, in another order, and different for another seed.
func TestProbability(t *testing.T) {
	if os.Getenv(drawsVariable) != "" {
		fmt.Println("draws: " + draws(t, 5))
		return
	}
	here := draws(t, 5)
	require.NotEqual(t, here, draws(t, 6))
	hits := strings.Count(here, "1")
	require.InDelta(t, 270, hits, 50) // 900 draws; a standard deviation is 14
	require.Contains(t, here, "1,,", "the same request again is another draw")

	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestProbability$", "-test.count=1")
	cmd.Env = append(os.Environ(), drawsVariable+"=1")
	out, err := cmd.Output()
	require.NoError(t, err)
	_, there, _ := strings.Cut(string(out), "draws: ")
	there, _, _ = strings.Cut(there, "\n")
	require.Equal(t, here, there)

	// Interleaved: each request keeps its own draws.
	s := newServer(t, Config{Seed: 5, Rules: []Rule{{Name: "1", Match: Match{Probability: 0.3}, Fault: Fault{EndDelay: ms}}}})
	got := make([][]string, 300)
	for range 3 {
		for i := 299; i >= 0; i-- {
			got[i] = append(got[i], applied(s, Request{Method: "POST", Path: "/tokenize", Body: fmt.Appendf(nil, `{"prompt":"%d"}`, i)}))
		}
	}
	var b strings.Builder
	for _, g := range got {
		b.WriteString(strings.Join(g, ",") + ",")
	}
	require.Equal(t, here, b.String())
}

// The rules' faults are applied one after the other; one that cannot be is told.
func TestRulesCombine(t *testing.T) {
	s := newServer(t, Config{Rules: []Rule{
		{Name: "slow", Fault: Fault{FirstDelay: 5 * ms}, Continue: true},
		{Match: Match{Endpoint: "/rerank"}, Fault: Fault{CommentEvery: 1, FirstDelay: time.Hour}},
		{Name: "cut", Fault: Fault{Cut: new(1), CutWith: "rst"}},
	}})
	p := s.state.Load().faulty(&Request{Method: "POST", Path: "/v1/completions", Body: []byte(`{"prompt":"a","stream":true}`)})
	require.Equal(t, []string{"slow", "cut"}, p.Rules)
	require.Equal(t, "first-delay=5ms + cut=1; cut-with=rst", p.Faults)
	require.Len(t, p.Events, 1)
	require.Equal(t, 5*ms, p.Events[0].At)
	require.Equal(t, EndReset, p.End)

	s = newServer(t, Config{Rules: []Rule{{Fault: Fault{CommentEvery: 1, FirstDelay: time.Hour}}}})
	p = s.state.Load().faulty(&Request{Method: "POST", Path: "/v1/completions", Body: []byte(`{"prompt":"a","stream":true}`)})
	require.Equal(t, 500, p.Status)
	require.Contains(t, bodyOf(t, p), "rule 1: comment-every: the answer would have over")
	require.Equal(t, []string{"rule 1"}, p.Rules)
}

// Fail twice, then succeed: the first example of the package, over HTTP, and the journal of it.
func TestFailThenSucceed(t *testing.T) {
	cfg := Config{Rules: []Rule{{Name: "twice", Match: Match{Endpoint: chat, First: 2}, Fault: Fault{Status: 503, RetryAfter: "1"}}}}
	virtual(t, cfg, func(t *testing.T, s *Server, c *http.Client) {
		for _, want := range []int{503, 503, 200} {
			res, _ := fetch(t, c, s.URL+chat, userMessage("a", ""), "Authorization", "Bearer secret-key")
			require.Equal(t, want, res.StatusCode)
		}
		synctest.Wait()
		records := s.Journal()
		require.Equal(t, []string{"twice"}, records[0].Rules)
		require.Equal(t, "status=503; retry-after=1", records[0].Faults)
		require.Empty(t, records[2].Rules)
		require.Empty(t, records[2].Faults)
		text, err := json.Marshal(records)
		require.NoError(t, err)
		require.NotContains(t, string(text), "secret-key")
		require.Contains(t, string(text), `"planned_end":"clean"`)
	})
}

// A configuration is replaced as a whole, for later requests only; a bad one changes nothing.
func TestConfigure(t *testing.T) {
	virtual(t, Config{TTFT: time.Second, OutputTokens: 1}, func(t *testing.T, s *Server, c *http.Client) {
		body := userMessage("a", `,"stream":true`)
		running := post(t, c, s.URL+chat, body)
		require.NoError(t, s.Configure(Config{TTFT: ms, Rules: []Rule{{Fault: Fault{Done: "off"}}}}))
		require.ErrorContains(t, s.Configure(Config{TTFT: -1}), "Config.TTFT")
		start := time.Now()
		_, text := fetch(t, c, s.URL+chat, body)
		require.Equal(t, ms, time.Since(start))
		require.NotContains(t, text, "[DONE]")
		b, err := io.ReadAll(running.Body)
		require.NoError(t, err)
		running.Body.Close()
		require.Equal(t, time.Second, time.Since(start))
		require.Len(t, chunks(t, string(b)), 2)
	})
}

// A stall and a hang end when the server does.
func TestCloseEndsFaults(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	for _, fault := range []string{"no-answer=hang", "stall=1", "stall=1; stall-for=1h", "stall=1; framing=close", "idle-close=1h"} {
		rawVirtual(t, Config{}, func(t *testing.T, s *Server, dial func() net.Conn) {
			c := dial()
			_, err := io.WriteString(c, rawRequest("POST", "/v1/completions", `{"prompt":"a","stream":true,"max_tokens":4}`, FaultHeader, fault))
			require.NoError(t, err)
			rawRead(t, c, time.Second)
			start := time.Now()
			require.NoError(t, s.Close())
			require.Zero(t, time.Since(start), fault)
			want := Canceled
			if fault == "idle-close=1h" {
				want = Complete
			}
			require.Equal(t, want, s.Journal()[0].End, fault)
		})
	}
}

// Without rules a request costs what it did before there were any.
func TestNoRulesNoCost(t *testing.T) {
	s := newServer(t, Config{})
	r := Request{Method: "POST", Path: "/v1/completions", Body: []byte(`{"prompt":"a","max_tokens":8,"stream":true}`)}
	plain := testing.AllocsPerRun(100, func() { s.Plan(r) })
	require.Equal(t, plain, testing.AllocsPerRun(100, func() { s.state.Load().faulty(&r) }))
	ctx := context.WithValue(t.Context(), connKey{}, &connection{})
	require.Zero(t, testing.AllocsPerRun(100, func() { connectionOf(ctx).gone() }))
}
