package harness

import (
	"example.com/tokpace/pkg/api"
	"example.com/tokpace/pkg/dataset"
)

// endpointSource sends another source's requests to one endpoint.
type endpointSource struct {
	dataset.Source
	endpoint string
}

func (s endpointSource) Request(i int) (*api.Request, error) {
	req, err := s.Source.Request(i)
	if err == nil {
		req.Endpoint = s.endpoint
	}
	return req, err
}
