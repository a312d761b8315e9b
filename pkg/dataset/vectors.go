package dataset

import (
	"fmt"
	"slices"

	"example.com/tokpace/pkg/api"
)

// Embeddings is a batch of texts to embed.
type Embeddings struct {
	Input    int    // tokens of each text
	Batch    int    // texts a request; 0 means 1
	Encoding string // api.Float, api.Base64, api.Bytes or api.BytesOnly; empty is the server's default
	DType    string // float32, float16 or bfloat16; empty is the server's default
}

// API is api.Embeddings.
func (Embeddings) API() *api.API { return api.Embeddings }

// Source prepares the requests.
func (d Embeddings) Source(env Env) (Source, error) { return vectors(env, d, api.NewEmbeddings) }

// Pooling is a batch of texts to pool.
type Pooling Embeddings

// API is api.Pooling.
func (Pooling) API() *api.API { return api.Pooling }

// Source prepares the requests.
func (d Pooling) Source(env Env) (Source, error) {
	return vectors(env, Embeddings(d), api.NewPooling)
}

func vectors(env Env, d Embeddings, build func(model string, input []string, encoding, dtype string) (*api.Request, error)) (Source, error) {
	if err := check(field{"Input", d.Input, 1}, field{"Batch", d.Batch, 0}); err != nil {
		return nil, err
	}
	known := []string{"", api.Float, api.Base64, api.Bytes, api.BytesOnly}
	if !slices.Contains(known, d.Encoding) {
		return nil, fmt.Errorf("dataset: unknown Encoding %q: choose one of %q", d.Encoding, known[1:])
	}
	batch := orOne(d.Batch)
	return sourceFunc(func(i int) (*api.Request, error) {
		rng := env.rng(i)
		input := make([]string, batch)
		for k := range input {
			input[k] = env.Words.Prompt(rng, d.Input)
		}
		req, err := build(env.Model, input, d.Encoding, d.DType)
		return counted(req, err, env, slices.Repeat([]int{d.Input}, batch)...)
	}), nil
}

// Rerank is a query and documents to rank by it.
type Rerank struct {
	Query     int // tokens of the query
	Documents int // documents a request
	Document  int // tokens of each document
}

// API is api.Rerank.
func (Rerank) API() *api.API { return api.Rerank }

// Source prepares the requests. The client's own count is what a cross-encoder
// reads: the query once for each document.
func (d Rerank) Source(env Env) (Source, error) {
	if err := check(field{"Query", d.Query, 1}, field{"Documents", d.Documents, 1}, field{"Document", d.Document, 1}); err != nil {
		return nil, err
	}
	return sourceFunc(func(i int) (*api.Request, error) {
		rng := env.rng(i)
		query := env.Words.Prompt(rng, d.Query)
		documents := make([]string, d.Documents)
		for k := range documents {
			documents[k] = env.Words.Prompt(rng, d.Document)
		}
		req, err := api.NewRerank(env.Model, query, documents)
		return counted(req, err, env, slices.Repeat([]int{d.Query, d.Document}, d.Documents)...)
	}), nil
}
