package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

// cleanEnv removes what the environment could tell a probe.
func cleanEnv(t *testing.T) {
	for _, name := range []string{"BASE_URL", "API_KEY", "MODEL"} {
		t.Setenv("TOKPACE_"+name, "")
		t.Setenv("OPENAI_"+name, "")
	}
	t.Setenv("TOKPACE_ALLOW_REMOTE", "")
	t.Setenv("TOKPACE_TRANSPORT", "")
}

// command runs the command in this process.
func command(stdin string, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = run(args, strings.NewReader(stdin), &out, &errs)
	return code, out.String(), errs.String()
}

// requireOneLine demands what every error looks like.
func requireOneLine(t *testing.T, stderr string) {
	t.Helper()
	require.True(t, strings.HasPrefix(stderr, "tokpace: ") && strings.Index(stderr, "\n") == len(stderr)-1, "%q", stderr)
}

// arrived is one request as a server saw it.
type arrived struct {
	method, uri string
	header      http.Header
	body        string
}

// recorder answers every request with answer and keeps what arrived.
func recorder(t *testing.T, answer string) (url string, requests func() []arrived) {
	seen := make(chan arrived, 16)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		seen <- arrived{r.Method, r.RequestURI, r.Header, string(body)}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(srv.Close)
	return srv.URL, func() (all []arrived) {
		for len(seen) > 0 {
			all = append(all, <-seen)
		}
		return all
	}
}

const plainAnswer = `{"choices":[{"index":0,"text":"hi","finish_reason":"stop"}]}`

func TestBodyGoesOutByteForByte(t *testing.T) {
	cleanEnv(t)
	url, requests := recorder(t, plainAnswer)
	for _, body := range []string{
		"{ \"prompt\" :\t\"<&>\u2028\",\r\n  \"b\":1.50, \"a\":1e2, \"a\":2 }\n\n",
		"not JSON \x00\xff\xfe",
		" ",
	} {
		file := filepath.Join(t.TempDir(), "body")
		require.NoError(t, os.WriteFile(file, []byte(body), 0o600))
		for _, args := range [][]string{{"-body", file}, {"-body", "-"}} {
			args = append([]string{"probe", "-api", "openai", "-base-url", url + "/v1", "-json"}, args...)
			code, _, stderr := command(body, args...)
			require.Equal(t, 0, code, stderr)
			all := requests()
			require.Len(t, all, 1, "one request and no other")
			require.Equal(t, body, all[0].body)
			require.Equal(t, "POST", all[0].method)
			require.Equal(t, "/v1/completions", all[0].uri)
		}
	}
}

func TestWhatGoesOut(t *testing.T) {
	cleanEnv(t)
	t.Setenv("OPENAI_API_KEY", "sk-openai")
	url, requests := recorder(t, plainAnswer)
	args := []string{"probe", "-api", "openai", "-base-url", url + "/gw/v1?a=1", "-endpoint", "/custom/path?b=2",
		"-model", "m<1>", "-header", "X-One=1=1", "-header", "X-Two=", "-header", "x-one=2"}
	code, _, stderr := command("", args...)
	require.Equal(t, 0, code, stderr)
	t.Setenv("TOKPACE_API_KEY", "sk-tokpace")
	code, _, stderr = command("", args...)
	require.Equal(t, 0, code, stderr)

	all := requests()
	require.Len(t, all, 2)
	require.Equal(t, "/gw/custom/path?a=1&b=2", all[0].uri)
	require.Equal(t, []string{"1=1", "2"}, all[0].header["X-One"])
	require.Equal(t, []string{""}, all[0].header["X-Two"])
	require.Equal(t, "Bearer sk-openai", all[0].header.Get("Authorization"))
	require.Equal(t, "Bearer sk-tokpace", all[1].header.Get("Authorization"))
	require.JSONEq(t, `{"model":"m<1>","prompt":"Count from one to ten in words.","max_tokens":16,
		"stream":true,"stream_options":{"include_usage":true}}`, all[0].body)
}

// The key and its relatives are shown in no mode, whatever the server repeats.
func TestSecretsAreNeverShown(t *testing.T) {
	cleanEnv(t)
	const key = "sk-very-<secret>"
	t.Setenv("TOKPACE_API_KEY", key)
	for _, status := range []int{200, 401} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			said := r.Header.Get("Authorization") + " " + r.Header.Get("X-Token") + " " + r.URL.Query().Get("api-key")
			var answer any = map[string]any{"choices": []any{map[string]any{
				"message": map[string]any{"content": "you said " + said, "reasoning": said,
					"tool_calls": []any{map[string]any{"id": said, "function": map[string]any{"name": said, "arguments": said}}}},
				"finish_reason": said,
			}}}
			if status != 200 {
				answer = map[string]any{"error": map[string]any{"message": "wrong key: " + said}}
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_ = json.NewEncoder(w).Encode(answer)
		}))
		base := strings.Replace(srv.URL, "://", "://user:pass-secret@", 1) + "/v1?api-key=query-secret&tag=shown"
		for _, mode := range []string{"-json=true", "-json=false"} {
			code, stdout, stderr := command(`{"stream":false}`, "probe", "-api", "openai-chat", "-base-url", base,
				"-header", "X-Token=header-secret", "-body", "-", mode)
			require.Equal(t, map[int]int{200: 0, 401: 1}[status], code)
			require.Contains(t, stdout, "Bearer [redacted] [redacted] [redacted]", "the server did repeat them")
			require.NotContains(t, stdout+stderr, "secret")
		}
		srv.Close()
	}
	// Nor in what is said before anything is sent.
	t.Setenv("TOKPACE_API_KEY", "sk-secret\n")
	for _, args := range [][]string{
		{"-base-url", "http://127.0.0.1:1"},
		{"-base-url", "ftp://u:secret@host/?k=secret"},
		{"-base-url", "http://u:secret@host:port"},
		{"-base-url", "http://127.0.0.1:1", "-header", "X=secret\r\nY: 1"},
		{"-base-url", "http://127.0.0.1:1", "-header", "Authorization: secret=1"},
		{"-base-url", "http://127.0.0.1:1", "-api-key=secret"},
		{"-base-url", "http://127.0.0.1:1", "-endpoint", "http://u:secret@host"},
		{"http://u:secret@127.0.0.1:1"},
	} {
		code, stdout, stderr := command("", append([]string{"probe", "-api", "openai", "-model", "m"}, args...)...)
		require.Equal(t, 2, code)
		require.Empty(t, stdout)
		requireOneLine(t, stderr)
		require.NotContains(t, stderr, "secret")
	}
}

// What a server says cannot move the cursor or turn the text around.
func TestControlCharactersAreNotPrinted(t *testing.T) {
	cleanEnv(t)
	const nasty = "a\x1b]0;title\x07\x1b[2J\u009b31m\u007f\u202eb\r\n\u200f"
	answer, err := json.Marshal(map[string]any{"choices": []any{map[string]any{
		"message": map[string]any{"content": nasty, "reasoning": nasty,
			"tool_calls": []any{map[string]any{"function": map[string]any{"name": nasty, "arguments": nasty}}}},
		"finish_reason": nasty,
	}}})
	require.NoError(t, err)
	failure, err := json.Marshal(map[string]any{"error": nasty})
	require.NoError(t, err)
	for code, body := range []string{string(answer), string(failure)} {
		url, _ := recorder(t, body)
		args := []string{"probe", "-api", "openai-chat", "-base-url", url, "-body", "-"}
		got, stdout, stderr := command(`{}`, args...)
		require.Equal(t, code, got, stderr)
		require.NotContains(t, stdout+stderr, "\r")
		require.False(t, strings.ContainsAny(stdout+stderr, "\x1b\x07\u009b\u007f\u202e\u200f"), "%q", stdout+stderr)

		got, stdout, _ = command(`{}`, append(args, "-json")...)
		require.Equal(t, code, got)
		require.False(t, strings.ContainsAny(stdout, "\x1b\x07\u009b\u007f\r"), "%q", stdout)
		if code == 0 {
			var record struct{ Text string }
			require.NoError(t, json.Unmarshal([]byte(stdout), &record))
			require.Equal(t, nasty, record.Text, "escaped, not changed")
		}
	}
}

func TestRecordIsNotHTMLEscaped(t *testing.T) {
	cleanEnv(t)
	url, _ := recorder(t, `{"choices":[{"text":"<b> & é 😀","finish_reason":"stop"}]}`)
	code, stdout, _ := command("{}", "probe", "-api", "openai", "-base-url", url, "-body", "-", "-json")
	require.Equal(t, 0, code)
	require.Contains(t, stdout, `"text":"<b> & é 😀"`)
	require.Equal(t, len(stdout)-1, strings.Index(stdout, "\n"))
}

func TestModelsOddAnswers(t *testing.T) {
	cleanEnv(t)
	for _, body := range []string{``, `{}`, `[]`, `{"data":[]}`, `{"data":[{}]}`, `<html>`} {
		url, requests := recorder(t, body)
		code, stdout, stderr := command("", "probe", "-api", "openai", "-base-url", url)
		require.Equal(t, 2, code, body)
		require.Empty(t, stdout)
		requireOneLine(t, stderr)
		require.Contains(t, stderr, "/v1/models lists no model")
		require.Len(t, requests(), 1, "and nothing was sent to the API")
	}
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	defer srv.Close()
	code, _, stderr := command("", "probe", "-api", "openai", "-base-url", srv.URL)
	require.Equal(t, 2, code)
	requireOneLine(t, stderr)
	require.Contains(t, stderr, "could not list its models")
}

// fullDisk fails every write.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

func TestWriteErrors(t *testing.T) {
	cleanEnv(t)
	url, _ := recorder(t, plainAnswer)
	for _, args := range [][]string{
		{"probe", "-api", "openai", "-base-url", url, "-model", "m"},
		{"probe", "-api", "openai", "-base-url", url, "-model", "m", "-json"},
		{"probe", "-api", "openai", "-base-url", "http://127.0.0.1:1", "-model", "m"},
		{"version"},
		{"help", "probe"},
		{"-h"},
		{"completion", "bash"},
	} {
		var stderr bytes.Buffer
		require.Equal(t, 2, run(args, strings.NewReader(""), fullDisk{}, &stderr), args)
		requireOneLine(t, stderr.String())
		require.Contains(t, stderr.String(), "no space left on device")
	}
}

func TestUnreadableBody(t *testing.T) {
	cleanEnv(t)
	var stdout, stderr bytes.Buffer
	broken := io.MultiReader(strings.NewReader("{"), iotest.ErrReader(errors.New("the pipe broke")))
	code := run([]string{"probe", "-api", "openai", "-base-url", "http://127.0.0.1:1", "-body", "-"}, broken, &stdout, &stderr)
	require.Equal(t, 2, code)
	require.Empty(t, stdout.String())
	require.Equal(t, "tokpace: cannot read the -body: the pipe broke\n", stderr.String())
	code, _, said := command("", "probe", "-api", "openai", "-base-url", "http://127.0.0.1:1", "-body", t.TempDir())
	require.Equal(t, 2, code)
	requireOneLine(t, said)
}
