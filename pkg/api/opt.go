package api

import "encoding/json"

// An Opt is a value that may be absent. The zero Opt is absent: no 0, -1 or NaN
// ever stands for "no data". With the omitzero option an absent field is left
// out of JSON.
type Opt[T any] struct {
	V     T
	Known bool
}

// Some returns a present value.
func Some[T any](v T) Opt[T] { return Opt[T]{V: v, Known: true} }

// IsZero reports that the value is absent.
func (o Opt[T]) IsZero() bool { return !o.Known }

// MarshalJSON writes the value, or null when it is absent.
func (o Opt[T]) MarshalJSON() ([]byte, error) {
	if !o.Known {
		return []byte("null"), nil
	}
	return json.Marshal(o.V)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (o *Opt[T]) UnmarshalJSON(data []byte) error {
	*o = Opt[T]{}
	if string(data) == "null" {
		return nil
	}
	var v T
	if err := json.Unmarshal(data, &v); err != nil {
		return err
	}
	*o = Some(v)
	return nil
}
