// Package dataset says what requests a benchmark sends. A Dataset is the shape
// that the user writes down (so many input tokens, so many images); its Source
// builds the i-th request from it, the same for the same seed on every machine.
//
//	src, err := dataset.Chat{Input: 512, Output: 64, Stream: true}.Source(dataset.Env{Model: "my-model", Seed: 1})
//	if err != nil {
//		return err
//	}
//	req, err := src.Request(0)
//	ex := c.Do(ctx, req) // *client.Client
//
// Text is random words, each of which is one token for the server (Vocabulary),
// so a prompt of n words has exactly n tokens.
package dataset

import (
	"fmt"
	"math/rand/v2"

	"example.com/tokpace/pkg/api"
)

// A Dataset describes requests.
type Dataset interface {
	// API is the API that the requests are for.
	API() *api.API
	// Source prepares the requests for one target. The error says which field
	// of the dataset makes no sense.
	Source(env Env) (Source, error)
}

// An Env is what a dataset must know of its target.
type Env struct {
	// Model is the request's model.
	Model string
	// Seed chooses the prompts. Different seeds have no prompts in common.
	Seed uint64
	// IgnoreEOS pins the output's length where the server can do that.
	IgnoreEOS bool
	// Words are the words of the prompts; the zero Vocabulary is the built-in
	// fake server's.
	Words Vocabulary
}

// A Source builds requests. It is safe for concurrent use.
type Source interface {
	// Request builds the i-th request, i from 0 on.
	Request(i int) (*api.Request, error)
}

type sourceFunc func(i int) (*api.Request, error)

func (f sourceFunc) Request(i int) (*api.Request, error) { return f(i) }

// rng is the random source of the i-th request alone, so that requests do not
// depend on the order in which they are built.
func (e Env) rng(i int) *rand.Rand {
	return rand.New(rand.NewPCG(e.Seed, uint64(i)))
}

// A field is a number of a dataset that must not be below a minimum.
type field struct {
	name       string
	value, min int
}

func check(fields ...field) error {
	for _, f := range fields {
		if f.value < f.min {
			return fmt.Errorf("dataset: %s is %d, it must be at least %d", f.name, f.value, f.min)
		}
	}
	return nil
}

// orOne is n, or 1 where n was left out.
func orOne(n int) int {
	if n == 0 {
		return 1
	}
	return n
}
