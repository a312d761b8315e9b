package main

import (
	"net/http"
	"net/url"

	"example.com/tokpace/pkg/api"
)

// findSecrets gathers what must not be printed, whoever said it: the key,
// credentials in headers, and those in the URL.
func findSecrets(key string, h http.Header, u *url.URL) api.Secrets {
	words := append(api.HeaderSecrets(h), key)
	return api.NewSecrets(append(words, api.URLSecrets(u, api.IsSecretName)...)...)
}
