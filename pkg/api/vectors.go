package api

import (
	"encoding/base64"
	"encoding/json"
)

// The encodings of vectors (encoding_format).
const (
	Float     = "float"      // JSON numbers
	Base64    = "base64"     // a string in JSON
	Bytes     = "bytes"      // raw vectors, described by the metadata header
	BytesOnly = "bytes_only" // raw vectors and nothing else
)

// MetadataHeader is the response header that describes a Bytes body.
const MetadataHeader = "metadata"

// IsBinary reports whether an encoding's body is raw vectors.
func IsBinary(encoding string) bool { return encoding == Bytes || encoding == BytesOnly }

// elementSize is the size of one vector element in bytes, 0 for an unknown
// type. The default is float32.
func elementSize(dtype string) int {
	switch dtype {
	case "", "float32":
		return 4
	case "float16", "bfloat16":
		return 2
	case "fp8_e4m3", "fp8_e5m2":
		return 1
	}
	return 0
}

type vectorBody struct {
	Model    string   `json:"model"`
	Input    []string `json:"input"`
	Encoding string   `json:"encoding_format,omitempty"`
	DType    string   `json:"embed_dtype,omitempty"`
}

func newVectors(a *API, model string, input []string, encoding, dtype string) (*Request, error) {
	data, err := marshal(vectorBody{Model: model, Input: input, Encoding: encoding, DType: dtype})
	if err != nil {
		return nil, err
	}
	return &Request{API: a, Body: data, Encoding: encoding, DType: dtype}, nil
}

// vectorAnswer reads a JSON answer of embeddings or pooling. The numbers are
// checked and counted, not kept.
func vectorAnswer(body []byte, dtype string) (Answer, *Failure) {
	if a, ok := walkVectors(body, dtype); ok {
		return a, nil
	}
	return decodeVectors(body, dtype)
}

// decodeVectors is vectorAnswer by decoding everything.
func decodeVectors(body []byte, dtype string) (Answer, *Failure) {
	var answer struct {
		errorFields
		Data []struct {
			Embedding vector `json:"embedding"`
			Data      vector `json:"data"`
		} `json:"data"`
		Usage json.RawMessage `json:"usage"`
	}
	if f := decode(body, &answer); f != nil {
		return Answer{}, f
	}
	if f := answer.failure(body); f != nil {
		return Answer{}, f
	}
	if len(answer.Data) == 0 {
		return Answer{}, malformed("the answer has no vectors: %s", Snippet(body))
	}
	var a Answer
	a.Vectors = Some(len(answer.Data))
	for i := range answer.Data {
		v := answer.Data[i].Embedding
		if !v.present {
			v = answer.Data[i].Data
		}
		dim, f := v.dim(dtype)
		if f != nil {
			return Answer{}, malformed("vector %d: %s", i, f.Message)
		}
		switch {
		case !a.Dim.Known:
			a.Dim = Some(dim)
		case a.Dim.V != dim:
			return Answer{}, malformed("vector %d has %d elements, those before it %d", i, dim, a.Dim.V)
		}
	}
	return a, a.Usage.read(answer.Usage, true)
}

// A vector is one vector as it stands in JSON: numbers, lists of them (one
// vector a token), or base64.
type vector struct {
	present bool
	elems   int // elements of each innermost list
	bytes   int // decoded length of a base64 vector
	base64  bool
}

func (v *vector) UnmarshalJSON(data []byte) error {
	*v = vector{present: true}
	switch data[0] {
	case '"':
		var s string
		if err := json.Unmarshal(data, &s); err != nil {
			return err
		}
		n, err := base64.StdEncoding.Decode(make([]byte, base64.StdEncoding.DecodedLen(len(s))), []byte(s))
		if err != nil {
			return malformed("a vector's base64 cannot be read (%v)", err)
		}
		v.base64, v.bytes = true, n
		return nil
	case '[':
		return v.scan(data)
	}
	return malformed("a vector is neither a list nor base64: %s", Snippet(data))
}

// scan counts the elements of a list that is known to be valid JSON, so that
// only the kind of each element needs a look. Numbers are at one depth only,
// and the lists that hold them have the same length.
func (v *vector) scan(data []byte) error {
	var (
		depth, elems int
		leaf         int  // depth of the numbers, 0 before the first
		opened       bool // the list has nothing in it so far
	)
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case c == '[':
			depth++
			opened, elems = true, 0
		case c == ']':
			if opened {
				return malformed("a vector or a row of it is empty")
			}
			if depth == leaf {
				if v.elems > 0 && v.elems != elems {
					return malformed("a vector's rows have %d and %d elements", v.elems, elems)
				}
				v.elems = elems
			}
			depth--
		case c == ',' || c == ' ' || c == '\n' || c == '\t' || c == '\r':
		case c == '-' || '0' <= c && c <= '9':
			if leaf == 0 {
				leaf = depth
			}
			if depth != leaf {
				return malformed("a vector has numbers and lists side by side")
			}
			opened = false
			elems++
			for i+1 < len(data) && inNumber(data[i+1]) {
				i++
			}
		default:
			return malformed("non-numeric vector element: %s", Snippet(data[i:min(len(data), i+20)]))
		}
	}
	return nil
}

func inNumber(c byte) bool {
	return '0' <= c && c <= '9' || c == '.' || c == '-' || c == '+' || c == 'e' || c == 'E'
}

func (v *vector) dim(dtype string) (int, *Failure) {
	switch {
	case !v.present:
		return 0, malformed("it has no embedding")
	case !v.base64:
		return v.elems, nil
	}
	size := elementSize(dtype)
	if size == 0 || v.bytes == 0 || v.bytes%size != 0 {
		return 0, malformed("%d base64 bytes are no vector of type %q", v.bytes, dtype)
	}
	return v.bytes / size, nil
}

// Binary says what a complete binary body of n bytes was, by the response's
// metadata header, empty when there was none. The bytes themselves are not
// needed, so that nobody has to keep them.
func Binary(metadata string, n int64) (Answer, *Failure) {
	var a Answer
	if metadata == "" {
		if n == 0 {
			return a, malformed("the body is empty")
		}
		return a, nil
	}
	var meta struct {
		Data []struct {
			DType string  `json:"embed_dtype"`
			Start int64   `json:"start"`
			End   int64   `json:"end"`
			Shape []int64 `json:"shape"`
		} `json:"data"`
		Usage json.RawMessage `json:"usage"`
	}
	if err := json.Unmarshal([]byte(metadata), &meta); err != nil {
		return a, malformed("the metadata header is not readable (%v): %s", err, Snippet([]byte(metadata)))
	}
	var next int64
	for i, d := range meta.Data {
		if d.Start != next || d.End < d.Start {
			return a, malformed("metadata: vector %d lies at bytes %d to %d, expected to start at %d", i, d.Start, d.End, next)
		}
		next = d.End
		elems := int64(1)
		for _, s := range d.Shape {
			if s < 1 || s > (1<<40)/elems {
				return a, malformed("metadata: vector %d has shape %v", i, d.Shape)
			}
			elems *= s
		}
		if size := elementSize(d.DType); size == 0 || len(d.Shape) == 0 || elems*int64(size) != d.End-d.Start {
			return a, malformed("metadata: vector %d has shape %v of %q in %d bytes", i, d.Shape, d.DType, d.End-d.Start)
		}
		dim := int(d.Shape[len(d.Shape)-1])
		switch {
		case !a.Dim.Known:
			a.Dim = Some(dim)
		case a.Dim.V != dim:
			return a, malformed("metadata: vector %d has %d elements, those before it %d", i, dim, a.Dim.V)
		}
	}
	if len(meta.Data) == 0 {
		return a, malformed("the metadata describes no vectors")
	}
	if next != n {
		return a, malformed("the metadata describes %d bytes of vectors, the body has %d", next, n)
	}
	a.Vectors = Some(len(meta.Data))
	return a, a.Usage.read(meta.Usage, true)
}
