package api

import (
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSecretsInEverySpelling(t *testing.T) {
	for _, key := range []string{"sk-0123456789", "YWJj+/8xZGVm/w==", `mark"x\y&z<w>é%41`, "ab\tcd"} {
		s := NewSecrets(key)
		quoted, err := json.Marshal("the key " + key + " is wrong")
		require.NoError(t, err)
		for _, text := range []string{
			key, "a" + key + "b" + key, string(quoted), fmt.Sprintf("%q", "x "+key), fmt.Sprintf("%q", quoted),
			"https://h/?key=" + url.QueryEscape(key) + "&x", "https://h/" + url.PathEscape(key) + "/x", html.EscapeString("<b>" + key),
			strings.ReplaceAll(key, "/", `\/`),
		} {
			got := s.Redact(text)
			require.NotContains(t, got, key[:4], text)
			require.Contains(t, got, "[redacted]", text)
		}
	}
}

// What a cut leaves of a secret is hidden too, wherever the mark of the cut stands.
func TestSecretsThatAreCut(t *testing.T) {
	const key = "sk-0123456789"
	s := NewSecrets("other words", key)
	for n := minSecret; n < len(key); n++ {
		for _, form := range []string{"wrong key %s…", `status line: "HTTP/1.1 %s"…`, `redirected to /%s…: not followed`, `"%s"… and "%s"…`} {
			got := s.Redact(strings.ReplaceAll(form, "%s", key[:n]))
			require.Equal(t, strings.ReplaceAll(form, "%s", "[redacted]"), got)
		}
	}
	require.Equal(t, "sk-…", s.Redact("sk-…"))
	require.Equal(t, "nothing here…", s.Redact("nothing here…"))
	require.Equal(t, key, Secrets{}.Redact(key))
	require.Equal(t, "abc", NewSecrets("abc", "").Redact("abc"), "too short to be a secret")
}

func TestWhereSecretsAre(t *testing.T) {
	require.ElementsMatch(t, []string{"Bearer one", "one", "two", "", "a=three; b=four", "b=four", "three", "four"}, HeaderSecrets(http.Header{
		"Authorization": {"Bearer one"}, "X-Api-Key": {"two"}, "Cookie": {"a=three; b=four"}, "X-Team": {"infra"},
	}))
	u, err := url.Parse("http://me:pass-word@h/v1?api-key=a%2fb&api-version=7&sig=c+d")
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"pass-word", "bWU6cGFzcy13b3Jk", "a%2fb", "a/b", "c+d", "c d"}, URLSecrets(u, IsSecretName))
	u, err = url.Parse("http://h/v1")
	require.NoError(t, err)
	require.Empty(t, URLSecrets(u, IsSecretName))
}
