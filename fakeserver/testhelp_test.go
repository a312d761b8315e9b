package fakeserver

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.com/tokpace/pkg/memnet"
	"example.com/tokpace/pkg/tokens"
	"github.com/stretchr/testify/require"
)

// newServer returns a server that serves nothing: for plans and for its handler.
func newServer(t testing.TB, cfg Config) *Server {
	t.Helper()
	s, err := New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// virtual runs f in a bubble against a server on an in-memory network.
func virtual(t *testing.T, cfg Config, f func(t *testing.T, s *Server, c *http.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := memnet.Listen()
		s, err := New(cfg)
		require.NoError(t, err)
		s.URL = "http://fake"
		go s.Serve(l)
		tr := &http.Transport{DialContext: l.DialContext, MaxIdleConnsPerHost: 64}
		defer func() {
			tr.CloseIdleConnections()
			require.NoError(t, s.Close())
		}()
		f(t, s, &http.Client{Transport: tr})
	})
}

// post sends a body; extra are header names and values in turn. The caller closes the answer.
func post(t testing.TB, c *http.Client, url, body string, extra ...string) *http.Response {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
	require.NoError(t, err)
	for i := 0; i < len(extra); i += 2 {
		req.Header.Set(extra[i], extra[i+1])
	}
	res, err := c.Do(req)
	require.NoError(t, err)
	return res
}

// fetch posts and reads the whole answer.
func fetch(t testing.TB, c *http.Client, url, body string, extra ...string) (*http.Response, string) {
	t.Helper()
	res := post(t, c, url, body, extra...)
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res, string(b)
}

// planOf plans a POST.
func planOf(s *Server, path, body string) *Plan {
	return s.Plan(Request{Method: http.MethodPost, Path: path, Body: []byte(body)})
}

// bodyOf joins what a plan writes.
func bodyOf(t testing.TB, p *Plan) string {
	t.Helper()
	var b strings.Builder
	for _, e := range p.Events {
		if e.Section == nil {
			b.Write(e.Data)
			continue
		}
		_, err := io.Copy(&b, io.NewSectionReader(e.Section, 0, e.Size()))
		require.NoError(t, err)
	}
	return b.String()
}

// obj decodes a JSON object.
func obj(t testing.TB, text string) map[string]any {
	t.Helper()
	var m map[string]any
	require.NoError(t, json.Unmarshal([]byte(text), &m), "%s", text)
	return m
}

// dig walks objects by key and arrays by index.
func dig(v any, path ...any) any {
	for _, step := range path {
		switch step := step.(type) {
		case string:
			m, ok := v.(map[string]any)
			if !ok {
				return nil
			}
			v = m[step]
		case int:
			a, ok := v.([]any)
			if !ok || step >= len(a) {
				return nil
			}
			v = a[step]
		}
	}
	return v
}

// chunks decodes the events of a stream, which must end in [DONE]; each is one data line.
func chunks(t testing.TB, body string) []map[string]any {
	t.Helper()
	require.True(t, strings.HasSuffix(body, "\n\ndata: [DONE]\n\n"), "%s", body)
	var out []map[string]any
	for event := range strings.SplitSeq(strings.TrimSuffix(body, "data: [DONE]\n\n"), "\n\n") {
		if event != "" {
			require.True(t, strings.HasPrefix(event, "data: {"), "%q", event)
			out = append(out, obj(t, strings.TrimPrefix(event, "data: ")))
		}
	}
	return out
}

// words returns a text of n tokens.
func words(n int) string {
	var b strings.Builder
	for i := range n {
		_, piece := tokens.Word(uint64(i))
		b.WriteString(piece)
	}
	return b.String()
}

// pngURL returns a data URL of an image of the size.
func pngURL(t testing.TB, width, height int) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, png.Encode(&b, image.NewGray(image.Rect(0, 0, width, height))))
	return "data:image/png;base64," + base64.StdEncoding.EncodeToString(b.Bytes())
}

// userMessage is a chat body with one message and more members.
func userMessage(text, more string) string {
	return fmt.Sprintf(`{"messages":[{"role":"user","content":%q}]%s}`, text, more)
}

const ms = time.Millisecond
