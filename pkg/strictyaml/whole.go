package strictyaml

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// fraction finds the first number with a fraction that is to become an integer: the
// YAML library would cut it off without a word.
func fraction(n ast.Node, t reflect.Type) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch n := n.(type) {
	case *ast.FloatNode:
		switch t.Kind() {
		case reflect.Int, reflect.Int64, reflect.Uint64:
			return at(n, fmt.Errorf("want a whole number, not %s", n.Token.Value))
		}
	case *ast.SequenceNode:
		if t.Kind() != reflect.Slice {
			return nil
		}
		for _, v := range n.Values {
			if err := fraction(v, t.Elem()); err != nil {
				return err
			}
		}
	case *ast.MappingNode:
		for _, v := range n.Values {
			if err := fraction(v, t); err != nil {
				return err
			}
		}
	case *ast.MappingValueNode:
		switch t.Kind() {
		case reflect.Map:
			return fraction(n.Value, t.Elem())
		case reflect.Struct:
			for _, f := range reflect.VisibleFields(t) {
				if name, _, _ := strings.Cut(f.Tag.Get("yaml"), ","); name == n.Key.String() {
					return fraction(n.Value, f.Type)
				}
			}
		}
	case *ast.AnchorNode:
		return fraction(n.Value, t)
	case *ast.TagNode:
		return fraction(n.Value, t)
	}
	return nil
}
