package fakeserver

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// apiError is an answer other than 200. kind is vLLM's error.type: "BadRequestError" and "NotFoundError" when a
// handler refuses, the status text when the request never got that far.
type apiError struct {
	status  int
	kind    string
	message string
	param   string // "" = null
	allow   string // the Allow header of a 405
}

func (e *apiError) Error() string { return e.message }

func badRequest(format string, args ...any) error {
	return &apiError{status: http.StatusBadRequest, kind: "BadRequestError", message: fmt.Sprintf(format, args...)}
}

// badParam is badRequest about one field.
func badParam(param, format string, args ...any) error {
	return &apiError{status: http.StatusBadRequest, kind: "BadRequestError", param: param, message: fmt.Sprintf(format, args...)}
}

// errorPlan answers at once in vLLM's shape. An error of another type is a fault of this package and becomes a 500.
func errorPlan(err error) *Plan {
	e, ok := err.(*apiError)
	if !ok {
		e = &apiError{status: http.StatusInternalServerError, kind: "InternalServerError", message: err.Error()}
	}
	b := append([]byte(nil), `{"error":{"message":`...)
	b = appendString(b, e.message)
	b = append(b, `,"type":`...)
	b = appendString(b, e.kind)
	if e.param == "" {
		b = append(b, `,"param":null`...)
	} else {
		b = append(b, `,"param":`...)
		b = appendString(b, e.param)
	}
	b = fmt.Appendf(b, `,"code":%d}}`, e.status)
	p := instantPlan(e.status, b)
	if e.allow != "" {
		p.Header.Set("Allow", e.allow)
	}
	return p
}

// appendString appends s as a JSON string.
func appendString(b []byte, s string) []byte {
	if isPlain(s) { // as nearly every model's name is
		b = append(b, '"')
		b = append(b, s...)
		return append(b, '"')
	}
	q, err := json.Marshal(s)
	if err != nil {
		panic(err) // strings always marshal
	}
	return append(b, q...)
}

// isPlain reports whether a JSON string needs no escapes for s.
func isPlain(s string) bool {
	for _, c := range []byte(s) {
		if c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			return false
		}
	}
	return true
}
