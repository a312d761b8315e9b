package api_test

import (
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/tokpace/pkg/api"
)

func TestJoinURL(t *testing.T) {
	const chat = "/v1/chat/completions"
	for _, tt := range []struct{ base, path, want string }{
		{"http://127.0.0.1:8000", chat, "http://127.0.0.1:8000/v1/chat/completions"},
		{"http://127.0.0.1:8000/", chat, "http://127.0.0.1:8000/v1/chat/completions"},
		{"http://127.0.0.1:8000/v1", chat, "http://127.0.0.1:8000/v1/chat/completions"},
		{"http://127.0.0.1:8000/v1/", chat, "http://127.0.0.1:8000/v1/chat/completions"},
		{"http://127.0.0.1:8000/v1//", chat, "http://127.0.0.1:8000/v1/chat/completions"},
		{"https://gw/openai/v1", chat, "https://gw/openai/v1/chat/completions"},
		{"https://gw/openai", chat, "https://gw/openai/v1/chat/completions"},
		{"https://gw/v1/v1", chat, "https://gw/v1/v1/chat/completions"},
		{"https://gw/openai-v1", chat, "https://gw/openai-v1/v1/chat/completions"},
		{"https://gw/v1beta", chat, "https://gw/v1beta/v1/chat/completions"},
		{"https://gw/v1/openai", chat, "https://gw/v1/openai/v1/chat/completions"},
		{"https://gw/v1", "/pooling", "https://gw/pooling"},
		{"https://gw/v1", "custom/path/", "https://gw/custom/path/"},
		{"https://gw/v1", "//two", ""},
		{"https://gw/v1?api-version=2", chat, "https://gw/v1/chat/completions?api-version=2"},
		{"https://gw?a=1&b=%2F", chat + "?c=3", "https://gw/v1/chat/completions?a=1&b=%2F&c=3"},
		{"https://gw/", "/x?q=a%20b", "https://gw/x?q=a%20b"},
		{"https://gw/a%2Fb/v1", chat, "https://gw/a%2Fb/v1/chat/completions"},
		{"https://gw", "/models/org%2Fname/infer", "https://gw/models/org%2Fname/infer"},
		{"https://gw/a%20b", "/c%3Fd", "https://gw/a%20b/c%3Fd"},
		{"https://gw/a b", "/é", "https://gw/a%20b/%C3%A9"},
		{"https://gw/deployments/x(1)", chat, "https://gw/deployments/x(1)/v1/chat/completions"},
		{"https://gw/v1#part", chat + "#other", "https://gw/v1/chat/completions"},
		{"https://user:secret@gw/v1", chat, "https://user:secret@gw/v1/chat/completions"},
		{"http://[::1]:8000/v1", chat, "http://[::1]:8000/v1/chat/completions"},
		{"HTTP://GW/v1", chat, "http://GW/v1/chat/completions"},
	} {
		got, err := api.JoinURL(tt.base, tt.path)
		if tt.want == "" {
			require.ErrorContains(t, err, "the endpoint is not a path", "%s + %s", tt.base, tt.path)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, tt.want, got, "%s + %s", tt.base, tt.path)
		u, err := url.Parse(got)
		require.NoError(t, err)
		require.Equal(t, got, u.String(), "survives what net/http does with it")
	}
}

func TestWrongURLs(t *testing.T) {
	for _, tt := range []struct{ base, want string }{
		{"", "no base URL"},
		{"localhost:8000", "must begin with http:// or https://"},
		{"127.0.0.1:8000/v1", "cannot be read"},
		{"gw/v1", `the base URL "gw/v1" must begin with http:// or https://`},
		{"ftp://gw/v1", `the base URL "ftp://gw/v1" must begin`},
		{"http://", "has no host"},
		{"http:///v1", "has no host"},
		{"http://:8000", "has no host"},
		{"http:gw:8000", "has no host"},
		{"http://gw:port", "cannot be read"},
		{"http://gw/%zz", "cannot be read"},
		{"http://g\x00w", "cannot be read"},
		{"user:secret@gw:80/v1", "must begin"},
		{"//user:secret@gw/v1", "must begin"},
		{"ftp://user:secret@gw/v1?key=secret#secret", `the base URL "ftp://gw/v1" must begin`},
		{"http:user:secret@gw", "has no host"},
		{"http:///user:secret@gw", "has no host"},
		{"x/user:secret@gw", "must begin"},
		{"http://user:secret@/v1", "has no host"},
		{"http://user:secret@gw:port", "cannot be read"},
	} {
		_, err := api.JoinURL(tt.base, "/v1/models")
		require.ErrorContains(t, err, tt.want, "%s", tt.base)
		require.NotContains(t, err.Error(), "secret")
		require.NotContains(t, err.Error(), "user")
		requireOneLine(t, err.Error())
		_, again := api.CheckBaseURL(tt.base)
		require.Equal(t, err, again)
	}
	for _, endpoint := range []string{"http://user:secret@gw/v1", "//user:secret@gw/x", "user:secret", "/%zz?secret", ":", "/\x7fsecret"} {
		_, err := api.JoinURL("http://gw", endpoint)
		require.ErrorContains(t, err, "the endpoint is not a path", "%s", endpoint)
		require.NotContains(t, err.Error(), "secret")
	}
}

func TestRedactURL(t *testing.T) {
	for in, want := range map[string]string{
		"https://user:secret@gw:8000/a%2Fb/v1?key=secret#secret": "https://gw:8000/a%2Fb/v1",
		"https://gw?": "https://gw",
		"http://gw/":  "http://gw/",
	} {
		u, err := url.Parse(in)
		require.NoError(t, err)
		require.Equal(t, want, api.RedactURL(u))
		require.Equal(t, in, u.String(), "the URL itself stays as it is")
	}
}

func TestLookup(t *testing.T) {
	require.Equal(t, []string{"openai", "openai-chat", "openai-embeddings", "vllm-pooling", "vllm-rerank"}, api.Names())
	for _, name := range api.Names() {
		a, err := api.Lookup(name)
		require.NoError(t, err)
		require.Equal(t, name, a.Name)
		require.Equal(t, a == api.Embeddings || a == api.Pooling, a.HasVectors())
	}
	_, err := api.Lookup("chat")
	require.EqualError(t, err, `unknown API "chat": choose one of openai, openai-chat, openai-embeddings, vllm-pooling, vllm-rerank`)
}
