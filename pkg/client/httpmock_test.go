package client_test

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/jarcoal/httpmock"
	"github.com/stretchr/testify/require"

	"example.com/tokpace/pkg/api"
	"example.com/tokpace/pkg/client"
)

const mockBase = "http://mock.invalid/gw/openai/v1"

// mocked is a client of a mock transport that answers one URL.
func mocked(t *testing.T, url string, responder httpmock.Responder) (*client.Client, *httpmock.MockTransport) {
	t.Helper()
	mock := httpmock.NewMockTransport()
	mock.RegisterResponder(http.MethodPost, url, responder)
	return &client.Client{BaseURL: mockBase, Transport: mock}, mock
}

func answer(status int, contentType, body string, header ...string) httpmock.Responder {
	resp := httpmock.NewStringResponse(status, body)
	resp.Header.Set("Content-Type", contentType)
	for i := 0; i < len(header); i += 2 {
		resp.Header.Set(header[i], header[i+1])
	}
	return httpmock.ResponderFromResponse(resp)
}

const (
	chatURL   = "http://mock.invalid/gw/openai/v1/chat/completions"
	embedURL  = "http://mock.invalid/gw/openai/v1/embeddings"
	rerankURL = "http://mock.invalid/gw/openai/v1/rerank"
)

func TestStatusMapping(t *testing.T) {
	noLeaks(t)
	for _, c := range []struct {
		status  int
		body    string
		message string
	}{
		{400, `{"error":{"message":"max_tokens is too large","type":"BadRequestError","param":null,"code":400}}`, "max_tokens is too large"},
		{400, `{"object":"error","message":"old shape","type":"BadRequestError","code":400}`, "old shape"},
		{401, `{"error":{"message":"Incorrect API key provided: sk-verysecret."}}`, "Incorrect API key provided: [redacted]."},
		{404, `{"detail":"Not Found"}`, "Not Found"},
		{404, ``, "Not Found"},
		{413, "<html>\n<h1>too large</h1>\r\n</html>", "<html> <h1>too large</h1> </html>"},
		{422, `{"error":"input must have less than 512 tokens","error_type":"Validation"}`, "input must have less than 512 tokens"},
		{429, `{"error":{"message":"Rate limit"}}`, "Rate limit"},
		{500, "\x1b[31mred\x07", "\uFFFD[31mred\uFFFD"},
		{502, `{"message":"bad gateway"}`, "bad gateway"},
		{529, ``, ""},
	} {
		t.Run(http.StatusText(c.status)+c.message, func(t *testing.T) {
			cl, mock := mocked(t, chatURL, answer(c.status, "text/plain", c.body))
			cl.APIKey = "sk-verysecret"
			ex := cl.Do(t.Context(), chatRequest(t))
			require.False(t, ex.OK)
			require.Equal(t, api.HTTPStatus, ex.Error.Class)
			require.Equal(t, c.status, ex.Error.Status)
			require.Equal(t, c.status, ex.Status)
			require.Equal(t, c.message, ex.Error.Message)
			require.Equal(t, 1, mock.GetTotalCallCount())
		})
	}
}

func TestSuccessStatuses(t *testing.T) {
	noLeaks(t)
	body := `{"choices":[{"index":0,"message":{"content":"hi"},"finish_reason":"stop"}]}`
	req, err := api.NewChat("m", nil, api.Generation{})
	require.NoError(t, err)
	for _, status := range []int{200, 201, 203} {
		cl, _ := mocked(t, chatURL, answer(status, "application/json", body))
		require.True(t, cl.Do(t.Context(), req).OK)
	}
	cl, _ := mocked(t, chatURL, answer(204, "", ""))
	require.Equal(t, api.Malformed, cl.Do(t.Context(), req).Error.Class)
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	noLeaks(t)
	for _, status := range []int{301, 302, 303, 307, 308} {
		cl, mock := mocked(t, chatURL, answer(status, "text/html", "<a>moved</a>", "Location", "https://user:secret@other.invalid/v1/chat/completions?key=secret"))
		ex := cl.Do(t.Context(), chatRequest(t))
		require.Equal(t, api.HTTPStatus, ex.Error.Class)
		require.Equal(t, status, ex.Error.Status)
		require.Contains(t, ex.Error.Message, "https://other.invalid/v1/chat/completions")
		require.NotContains(t, ex.Error.Message, "secret")
		require.Equal(t, 1, mock.GetTotalCallCount())
	}
}

func TestRequestHeader(t *testing.T) {
	noLeaks(t)
	var seen http.Header
	var host, query string
	var body []byte
	mock := httpmock.NewMockTransport()
	mock.RegisterResponder(http.MethodPost, chatURL, func(req *http.Request) (*http.Response, error) {
		seen, host, query = req.Header, req.Host, req.URL.RawQuery
		body, _ = io.ReadAll(req.Body)
		return httpmock.NewStringResponse(200, "{}"), nil
	})
	cl := &client.Client{
		BaseURL: mockBase + "/?api-version=1", Transport: mock, APIKey: "sk-1",
		Header: http.Header{"x-one": {"1"}, "X-Two": {"2"}, "Host": {"other.invalid"}},
	}
	req := chatRequest(t)
	req.Header = http.Header{"X-Two": {"3"}}
	cl.Do(t.Context(), req)
	require.Equal(t, "Bearer sk-1", seen.Get("Authorization"))
	require.Equal(t, "application/json", seen.Get("Content-Type"))
	require.Equal(t, "text/event-stream", seen.Get("Accept"))
	require.Equal(t, "1", seen.Get("X-One"))
	require.Equal(t, []string{"3"}, seen["X-Two"])
	require.Equal(t, "other.invalid", host)
	require.Equal(t, "api-version=1", query)
	require.Equal(t, string(req.Body), string(body))
}

func TestUserOfURL(t *testing.T) {
	noLeaks(t)
	var seen string
	mock := httpmock.NewMockTransport()
	mock.RegisterNoResponder(func(req *http.Request) (*http.Response, error) {
		seen = req.Header.Get("Authorization")
		return httpmock.NewStringResponse(401, "no: "+seen+" pass-word"), nil
	})
	cl := &client.Client{BaseURL: "http://me:pass-word@mock.invalid", Transport: mock}
	ex := cl.Do(t.Context(), chatRequest(t))
	require.Equal(t, "Basic bWU6cGFzcy13b3Jk", seen)
	require.Equal(t, "no: Basic [redacted] [redacted]", ex.Error.Message)
}

// A secret is not shown wherever it stands in a server's words, also where the
// message is cut inside it.
func TestSecretsAreNotRepeated(t *testing.T) {
	noLeaks(t)
	const key = "sk-abcdefghijklmnop"
	for n := range 220 {
		cl, _ := mocked(t, chatURL, answer(401, "text/plain", strings.Repeat("x", n)+key+strings.Repeat("y", 100)))
		cl.APIKey = key
		ex := cl.Do(t.Context(), chatRequest(t))
		require.NotContains(t, ex.Error.Message, key[:5], "after %d bytes", n)
	}
}

func TestUsageFallback(t *testing.T) {
	noLeaks(t)
	embedding := func(usage string) string { return `{"data":[{"index":0,"embedding":[1,2]}]` + usage + `}` }
	for name, c := range map[string]struct {
		body   string
		client api.Opt[int64]
		in     api.Opt[int64]
		source string
	}{
		"server's":             {embedding(`,"usage":{"prompt_tokens":7,"total_tokens":7}`), api.Some[int64](5), api.Some[int64](7), "server"},
		"no usage":             {embedding(""), api.Some[int64](5), api.Some[int64](5), "client"},
		"usage null":           {embedding(`,"usage":null`), api.Some[int64](5), api.Some[int64](5), "client"},
		"usage without prompt": {embedding(`,"usage":{"completion_tokens":1}`), api.Some[int64](5), api.Some[int64](5), "client"},
		"nobody knows":         {embedding(""), api.Opt[int64]{}, api.Opt[int64]{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			cl, _ := mocked(t, embedURL, answer(200, "application/json", c.body))
			req, err := api.NewEmbeddings("m", []string{"a"}, "", "")
			require.NoError(t, err)
			req.InputTokens = c.client
			ex := cl.Do(t.Context(), req)
			require.True(t, ex.OK, "%v", ex.Error)
			require.Equal(t, c.in, ex.InputTokens)
			require.Equal(t, c.source, ex.InputSource)
		})
	}
	t.Run("output text is counted", func(t *testing.T) {
		body := tok("one two") + tok(" three") + fins + done
		cl, _ := mocked(t, chatURL, answer(200, "text/event-stream", body))
		cl.CountTokens = func(s string) int { return len(strings.Fields(s)) }
		cl.DiscardText = true
		ex := cl.Do(t.Context(), chatRequest(t))
		require.True(t, ex.OK, "%v", ex.Error)
		require.Equal(t, api.Some[int64](3), ex.OutputTokens)
		require.Equal(t, "client", ex.OutputSource)
		require.Empty(t, ex.Text)
		require.False(t, ex.TPOT.Known, "a client's count is no base for a latency")
	})
}

func TestInBandErrorsOfPlainAnswers(t *testing.T) {
	noLeaks(t)
	for _, body := range []string{
		`{"error":{"message":"boom","code":503}}`,
		`{"error":"boom"}`,
		`{"object":"error","message":"boom"}`,
	} {
		for url, req := range map[string]*api.Request{chatURL: {API: api.Chat}, embedURL: {API: api.Embeddings}, rerankURL: {API: api.Rerank}} {
			cl, _ := mocked(t, url, answer(200, "application/json", body))
			ex := cl.Do(t.Context(), req)
			require.False(t, ex.OK)
			require.Equal(t, api.ServerError, ex.Error.Class)
			require.Equal(t, "boom", ex.Error.Message)
		}
	}
}

func TestBodyLimit(t *testing.T) {
	noLeaks(t)
	body := `{"choices":[{"index":0,"message":{"content":"` + strings.Repeat("x", 2000) + `"},"finish_reason":"stop"}]}`
	cl, _ := mocked(t, chatURL, answer(200, "application/json", body))
	cl.MaxBody = 1000
	ex := cl.Do(t.Context(), &api.Request{API: api.Chat})
	require.Equal(t, api.Malformed, ex.Error.Class)
	require.Equal(t, "body longer than the limit of 1000 bytes", ex.Error.Message)
	cl.MaxBody = len(body)
	require.True(t, cl.Do(t.Context(), &api.Request{API: api.Chat}).OK)
}

func TestTransportErrors(t *testing.T) {
	noLeaks(t)
	cl, _ := mocked(t, chatURL, httpmock.NewErrorResponder(io.ErrUnexpectedEOF))
	ex := cl.Do(t.Context(), chatRequest(t))
	require.False(t, ex.OK)
	require.NotEmpty(t, ex.Error.Message)
}

// Nor where the message goes on behind the cut, and not in another spelling.
func TestSecretsAreNotRepeatedInside(t *testing.T) {
	noLeaks(t)
	const key = "sk-abc+/8xZ&fghij=="
	for n := range 220 {
		pad := strings.Repeat("x", n)
		for name, respond := range map[string]httpmock.Responder{
			"redirect":   answer(307, "", "", "Location", "/"+pad+url.QueryEscape(key)+strings.Repeat("y", 200)),
			"no choices": answer(200, "application/json", `{"x":"`+pad+strings.ReplaceAll(key, "&", `\u0026`)+strings.Repeat("y", 200)+`"}`),
			"transport":  httpmock.NewErrorResponder(errors.New("read " + strconv.Quote(pad+key[:6]) + "…: broken")),
		} {
			cl, _ := mocked(t, chatURL, respond)
			cl.APIKey = key
			ex := cl.Do(t.Context(), &api.Request{API: api.Chat})
			require.NotContains(t, ex.Error.Message, key[:5], "%s after %d bytes", name, n)
		}
	}
}
