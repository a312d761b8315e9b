package client

import "example.com/tokpace/pkg/api"

// Redact takes secrets out of all that a server said in the exchange: servers
// repeat keys in errors, and echo servers in answers.
func (ex *Exchange) Redact(s api.Secrets) {
	if ex.Error != nil {
		ex.Error = &api.Failure{Class: ex.Error.Class, Status: ex.Error.Status, Message: s.Redact(ex.Error.Message)}
	}
	for _, text := range []*string{&ex.Text, &ex.Reasoning, &ex.FinishReason} {
		*text = s.Redact(*text)
	}
	for i := range ex.ToolCalls {
		t := &ex.ToolCalls[i]
		t.ID, t.Name, t.Arguments = s.Redact(t.ID), s.Redact(t.Name), s.Redact(t.Arguments)
	}
	for i, w := range ex.Warnings {
		ex.Warnings[i] = s.Redact(w)
	}
}

// Redact takes what the client itself sends and nobody may repeat out of an
// exchange. Do has done so for the error's message.
func (c *Client) Redact(ex *Exchange) {
	c.once.Do(c.init)
	ex.Redact(c.secrets)
}
