package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"

	"example.com/tokpace/pkg/api"
	"example.com/tokpace/pkg/client"
)

// A target is where a probe goes, checked.
type target struct {
	api     *api.API
	baseURL string
	shown   string // the whole URL without what may be secret
	header  http.Header
	key     string
	secrets api.Secrets

	transport client.Transport
}

// findTarget checks the flags and the environment.
func findTarget(o *probeFlags) (*target, error) {
	t := &target{}
	var err error
	switch {
	case o.api == "":
		return nil, fmt.Errorf("give -api NAME: one of %s", strings.Join(api.Names(), ", "))
	case o.timeout <= 0:
		return nil, fmt.Errorf("-timeout is %v: give a time above 0, such as 90s", o.timeout)
	case o.given("model") && o.given("body"):
		return nil, errors.New("-model is for the body that is made up: leave it out, since -body names its own model")
	case o.given("endpoint") && o.endpoint == "":
		return nil, errors.New("-endpoint is empty: give a path such as /v1/completions")
	}
	if t.api, err = api.Lookup(o.api); err != nil {
		return nil, err
	}
	if t.transport, err = findTransport(o); err != nil {
		return nil, err
	}
	if t.baseURL, err = findBaseURL(o); err != nil {
		return nil, err
	}
	path := t.api.Path
	if o.endpoint != "" {
		path = o.endpoint
	}
	full, err := api.JoinURL(t.baseURL, path)
	if err != nil {
		// The base URL is right, and an endpoint can hold a secret.
		return nil, errors.New("-endpoint is not a path such as /v1/completions")
	}
	u, err := url.Parse(full)
	if err != nil {
		return nil, errors.New("-base-url and -endpoint make no address: give them as in http://127.0.0.1:8000/v1 and /v1/completions")
	}
	t.shown = clean(api.RedactURL(u))
	if t.header, err = parseHeader(o.header); err != nil {
		return nil, err
	}
	name := "TOKPACE_API_KEY"
	if t.key = os.Getenv(name); t.key == "" {
		name = "OPENAI_API_KEY"
		t.key = os.Getenv(name)
	}
	if !isHeaderValue(t.key) {
		return nil, fmt.Errorf("%s holds a control character, such as a line end: it cannot be sent", name)
	}
	t.secrets = findSecrets(t.key, t.header, u)
	return t, nil
}

// findBaseURL takes the flag, else the environment. Naming a host on the command
// line is consent to send to it; a variable may be left over from other work.
func findBaseURL(o *probeFlags) (string, error) {
	if o.given("base-url") {
		if _, err := api.CheckBaseURL(o.baseURL); err != nil {
			return "", fmt.Errorf("-base-url: %w", err)
		}
		return o.baseURL, nil
	}
	for _, name := range []string{"TOKPACE_BASE_URL", "OPENAI_BASE_URL"} {
		base := os.Getenv(name)
		if base == "" {
			continue
		}
		u, err := api.CheckBaseURL(base)
		if err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
		allowed := false
		if v := os.Getenv("TOKPACE_ALLOW_REMOTE"); v != "" {
			if allowed, err = strconv.ParseBool(v); err != nil {
				return "", fmt.Errorf("TOKPACE_ALLOW_REMOTE is %q: want 1 or 0", v)
			}
		}
		socket := u.Host == "unix:" // of this machine
		if !allowed && !socket && !isLoopback(u.Hostname()) {
			return "", fmt.Errorf("%s names %s, which is not this machine: give it as -base-url, or set TOKPACE_ALLOW_REMOTE=1", name, u.Host)
		}
		return base, nil
	}
	return "", errors.New("no server: give -base-url, as in http://127.0.0.1:8000/v1, or set TOKPACE_BASE_URL or OPENAI_BASE_URL")
}

// findTransport takes the flag, else the environment.
func findTransport(o *probeFlags) (client.Transport, error) {
	name, source := o.transport, "-transport"
	if v := os.Getenv("TOKPACE_TRANSPORT"); v != "" && !o.given("transport") {
		name, source = v, "TOKPACE_TRANSPORT"
	}
	t, err := client.NamedTransport(name, nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", source, err)
	}
	return t, nil
}

// parseHeader reads K=V pairs. Its errors name the key at most, since values are
// often secrets.
func parseHeader(pairs []string) (http.Header, error) {
	h := http.Header{}
	for _, pair := range pairs {
		k, v, ok := strings.Cut(pair, "=")
		switch {
		case !ok || !isToken(k):
			return nil, errors.New("-header: want K=V, as in X-Request-Id=7")
		case !isHeaderValue(v):
			return nil, fmt.Errorf("-header %s: the value has a control character", k)
		}
		h.Add(k, v)
	}
	return h, nil
}

// isToken reports whether s can be a header's name (RFC 9110, section 5.6.2).
func isToken(s string) bool {
	for _, c := range []byte(s) {
		alnum := '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !alnum && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return s != ""
}

// isHeaderValue reports whether s can be a header's value.
func isHeaderValue(s string) bool {
	for _, c := range []byte(s) {
		if c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}
