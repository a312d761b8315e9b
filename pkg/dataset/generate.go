package dataset

import (
	"fmt"

	"example.com/tokpace/pkg/api"
)

// Chat is one user message of random words, with or without images.
type Chat struct {
	Input  int  // text tokens of the message, without the chat template's
	Output int  // output tokens asked for
	Stream bool // as an event stream
	N      int  // choices; 0 means 1

	Images        int // PNG images after the text
	Width, Height int // of each image, in pixels
}

// API is api.Chat.
func (Chat) API() *api.API { return api.Chat }

// Source prepares the requests.
func (d Chat) Source(env Env) (Source, error) {
	fields := []field{{"Input", d.Input, 1}, {"Output", d.Output, 1}, {"N", d.N, 0}, {"Images", d.Images, 0}}
	if d.Images > 0 {
		fields = append(fields, field{"Width", d.Width, 1}, field{"Height", d.Height, 1})
		if d.Width > maxSide || d.Height > maxSide {
			return nil, fmt.Errorf("dataset: an image of %d x %d pixels is larger than %d a side", d.Width, d.Height, maxSide)
		}
	}
	if err := check(fields...); err != nil {
		return nil, err
	}
	g := api.Generation{MaxTokens: d.Output, Stream: d.Stream, IgnoreEOS: env.IgnoreEOS, N: d.N}
	return sourceFunc(func(i int) (*api.Request, error) {
		rng := env.rng(i)
		msg := api.Message{Role: "user", Content: env.Words.Prompt(rng, d.Input)}
		for range d.Images {
			msg.Images = append(msg.Images, pngImage(rng, d.Width, d.Height))
		}
		req, err := api.NewChat(env.Model, []api.Message{msg}, g)
		return counted(req, err, env, d.Input)
	}), nil
}

// Completion is one prompt of random words.
type Completion struct {
	Input  int  // prompt tokens
	Output int  // output tokens asked for
	Stream bool // as an event stream
	N      int  // choices; 0 means 1
}

// API is api.Completions.
func (Completion) API() *api.API { return api.Completions }

// Source prepares the requests.
func (d Completion) Source(env Env) (Source, error) {
	if err := check(field{"Input", d.Input, 1}, field{"Output", d.Output, 1}, field{"N", d.N, 0}); err != nil {
		return nil, err
	}
	g := api.Generation{MaxTokens: d.Output, Stream: d.Stream, IgnoreEOS: env.IgnoreEOS, N: d.N}
	return sourceFunc(func(i int) (*api.Request, error) {
		req, err := api.NewCompletion(env.Model, env.Words.Prompt(env.rng(i), d.Input), g)
		return counted(req, err, env, d.Input)
	}), nil
}

// counted notes the client's own count of a request's text tokens, where the
// vocabulary makes it exact. texts are the lengths that were asked for.
func counted(req *api.Request, err error, env Env, texts ...int) (*api.Request, error) {
	if err != nil {
		return nil, err
	}
	if env.Words.Exact() {
		var sum int64
		for _, n := range texts {
			sum += int64(env.Words.count(n))
		}
		req.InputTokens = api.Some(sum)
	}
	return req, nil
}
