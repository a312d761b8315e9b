package client

import (
	"net/http"

	"example.com/tokpace/pkg/api"
)

// A preparedKey is what requests without a header of their own differ in, apart from
// their body.
type preparedKey struct {
	target string
	stream bool
}

// maxPrepared bounds the memory for requests that each go somewhere else.
const maxPrepared = 64

// prepare makes all of a request but its context and body, once for many.
func (c *Client) prepare(req *api.Request) (*http.Request, error) {
	key := preparedKey{req.Target(), req.Stream}
	shared := len(req.Header) == 0
	if shared {
		c.mu.Lock()
		defer c.mu.Unlock()
		if hr := c.prepared[key]; hr != nil {
			return hr, nil
		}
	}
	target, err := api.JoinURL(c.BaseURL, key.target)
	if err != nil {
		return nil, err
	}
	hr, err := http.NewRequest(http.MethodPost, target, nil)
	if err != nil {
		return nil, err
	}
	hr.Header.Set("Content-Type", "application/json")
	if req.Stream {
		hr.Header.Set("Accept", "text/event-stream")
	}
	c.setHeader(hr, req.Header)
	if shared && len(c.prepared) < maxPrepared {
		if c.prepared == nil {
			c.prepared = map[preparedKey]*http.Request{}
		}
		c.prepared[key] = hr
	}
	return hr, nil
}

// setHeader adds what goes out with every request; more wins over the client's
// own header.
func (c *Client) setHeader(hr *http.Request, more http.Header) {
	hr.Header.Set("User-Agent", "tokpace")
	// A transport, unlike http.Client, leaves the URL's user to its caller.
	if user := hr.URL.User; user != nil {
		password, _ := user.Password()
		hr.SetBasicAuth(user.Username(), password)
	}
	if c.APIKey != "" {
		hr.Header.Set("Authorization", "Bearer "+c.APIKey)
	}
	for _, h := range []http.Header{c.Header, more} {
		for name, values := range h {
			hr.Header[http.CanonicalHeaderKey(name)] = values
		}
	}
	if host := hr.Header.Get("Host"); host != "" {
		hr.Host = host
	}
}
