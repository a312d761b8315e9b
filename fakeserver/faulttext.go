package fakeserver

import (
	"errors"
	"fmt"
	"net/textproto"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// faultField is one field of Fault as its tags describe it.
type faultField struct {
	key      string
	index    int
	min, max int64
	enum     []string
	needs    string // key of another field
}

const maxInt = maxPlanned // of a field that names no maximum of its own

// faultFields are the fields in their order. The tags are the one place that says what a key takes: this package, the
// profile's parser and its JSON Schema all read them.
var faultFields = sync.OnceValue(func() []faultField {
	var fields []faultField
	t := reflect.TypeFor[Fault]()
	for i := range t.NumField() {
		f := faultField{index: i, max: maxInt}
		tag := t.Field(i).Tag
		f.key, _, _ = strings.Cut(tag.Get("yaml"), ",")
		f.needs = tag.Get("needs")
		for part := range strings.SplitSeq(tag.Get("jsonschema"), ",") {
			name, value, _ := strings.Cut(part, "=")
			n, _ := strconv.ParseInt(value, 10, 64)
			switch name {
			case "minimum":
				f.min = n
			case "maximum":
				f.max = n
			case "enum":
				f.enum = append(f.enum, value)
			}
		}
		fields = append(fields, f)
	}
	return fields
})

// FaultKeys returns all keys of the text form, in the order in which String writes them.
func FaultKeys() []string {
	fields := faultFields()
	keys := make([]string, len(fields))
	for i, f := range fields {
		keys[i] = f.key
	}
	return keys
}

// checkFields checks each field by its tags.
func (f *Fault) checkFields() error {
	v := reflect.ValueOf(f).Elem()
	given := map[string]bool{}
	for _, field := range faultFields() {
		given[field.key] = !v.Field(field.index).IsZero()
	}
	for _, field := range faultFields() {
		if !given[field.key] {
			continue
		}
		if err := field.check(v.Field(field.index)); err != nil {
			return fmt.Errorf("%s: %w", field.key, err)
		}
		if field.needs != "" && !given[field.needs] {
			return fmt.Errorf("%s needs %s", field.key, field.needs)
		}
	}
	return nil
}

func (f *faultField) check(v reflect.Value) error {
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if f.enum != nil {
		if s := fmt.Sprint(v.Interface()); !slices.Contains(f.enum, s) {
			return fmt.Errorf("%q is not one of %s", s, strings.Join(f.enum, ", "))
		}
		return nil
	}
	if d, ok := v.Interface().(time.Duration); ok {
		if d < 0 || d > maxDelay {
			return fmt.Errorf("%v is not between 0 and %v", d, maxDelay)
		}
	} else if v.CanInt() && (v.Int() < f.min || v.Int() > f.max) {
		return fmt.Errorf("%d is not between %d and %d", v.Int(), f.min, f.max)
	}
	return nil
}

// ParseFault reads the text form and checks the fault. Its errors name the key.
func ParseFault(text string) (Fault, error) {
	var f Fault
	v := reflect.ValueOf(&f).Elem()
	seen := map[string]bool{}
	for rest := text; rest != ""; {
		pair, after, err := cutPair(rest)
		if err != nil {
			return Fault{}, err
		}
		rest = after
		if pair == "" {
			continue
		}
		key, value, ok := strings.Cut(pair, "=")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		i := slices.IndexFunc(faultFields(), func(f faultField) bool { return f.key == key })
		if i < 0 {
			return Fault{}, fmt.Errorf("%s: unknown key", clip(strconv.Quote(key)))
		}
		meta := &faultFields()[i]
		field := v.Field(meta.index)
		repeats := field.Kind() == reflect.Map || field.Kind() == reflect.Slice
		switch {
		case seen[key] && !repeats:
			return Fault{}, fmt.Errorf("%s is given twice", key)
		case !ok && field.Kind() != reflect.Bool:
			return Fault{}, fmt.Errorf("%q is not key=value", key)
		case !ok:
			value = "true"
		}
		seen[key] = true
		if !repeats {
			value, err = unquote(value)
		}
		if err == nil {
			err = setField(field, value)
		}
		if err == nil {
			err = meta.check(field) // here too, for a zero that Check takes for absent
		}
		if err != nil {
			return Fault{}, fmt.Errorf("%s: %w", key, err)
		}
	}
	return f, f.Check()
}

// cutPair cuts the text at the first semicolon that is not in quotes.
func cutPair(text string) (pair, rest string, err error) {
	quoted := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case c == ';' && !quoted:
			return strings.TrimSpace(text[:i]), text[i+1:], nil
		}
	}
	if quoted {
		return "", "", errors.New("a quote is not closed")
	}
	return strings.TrimSpace(text), "", nil
}

// unquote takes Go's quotes away, if there are any.
func unquote(value string) (string, error) {
	if !strings.HasPrefix(value, `"`) {
		return value, nil
	}
	plain, err := strconv.Unquote(value)
	if err != nil {
		return "", fmt.Errorf("%s is not quoted as in Go", clip(value))
	}
	return plain, nil
}

// quote puts a value in quotes that would not survive without.
func quote(value string) string {
	if value == "" || value != strings.TrimSpace(value) || !utf8.ValidString(value) ||
		strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r == 0x7f || r == '"' || r == ';' || r == '\\' }) {
		return strconv.Quote(value)
	}
	return value
}

func setField(v reflect.Value, text string) error {
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	switch p := v.Addr().Interface().(type) {
	case *time.Duration:
		d, err := parseDelay(text)
		*p = d
		return err
	case *[]Step:
		at, data, ok := strings.Cut(text, ":")
		d, err := parseDelay(at)
		if !ok || err != nil {
			return fmt.Errorf("%q is not TIME:DATA", clip(text))
		}
		if data, err = unquote(data); err != nil {
			return err
		}
		*p = append(*p, Step{At: d, Data: data})
		return nil
	case *map[string]string:
		name, value, ok := strings.Cut(text, ":")
		if !ok {
			return fmt.Errorf("%q is not NAME:VALUE", clip(text))
		}
		value, err := unquote(strings.TrimSpace(value))
		if err != nil {
			return err
		}
		if *p == nil {
			*p = map[string]string{}
		}
		(*p)[textproto.CanonicalMIMEHeaderKey(strings.TrimSpace(name))] = value
		return nil
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Bool:
		b, err := parseBool(text)
		if err != nil {
			return err
		}
		v.SetBool(b)
	default:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || v.OverflowInt(n) {
			return fmt.Errorf("%q is not a number", clip(text))
		}
		v.SetInt(n)
	}
	return nil
}

// String returns the text form, which ParseFault reads back; "" for the zero value.
func (f Fault) String() string {
	var b strings.Builder
	v := reflect.ValueOf(&f).Elem()
	add := func(key, value string) {
		if b.Len() > 0 {
			b.WriteString("; ")
		}
		b.WriteString(key)
		b.WriteByte('=')
		b.WriteString(value)
	}
	for _, field := range faultFields() {
		v := v.Field(field.index)
		if v.IsZero() {
			continue
		}
		if v.Kind() == reflect.Pointer {
			v = v.Elem()
		}
		switch x := v.Interface().(type) {
		case []Step:
			for _, s := range x {
				add(field.key, s.At.String()+":"+quote(s.Data))
			}
		case map[string]string:
			names := make([]string, 0, len(x))
			for name := range x {
				names = append(names, name)
			}
			slices.Sort(names)
			for _, name := range names {
				add(field.key, name+":"+quote(x[name]))
			}
		default:
			add(field.key, quote(fmt.Sprint(x)))
		}
	}
	return b.String()
}

// clip shortens what is repeated in a message.
func clip(s string) string {
	if len(s) > 40 {
		return strings.ToValidUTF8(s[:40], "") + "…"
	}
	return s
}
