package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"example.com/tokpace/pkg/api"
	"example.com/tokpace/pkg/dataset"
)

// vocabulary is the words of one token each for an API of the server: the
// fake's own, else what the server's tokenizer says, else what the usage of a
// few short requests says, else a guess. It asks once.
func (s *server) vocabulary(ctx context.Context, a *api.API) (dataset.Vocabulary, error) {
	if s.fake() {
		return dataset.Vocabulary{}, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if k, ok := s.words[a]; ok {
		return k.vocabulary, nil
	}
	v, err := dataset.Calibrate(ctx, s.countByTokenizer, true)
	if err != nil && ctx.Err() == nil {
		v, err = dataset.Calibrate(ctx, func(ctx context.Context, text string) (int, error) {
			return s.countByUsage(ctx, a, text)
		}, false)
	}
	if ctx.Err() != nil {
		return v, ctx.Err()
	}
	k := knownWords{vocabulary: v}
	switch {
	case err != nil:
		k.vocabulary = dataset.Unverified()
		k.note = "prompt lengths are a guess of one token a word: the server has no /tokenize and reports no usage"
	case !v.Exact():
		k.note = "prompt lengths are approximate: the server's tokens do not follow words"
	}
	if s.words == nil {
		s.words = map[*api.API]knownWords{}
	}
	s.words[a] = k
	return k.vocabulary, nil
}

// lengthNote says when prompts may not have the asked number of tokens.
func (s *server) lengthNote(a *api.API) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.words[a].note
}

// knownWords is what one API of a server counts one by one.
type knownWords struct {
	vocabulary dataset.Vocabulary
	note       string // why lengths may be wrong, empty when they are exact
}

func (s *server) countByTokenizer(ctx context.Context, text string) (int, error) {
	body, err := json.Marshal(map[string]any{"model": s.model, "prompt": text, "add_special_tokens": false})
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.checkTimeout())
	defer cancel()
	status, answer, err := s.client(nil).Post(ctx, "/tokenize", body)
	if err != nil {
		return 0, err
	}
	var counted struct {
		Count *int `json:"count"`
	}
	if status != http.StatusOK || json.Unmarshal(answer, &counted) != nil || counted.Count == nil {
		return 0, fmt.Errorf("/tokenize answered %d without a count", status)
	}
	return *counted.Count, nil
}

func (s *server) countByUsage(ctx context.Context, a *api.API, text string) (int, error) {
	req, err := countRequest(a, s.model, text)
	if err != nil {
		return 0, err
	}
	req.Endpoint = s.settings.endpoint
	ex := s.client(nil).Do(ctx, req)
	switch {
	case !ex.OK:
		return 0, ex.Error
	case !ex.InputTokens.Known:
		return 0, errors.New("the server reports no usage")
	}
	return int(ex.InputTokens.V), nil
}

// countRequest is the cheapest request of an API that holds text once.
func countRequest(a *api.API, model, text string) (*api.Request, error) {
	one := api.Generation{MaxTokens: 1}
	switch a {
	case api.Chat:
		return api.NewChat(model, []api.Message{{Role: "user", Content: text}}, one)
	case api.Completions:
		return api.NewCompletion(model, text, one)
	case api.Pooling:
		return api.NewPooling(model, []string{text}, "", "")
	case api.Rerank:
		return api.NewRerank(model, "query", []string{text})
	default:
		return api.NewEmbeddings(model, []string{text}, "", "")
	}
}
