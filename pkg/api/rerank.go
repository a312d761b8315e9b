package api

import (
	"bytes"
	"encoding/json"
)

type rerankBody struct {
	Model     string   `json:"model"`
	Query     string   `json:"query"`
	Documents []string `json:"documents"`
}

// NewRerank builds a /v1/rerank request.
func NewRerank(model, query string, documents []string) (*Request, error) {
	data, err := marshal(rerankBody{Model: model, Query: query, Documents: documents})
	if err != nil {
		return nil, err
	}
	return &Request{API: Rerank, Body: data}, nil
}

// rerankAnswer reads {"results":[{"index","relevance_score"},…],"usage":{…}},
// or the bare array of such items that some servers send.
func rerankAnswer(body []byte) (Answer, *Failure) {
	type item struct {
		Score *float64 `json:"relevance_score"`
		Alt   *float64 `json:"score"`
	}
	var answer struct {
		errorFields
		Results []item          `json:"results"`
		Usage   json.RawMessage `json:"usage"`
	}
	target := any(&answer)
	if bytes.HasPrefix(bytes.TrimSpace(body), []byte{'['}) {
		target = &answer.Results
	}
	if f := decode(body, target); f != nil {
		return Answer{}, f
	}
	if f := answer.failure(body); f != nil {
		return Answer{}, f
	}
	if len(answer.Results) == 0 {
		return Answer{}, malformed("the answer has no results: %s", Snippet(body))
	}
	for i, r := range answer.Results {
		if r.Score == nil && r.Alt == nil {
			return Answer{}, malformed("result %d has no relevance_score", i)
		}
	}
	var a Answer
	a.Results = Some(len(answer.Results))
	return a, a.Usage.read(answer.Usage, true)
}
