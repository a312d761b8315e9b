package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"time"

	"example.com/tokpace/pkg/api"
	"example.com/tokpace/pkg/client"
	"example.com/tokpace/pkg/h1"
	"example.com/tokpace/pkg/load"
)

// The contestants that are Go code of this module, by name.
const (
	ours        = "tokpace"          // pkg/client over pkg/h1, as the harness uses it
	oursNetHTTP = "tokpace-nethttp"  // pkg/client over net/http
	naive       = "nethttp-json"     // net/http and encoding/json
	openAI      = "openai-go"        // the SDK
	rawBytes    = "raw-bytes"        // counts the bytes that come
	sleeper     = "sleep-dispatcher" // time.Sleep until each send
)

// insecure is for the certificates of this program's own servers.
var insecure = &tls.Config{InsecureSkipVerify: true}

// newClient is the client that the harness would make.
func newClient(name, url string) *client.Client {
	c := &client.Client{BaseURL: url, DiscardText: true, Timeout: time.Minute}
	if name == oursNetHTTP {
		c.Transport = newNetHTTP(1024)
	} else {
		c.Transport = &h1.Transport{TLS: insecure}
	}
	return c
}

func newNetHTTP(idle int) *http.Transport {
	return &http.Transport{MaxIdleConnsPerHost: idle, DisableCompression: true, TLSClientConfig: insecure.Clone(), ForceAttemptHTTP2: true}
}

// oneRequest is a source of the same request again and again: building prompts is not measured here.
type oneRequest struct{ req *api.Request }

func (s oneRequest) Request(int) (*api.Request, error) { return s.req, nil }

func chatRequest(tokens int) (*api.Request, error) {
	return api.NewChat(model, []api.Message{{Role: "user", Content: "Say some words, please."}},
		api.Generation{MaxTokens: tokens, Stream: true, IgnoreEOS: true})
}

func embeddingsRequest(encoding string) (*api.Request, error) {
	return api.NewEmbeddings(model, []string{"some words"}, encoding, "")
}

// closedLoop keeps n requests in flight for a while, as a benchmark does.
func closedLoop(c *client.Client, n int, d time.Duration, req *api.Request) ([]*client.Exchange, time.Duration, error) {
	run := load.Closed{N: n}.Start(context.Background(), c.Do, oneRequest{req}, 0)
	defer time.AfterFunc(d, run.Stop).Stop()
	exchanges, elapsed, err := run.Wait()
	if err == nil {
		err = allOK(exchanges)
	}
	return exchanges, elapsed, err
}

func allOK(exchanges []*client.Exchange) error {
	if len(exchanges) == 0 {
		return errors.New("no exchanges")
	}
	for _, ex := range exchanges {
		if !ex.OK {
			return fmt.Errorf("an exchange failed: %w", ex.Error)
		}
	}
	return nil
}
