package main

import (
	"net/http"
	"net/url"

	"example.com/tokpace/pkg/api"
	"example.com/tokpace/pkg/client"
)

// secrets are words that must not be printed, whoever said them: servers repeat
// keys in errors, and echo servers in answers.
type secrets struct{ api.Secrets }

// findSecrets gathers the key, credentials in headers, and those in the URL.
func findSecrets(key string, h http.Header, u *url.URL) secrets {
	words := append(api.HeaderSecrets(h), key)
	return secrets{api.NewSecrets(append(words, api.URLSecrets(u, api.IsSecretName)...)...)}
}

// clean takes the secrets out of all that a server said.
func (s secrets) clean(ex *client.Exchange) {
	if ex.Error != nil {
		ex.Error = &api.Failure{Class: ex.Error.Class, Status: ex.Error.Status, Message: s.Redact(ex.Error.Message)}
	}
	for _, text := range []*string{&ex.Text, &ex.Reasoning, &ex.FinishReason} {
		*text = s.Redact(*text)
	}
	for i := range ex.ToolCalls {
		t := &ex.ToolCalls[i]
		t.ID, t.Name, t.Arguments = s.Redact(t.ID), s.Redact(t.Name), s.Redact(t.Arguments)
	}
	for i, w := range ex.Warnings {
		ex.Warnings[i] = s.Redact(w)
	}
}
