package fakeserver

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestFaultTextErrors(t *testing.T) {
	noLeaks(t)
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
	noLeaks(t)
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
	noLeaks(t)
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

// A configuration is replaced as a whole, for later requests only; a bad one changes nothing.
func TestConfigure(t *testing.T) {
	noLeaks(t)
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

// Without rules a request costs what it did before there were any.
func TestNoRulesNoCost(t *testing.T) {
	noLeaks(t)
	s := newServer(t, Config{})
	r := Request{Method: "POST", Path: "/v1/completions", Body: []byte(`{"prompt":"a","max_tokens":8,"stream":true}`)}
	plain := testing.AllocsPerRun(100, func() { s.state.Load().plan(&r) })
	require.Equal(t, plain, testing.AllocsPerRun(100, func() { s.state.Load().faulty(&r) }))
	h := httptest.NewRequest("GET", "/", nil)
	h = h.WithContext(s.ConnContext(t.Context(), nil))
	require.NotNil(t, connectionOf(h))
	require.Zero(t, testing.AllocsPerRun(100, func() { connectionOf(h).gone() }))
}
