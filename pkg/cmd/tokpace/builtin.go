package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"sync/atomic"
	"time"

	"example.com/tokpace/pkg/api"
)

// modelTimeout bounds the question for the models.
const modelTimeout = 10 * time.Second

// model is the model for the built-in body: the one asked for, else the first
// that the server lists.
//
// It is "" without an error when the server could not be reached at all or the
// user gave up: the exchange then fails in the same way, and its record says how.
func (p *probe) model(ctx context.Context) (string, error) {
	if p.flags.given("model") && p.flags.model == "" {
		return "", fmt.Errorf("-model is empty: give a model's name")
	}
	if name := cmp.Or(p.flags.model, os.Getenv("TOKPACE_MODEL")); name != "" {
		return name, nil
	}
	// The exchange gets a connection of its own, so that making it is seen.
	defer p.client.CloseIdleConnections()
	asking, cancel := context.WithTimeout(ctx, min(modelTimeout, p.flags.timeout))
	defer cancel()
	var connected atomic.Bool
	status, body, err := p.client.Get(httptrace.WithClientTrace(asking, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	}), "/v1/models")
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	where := "/v1/models"
	if full, err := api.JoinURL(p.client.BaseURL, where); err == nil {
		if u, err := url.Parse(full); err == nil {
			where = api.RedactURL(u)
		}
	}
	const instead = "name a model with -model, or give a -body"
	switch {
	case err != nil && (!connected.Load() || ctx.Err() != nil):
		return "", nil
	case asking.Err() != nil:
		return "", fmt.Errorf("the server did not list its models in time: %s", instead)
	case err != nil:
		return "", fmt.Errorf("the server could not list its models (%s): %s", api.Snippet([]byte(err.Error())), instead)
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return "", fmt.Errorf("%s answered %d: set OPENAI_API_KEY (or TOKPACE_API_KEY) to a key that the server accepts, or %s", where, status, instead)
	case status != http.StatusOK:
		return "", fmt.Errorf("%s answered %d: is the base URL right? If it is, %s", where, status, instead)
	case json.Unmarshal(body, &list) != nil || len(list.Data) == 0 || list.Data[0].ID == "":
		return "", fmt.Errorf("%s lists no model: is the base URL right? If it is, %s", where, instead)
	}
	return list.Data[0].ID, nil
}

// builtIn is a small request of an API: short enough for any server, long enough
// to have gaps between its output events.
func builtIn(a *api.API, model string) (*api.Request, error) {
	const (
		sentence = "The quick brown fox jumps over the lazy dog."
		question = "Count from one to ten in words."
	)
	g := api.Generation{MaxTokens: 16, Stream: true}
	switch a {
	case api.Chat:
		return api.NewChat(model, []api.Message{{Role: "user", Content: question}}, g)
	case api.Completions:
		return api.NewCompletion(model, question, g)
	case api.Embeddings:
		return api.NewEmbeddings(model, []string{sentence}, "", "")
	case api.Pooling:
		return api.NewPooling(model, []string{sentence}, "", "")
	case api.Rerank:
		return api.NewRerank(model, "Which animal jumps?", []string{sentence, "Lorem ipsum dolor sit amet.", "Dogs sleep a lot."})
	}
	return nil, fmt.Errorf("there is no built-in body for %s: give one with -body", a.Name)
}
