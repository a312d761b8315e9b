package fakeserver

import "fmt"

// Owner is the owned_by that /v1/models reports: by it a client tells this server from a real one.
const Owner = "tokpace-fake"

// planModels answers /v1/models with the one model.
func planModels(c *call) (*Plan, error) {
	b := appendString([]byte(`{"object":"list","data":[{"id":`), c.cfg.Model)
	b = fmt.Appendf(b, `,"object":"model","created":%d,"owned_by":"%s","root":`, c.created(), Owner)
	b = appendString(b, c.cfg.Model)
	b = fmt.Appendf(b, `,"parent":null,"max_model_len":%d,"permission":[]}]}`, c.cfg.MaxModelLen)
	return instantPlan(200, b), nil
}

// planHealth answers /health with nothing.
func planHealth(*call) (*Plan, error) {
	p := newPlan(200, "")
	p.ContentLength = 0
	return p, nil
}

// planVersion answers /version.
func planVersion(*call) (*Plan, error) {
	return instantPlan(200, []byte(`{"version":"`+Owner+`"}`)), nil
}
