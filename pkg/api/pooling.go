package api

// NewPooling builds a /pooling request. Empty encoding and dtype are not sent;
// servers then answer with floats.
func NewPooling(model string, input []string, encoding, dtype string) (*Request, error) {
	return newVectors(Pooling, model, input, encoding, dtype)
}
