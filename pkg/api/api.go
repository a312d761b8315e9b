// Package api knows the inference APIs: how a request is built and what an
// answer means. It holds no clock and no connection; pkg/client moves the bytes
// and takes the times, and asks this package what each event or body said.
//
// One file holds one API. Chat and completions share their answers' form
// (generate.go), embeddings and pooling theirs (vectors.go).
//
//	req, err := api.NewChat("my-model", []api.Message{{Role: "user", Content: "Hello"}},
//		api.Generation{MaxTokens: 64, Stream: true})
//	url, err := api.JoinURL("http://127.0.0.1:8000/v1", req.Target())
//	// … send req.Body, read events …
//	st := api.NewStream(req.API)
//	out, failure := st.Event(data, "")
package api

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// An API is one of the supported APIs. The values below are the only ones.
type API struct {
	// Name is the API's name on command lines and in records: the backend
	// name of `vllm bench serve`.
	Name string
	// Path is the full path from the server's root.
	Path string

	kind kind
}

type kind int

const (
	kindGenerate kind = iota
	kindVectors
	kindRerank
)

// The supported APIs.
var (
	Completions = &API{Name: "openai", Path: "/v1/completions", kind: kindGenerate}
	Chat        = &API{Name: "openai-chat", Path: "/v1/chat/completions", kind: kindGenerate}
	Embeddings  = &API{Name: "openai-embeddings", Path: "/v1/embeddings", kind: kindVectors}
	Pooling     = &API{Name: "vllm-pooling", Path: "/pooling", kind: kindVectors}
	Rerank      = &API{Name: "vllm-rerank", Path: "/v1/rerank", kind: kindRerank}
)

// HasVectors reports whether answers hold vectors, and so may be binary.
func (a *API) HasVectors() bool { return a.kind == kindVectors }

var all = []*API{Completions, Chat, Embeddings, Pooling, Rerank}

// Names lists the names that Lookup knows, in a fixed order.
func Names() []string {
	names := make([]string, len(all))
	for i, a := range all {
		names[i] = a.Name
	}
	return names
}

// Lookup returns the API of a name; the error lists the known names.
func Lookup(name string) (*API, error) {
	for _, a := range all {
		if a.Name == name {
			return a, nil
		}
	}
	return nil, fmt.Errorf("unknown API %q: choose one of %s", name, strings.Join(Names(), ", "))
}

// JoinURL puts an API's path (or an endpoint that overrides it) onto a base URL.
// One trailing /v1 of the base is removed first, since paths are given in full;
// any other prefix is kept, and so are a query string and escapes such as %2F:
// https://gw/openai/v1 + /v1/rerank is https://gw/openai/v1/rerank.
func JoinURL(base, path string) (string, error) {
	u, err := CheckBaseURL(base)
	if err != nil {
		return "", err
	}
	// The endpoint is not repeated in the error: a whole URL was given, which
	// may hold a password.
	ref, err := url.Parse(path)
	if err != nil || ref.Scheme != "" || ref.Host != "" || ref.User != nil {
		return "", errors.New("the endpoint is not a path such as /v1/completions")
	}
	prefix := strings.TrimRight(u.EscapedPath(), "/")
	prefix = strings.TrimSuffix(prefix, "/v1")
	u.RawPath = prefix + "/" + strings.TrimLeft(ref.EscapedPath(), "/")
	if u.Path, err = url.PathUnescape(u.RawPath); err != nil {
		return "", fmt.Errorf("the endpoint's path cannot be read: %w", err)
	}
	u.Fragment, u.RawFragment = "", ""
	if ref.RawQuery != "" {
		if u.RawQuery != "" {
			u.RawQuery += "&"
		}
		u.RawQuery += ref.RawQuery
	}
	return u.String(), nil
}

// CheckBaseURL parses a base URL and says what is wrong with it. The error
// repeats nothing that may be a user, a password or a query string.
func CheckBaseURL(base string) (*url.URL, error) {
	u, err := url.Parse(base)
	switch {
	case base == "":
		return nil, fmt.Errorf("no base URL: give one such as http://127.0.0.1:8000/v1")
	case err != nil:
		return nil, fmt.Errorf("the base URL cannot be read: give one such as http://127.0.0.1:8000/v1")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("the base URL%s must begin with http:// or https://, as in http://127.0.0.1:8000/v1", shown(u))
	case u.Hostname() == "":
		return nil, fmt.Errorf("the base URL%s has no host, as in http://127.0.0.1:8000/v1", shown(u))
	}
	return u, nil
}

// shown is a wrong URL in quotes, or nothing where its parts are not what they
// should be: "user:secret@host" without a scheme is a scheme and something
// opaque, or a path.
func shown(u *url.URL) string {
	if u.Opaque != "" || strings.Contains(u.Path, "@") {
		return ""
	}
	return fmt.Sprintf(" %q", RedactURL(u))
}

// RedactURL is u without what may hold a secret: user info, query string and
// fragment.
func RedactURL(u *url.URL) string {
	c := *u
	c.User, c.Opaque, c.RawQuery, c.ForceQuery = nil, "", "", false
	c.Fragment, c.RawFragment = "", ""
	return c.String()
}
