package client

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"

	"example.com/tokpace/pkg/api"
)

// Get fetches path with the client's transport, header and key. It is for what
// surrounds a measurement (model list, token counts), not measured itself, and
// limited to 4 MiB of body. A status other than 2xx is returned, not an error.
func (c *Client) Get(ctx context.Context, path string) (status int, body []byte, err error) {
	c.once.Do(c.init)
	url, err := api.JoinURL(c.BaseURL, path)
	if err != nil {
		return 0, nil, err
	}
	req, err := c.get(ctx, url)
	if err != nil {
		return 0, nil, err
	}
	return c.fetch(req)
}

// Post sends a JSON body to path, under the same terms as Get.
func (c *Client) Post(ctx context.Context, path string, body []byte) (status int, answer []byte, err error) {
	c.once.Do(c.init)
	url, err := api.JoinURL(c.BaseURL, path)
	if err != nil {
		return 0, nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	c.setHeader(req, nil)
	return c.fetch(req)
}

func (c *Client) fetch(req *http.Request) (status int, body []byte, err error) {
	resp, err := c.transport.RoundTrip(req)
	if err != nil {
		if words := c.secrets.Redact(err.Error()); words != err.Error() {
			err = errors.New(words)
		}
		return 0, nil, err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(io.LimitReader(resp.Body, drain))
	return resp.StatusCode, body, err
}

func (c *Client) get(ctx context.Context, url string) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	c.setHeader(req, nil)
	return req, nil
}
