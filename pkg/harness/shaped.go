package harness

import (
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"strconv"

	"example.com/tokpace/pkg/api"
	"example.com/tokpace/pkg/dataset"
)

// A shapedDataset is another dataset whose requests ask for what a shape says
// beside prompt and lengths.
type shapedDataset struct {
	dataset.Dataset
	shape *shape
}

// Source prepares the requests.
func (d shapedDataset) Source(env dataset.Env) (dataset.Source, error) {
	src, err := d.Dataset.Source(env)
	if err != nil {
		return nil, err
	}
	fixed := append([]api.Member(nil), d.shape.sampling...)
	if n := d.shape.logprobs; n != nil {
		value := json.RawMessage(strconv.Itoa(*n))
		if d.shape.api() == api.Chat {
			fixed = append(fixed, api.Member{Name: "logprobs", Value: json.RawMessage("true")}, api.Member{Name: "top_logprobs", Value: value})
		} else {
			fixed = append(fixed, api.Member{Name: "logprobs", Value: value})
		}
	}
	return shapedSource{src, d.shape, fixed, env.Seed}, nil
}

type shapedSource struct {
	dataset.Source
	shape *shape
	fixed []api.Member // sampling
	seed  uint64
}

func (s shapedSource) Request(i int) (*api.Request, error) {
	req, err := s.Source.Request(i)
	if err != nil {
		return nil, err
	}
	members := s.fixed[:len(s.fixed):len(s.fixed)]
	if len(s.shape.adapters) > 0 {
		name, err := json.Marshal(s.adapter(i))
		if err != nil {
			return nil, err
		}
		members = append(members, api.Member{Name: "model", Value: name})
	}
	// The last of a name wins.
	if err := req.Merge(append(members, s.shape.extra...)); err != nil {
		return nil, err
	}
	if s.shape.idPrefix != "" {
		req.Header = http.Header{"X-Request-Id": {s.shape.idPrefix + strconv.Itoa(i)}}
	}
	return req, nil
}

// adapter is the one of the i-th request, which depends on the seed and on i
// alone, as its prompt does.
func (s shapedSource) adapter(i int) string {
	names := s.shape.adapters
	if s.shape.roundRobin {
		return names[i%len(names)]
	}
	// Another stream than the prompt's draws.
	rng := rand.New(rand.NewPCG(^s.seed, uint64(i)))
	return names[rng.IntN(len(names))]
}
