package profile

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"

	"example.com/tokpace/pkg/strictyaml"
)

// source is a profile's text.
type source struct{ *strictyaml.Document }

func trimPackage(s string) string {
	_, rest, ok := strings.Cut(s, ": ")
	if ok && (strings.HasPrefix(s, "fakeserver: ") || strings.HasPrefix(s, "tokens: ")) {
		return rest
	}
	return s
}

var (
	configError = regexp.MustCompile(`^Config\.([A-Za-z]+)(?:\[(\d+)\])?: (.*)$`)
	innerKey    = regexp.MustCompile(`^([a-z][a-z-]*)(?:: | needs )`)
)

// explain finds the place that an error of fakeserver is about, as near as its text tells.
func (s source) explain(err error) error {
	var field *fieldError
	if errors.As(err, &field) {
		return s.At("$."+field.key, err)
	}
	m := configError.FindStringSubmatch(trimPackage(err.Error()))
	if m == nil {
		return err
	}
	key := m[1]
	if f, ok := reflect.TypeFor[document]().FieldByName(m[1]); ok {
		key, _, _ = strings.Cut(f.Tag.Get("yaml"), ",")
	}
	if m[2] == "" {
		return s.At("$."+key, fmt.Errorf("%s: %s", key, m[3]))
	}
	path, rest := "$."+key+"["+m[2]+"]", m[3]
	for {
		inner := innerKey.FindStringSubmatch(rest)
		if inner == nil || !s.Has(path+"."+inner[1]) {
			return s.At(path, errors.New(m[3]))
		}
		path += "." + inner[1]
		rest = rest[len(inner[0]):]
	}
}
