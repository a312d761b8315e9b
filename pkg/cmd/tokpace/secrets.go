package main

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"example.com/tokpace/pkg/api"
	"example.com/tokpace/pkg/client"
)

// secrets are words that must not be printed, whoever said them: servers repeat
// keys in errors, and echo servers in answers. The longest come first.
type secrets []string

// shortestSecret is the length under which a word is no secret but a nuisance to
// replace.
const shortestSecret = 4

// findSecrets gathers the key, credentials in headers, and those in the URL.
func findSecrets(key string, h http.Header, u *url.URL) secrets {
	words := []string{key}
	for name, values := range h {
		if !isSecretName(name) {
			continue
		}
		for _, v := range values {
			_, credentials, _ := strings.Cut(v, " ") // behind a scheme such as Bearer
			words = append(words, v, credentials)
		}
	}
	if password, ok := u.User.Password(); ok {
		words = append(words, password)
	}
	for name, values := range u.Query() {
		if isSecretName(name) {
			for _, v := range values {
				words = append(words, v, url.QueryEscape(v))
			}
		}
	}
	words = slices.DeleteFunc(words, func(w string) bool { return len(w) < shortestSecret })
	slices.SortFunc(words, func(a, b string) int { return len(b) - len(a) })
	return words
}

func isSecretName(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc([]string{"auth", "key", "token", "secret", "cookie", "pass", "sig"},
		func(part string) bool { return strings.Contains(name, part) })
}

func (s secrets) redact(text string) string {
	for _, secret := range s {
		text = strings.ReplaceAll(text, secret, "[redacted]")
	}
	return text
}

// clean takes the secrets out of all that a server said.
func (s secrets) clean(ex *client.Exchange) {
	if ex.Error != nil {
		ex.Error = &api.Failure{Class: ex.Error.Class, Status: ex.Error.Status, Message: s.redact(ex.Error.Message)}
	}
	for _, text := range []*string{&ex.Text, &ex.Reasoning, &ex.FinishReason} {
		*text = s.redact(*text)
	}
	for i := range ex.ToolCalls {
		t := &ex.ToolCalls[i]
		t.ID, t.Name, t.Arguments = s.redact(t.ID), s.redact(t.Name), s.redact(t.Arguments)
	}
	for i, w := range ex.Warnings {
		ex.Warnings[i] = s.redact(w)
	}
}
