package api

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
)

// CheckVectors looks at the vectors of a complete answer to req, which reading
// it does not: there must be one for each input, in the order of their index,
// all of one dimension (the one asked for, if any), in the type and byte order
// asked for, and every element must be finite. body is the whole body; binary
// says that it is raw vectors, metadata is the header that describes them, empty
// when there was none. It belongs outside the timed path.
//
// A wrong byte order cannot be proved from raw floats; vectors most of whose
// elements are absurdly large or small are taken for one.
func CheckVectors(req *Request, binary bool, metadata string, body []byte) *Failure {
	asked := askedVectors(req.Body)
	switch {
	case !binary:
		return asked.json(body)
	case metadata != "":
		return asked.described(metadata, body)
	default:
		return asked.bare(body)
	}
}

// wanted is what a request asks of its vectors.
type wanted struct {
	Input      json.RawMessage `json:"input"`
	Messages   json.RawMessage `json:"messages"`
	Dimensions int             `json:"dimensions"`
	Encoding   string          `json:"encoding_format"`
	DType      string          `json:"embed_dtype"`
	Endianness string          `json:"endianness"`

	inputs int // 0: unknown
}

func askedVectors(body []byte) wanted {
	var w wanted
	if json.Unmarshal(body, &w) != nil {
		return wanted{}
	}
	w.inputs = 1
	var list []json.RawMessage
	if json.Unmarshal(w.Input, &list) == nil && len(list) > 0 && (list[0][0] == '"' || list[0][0] == '[') {
		w.inputs = len(list) // texts or lists of token ids; ids alone are one input
	}
	if w.DType == "" {
		w.DType = "float32"
	}
	return w
}

func (w *wanted) order() binary.ByteOrder {
	switch w.Endianness {
	case "big":
		return binary.BigEndian
	case "little":
		return binary.LittleEndian
	default:
		return binary.LittleEndian // native, on every machine that serves models
	}
}

func (w *wanted) count(n int) *Failure {
	if w.inputs > 0 && n != w.inputs {
		return malformed("%d vectors for %d inputs", n, w.inputs)
	}
	return nil
}

func (w *wanted) dimension(i, dim int) *Failure {
	if w.Dimensions > 0 && dim != w.Dimensions {
		return malformed("vector %d has %d elements, %d were asked for", i, dim, w.Dimensions)
	}
	return nil
}

func (w *wanted) json(body []byte) *Failure {
	var answer struct {
		Data []struct {
			Index     *int            `json:"index"`
			Embedding json.RawMessage `json:"embedding"`
			Data      json.RawMessage `json:"data"`
		} `json:"data"`
	}
	if f := decode(body, &answer); f != nil {
		return f
	}
	if f := w.count(len(answer.Data)); f != nil {
		return f
	}
	for i, d := range answer.Data {
		if d.Index != nil && *d.Index != i {
			return malformed("vector %d has index %d: out of order", i, *d.Index)
		}
		raw := d.Embedding
		if raw == nil {
			raw = d.Data
		}
		var text string
		if json.Unmarshal(raw, &text) == nil {
			if w.Encoding != Base64 {
				return malformed("vector %d is base64, which was not asked for", i)
			}
			data, err := base64.StdEncoding.DecodeString(text)
			if err != nil {
				return malformed("vector %d: its base64 cannot be read (%v)", i, err)
			}
			if f := w.elements(i, data); f != nil {
				return f
			}
			continue
		}
		if w.Encoding == Base64 {
			return malformed("vector %d is no base64, which was asked for", i)
		}
		if f := w.numbers(i, raw); f != nil {
			return f
		}
	}
	return nil
}

// numbers checks a vector, or a list of them, that stands in JSON.
func (w *wanted) numbers(i int, raw json.RawMessage) *Failure {
	var rows []json.RawMessage
	if json.Unmarshal(raw, &rows) == nil && len(rows) > 0 && rows[0][0] == '[' {
		for _, row := range rows {
			if f := w.numbers(i, row); f != nil {
				return f
			}
		}
		return nil
	}
	var elements []float64
	if err := json.Unmarshal(raw, &elements); err != nil {
		return malformed("vector %d: its elements cannot be read as numbers (%v)", i, err)
	}
	for k, v := range elements {
		if math.Abs(v) > math.MaxFloat32 {
			return malformed("vector %d: element %d is %g, beyond float32", i, k, v)
		}
	}
	return w.dimension(i, len(elements))
}

// described checks a body of raw vectors by its metadata, whose offsets Binary
// has checked.
func (w *wanted) described(metadata string, body []byte) *Failure {
	var meta struct {
		Data []struct {
			Index      *int   `json:"index"`
			DType      string `json:"embed_dtype"`
			Endianness string `json:"endianness"`
			Start      int    `json:"start"`
			End        int    `json:"end"`
		} `json:"data"`
	}
	if f := decode([]byte(metadata), &meta); f != nil {
		return f
	}
	if f := w.count(len(meta.Data)); f != nil {
		return f
	}
	for i, d := range meta.Data {
		switch {
		case d.Index != nil && *d.Index != i:
			return malformed("vector %d has index %d: out of order", i, *d.Index)
		case d.DType != w.DType:
			return malformed("vector %d is of type %q, %q was asked for", i, d.DType, w.DType)
		case w.Endianness != "" && d.Endianness != w.Endianness:
			return malformed("vector %d has byte order %q, %q was asked for", i, d.Endianness, w.Endianness)
		case d.Start < 0 || d.End < d.Start || d.End > len(body):
			return malformed("metadata: vector %d lies at bytes %d to %d of %d", i, d.Start, d.End, len(body))
		}
		if f := w.elements(i, body[d.Start:d.End]); f != nil {
			return f
		}
	}
	return nil
}

// bare checks raw vectors of which nothing is known but what was asked for.
func (w *wanted) bare(body []byte) *Failure {
	size := elementSize(w.DType)
	if size == 0 {
		return malformed("unknown embed_dtype %q", w.DType)
	}
	n := max(w.inputs, 1)
	if len(body) == 0 || len(body)%(n*size) != 0 {
		return malformed("%d bytes are not %d vectors of %s", len(body), n, w.DType)
	}
	each := len(body) / n
	for i := range n {
		if f := w.elements(i, body[i*each:(i+1)*each]); f != nil {
			return f
		}
	}
	return nil
}

// elements checks the raw elements of one vector.
func (w *wanted) elements(i int, data []byte) *Failure {
	size := elementSize(w.DType)
	if size == 0 || len(data) == 0 || len(data)%size != 0 {
		return malformed("vector %d: %d bytes are no elements of %q", i, len(data), w.DType)
	}
	n := len(data) / size
	if f := w.dimension(i, n); f != nil {
		return f
	}
	order, absurd := w.order(), 0
	for k := range n {
		v := element(data[k*size:], w.DType, order)
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return malformed("vector %d: element %d is not finite", i, k)
		}
		// Hardly an element of a real vector lies beyond these; five in six of
		// those read in the wrong byte order do.
		if v != 0 && (math.Abs(v) > 1e5 || math.Abs(v) < 1e-9) {
			absurd++
		}
	}
	if absurd > n/2 {
		return malformed("vector %d: %d of %d elements are absurdly large or small, as in a wrong byte order", i, absurd, n)
	}
	return nil
}

// element decodes one element. Only whether it is finite and its magnitude
// matter, so the one-byte types keep no more than that.
func element(data []byte, dtype string, order binary.ByteOrder) float64 {
	switch dtype {
	case "float32":
		return float64(math.Float32frombits(order.Uint32(data)))
	case "bfloat16":
		return float64(math.Float32frombits(uint32(order.Uint16(data)) << 16))
	case "float16":
		return halfFloat(order.Uint16(data))
	case "fp8_e5m2":
		return halfFloat(uint16(data[0]) << 8) // the upper half of a float16
	default: // fp8_e4m3 has no infinity and one NaN
		if data[0]&0x7f == 0x7f {
			return math.NaN()
		}
		return 0
	}
}

// halfFloat is the value of an IEEE 754 binary16.
func halfFloat(bits uint16) float64 {
	exp, frac := int(bits>>10&31), float64(bits&1023)
	v := math.Ldexp(1+frac/1024, exp-15)
	switch {
	case exp == 31 && frac == 0:
		v = math.Inf(1)
	case exp == 31:
		v = math.NaN()
	case exp == 0:
		v = math.Ldexp(frac/1024, -14)
	}
	if bits>>15 == 1 {
		v = -v
	}
	return v
}
