package api

// NewEmbeddings builds a /v1/embeddings request. Empty encoding and dtype are
// not sent; servers then answer with floats.
func NewEmbeddings(model string, input []string, encoding, dtype string) (*Request, error) {
	return newVectors(Embeddings, model, input, encoding, dtype)
}
