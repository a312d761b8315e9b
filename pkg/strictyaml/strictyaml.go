// Package strictyaml reads a YAML document of settings, and is strict where a slip of the pen would otherwise set nothing:
// unknown and repeated keys, keys without a value, fractions where an integer is meant, second documents and deep nesting
// are errors of one line that tell line and column. JSON is YAML too.
//
//	doc, err := strictyaml.Parse(data)
//	if err == nil {
//		err = doc.Decode(&settings)
//	}
//	if err == nil && settings.TTFT < 0 {
//		err = doc.At("$.ttft", errors.New("ttft: less than 0"))
//	}
package strictyaml

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Document is a parsed text, kept to find the places that errors are about.
type Document struct {
	file *ast.File
	body ast.Node // nil if there is none
}

// Parse reads the syntax. A text of comments, or nothing, is a document too.
func Parse(data []byte) (*Document, error) {
	if depth(data) > maxDepth {
		return nil, fmt.Errorf("nested over %d deep", maxDepth)
	}
	file, err := parser.ParseBytes(data, 0)
	if err != nil {
		return nil, place(err)
	}
	d := &Document{file: file}
	for _, doc := range file.Docs {
		if doc == nil || doc.Body == nil || doc.Body.Type() == ast.CommentType || doc.Body.Type() == ast.CommentGroupType {
			continue
		}
		if d.body != nil {
			return nil, at(doc.Body, errors.New("a second document"))
		}
		d.body = doc.Body
	}
	return d, nil
}

// maxDepth bounds the recursion of the parser; settings need five levels or so.
const maxDepth = 64

// depth overestimates how deep a text is nested: by its open brackets, by the indentation of a line, and by the dashes
// and question marks at its beginning, each of which opens a level.
func depth(data []byte) (deepest int) {
	open := 0
	for line := range strings.Lines(string(data)) {
		indent := 0
		for indent < len(line) && strings.ContainsRune(" \t-?:", rune(line[indent])) {
			indent++
		}
		deepest = max(deepest, indent/2)
		for _, c := range line {
			switch c {
			case '[', '{':
				open++
				deepest = max(deepest, open)
			case ']', '}':
				open = max(0, open-1)
			}
		}
	}
	return deepest
}

// Decode sets the struct that v points to, by the names in its yaml tags. Without any value v stays as it is.
func (d *Document) Decode(v any) error {
	if d.body == nil {
		return nil
	}
	if d.body.Type() != ast.MappingType && d.body.Type() != ast.MappingValueType {
		return at(d.body, errors.New("not a mapping of keys to values"))
	}
	// A key without a value would be as if it were not there: somebody's fault that never happens.
	var null nullFinder
	ast.Walk(&null, d.body)
	if null.node != nil {
		return at(null.node, errors.New("a value is missing"))
	}
	if err := fraction(d.body, reflect.TypeOf(v)); err != nil {
		return err
	}
	err := yaml.NodeToValue(d.body, v, yaml.Strict())
	if err == nil {
		return nil
	}
	// Errors of time.ParseDuration come without a place, but end in the text that they are about.
	if m := lastQuoted.FindString(err.Error()); m != "" && !errors.As(err, new(yaml.Error)) {
		text, _ := strconv.Unquote(m)
		found := textFinder{text: text}
		ast.Walk(&found, d.body)
		if found.node != nil {
			return at(found.node, place(err))
		}
	}
	return place(err)
}

var lastQuoted = regexp.MustCompile(`"(?:[^"\\]|\\.)*"$`)

// textFinder finds the first value with a text.
type textFinder struct {
	text string
	node ast.Node
}

func (f *textFinder) Visit(n ast.Node) ast.Visitor {
	if s, ok := n.(*ast.StringNode); ok && s.Value == f.text && f.node == nil {
		f.node = n
	}
	return f
}

type nullFinder struct{ node ast.Node }

func (f *nullFinder) Visit(n ast.Node) ast.Visitor {
	if n.Type() == ast.NullType && f.node == nil {
		f.node = n
	}
	return f
}

// at says where a node is.
func at(n ast.Node, err error) error {
	if m, ok := n.(*ast.MappingNode); ok && len(m.Values) > 0 {
		n = m.Values[0].Key // a block's own token is its first colon
	}
	if m, ok := n.(*ast.MappingValueNode); ok {
		n = m.Key
	}
	return atToken(n.GetToken(), err)
}

func atToken(t *token.Token, err error) error {
	if t == nil || t.Position == nil {
		return err
	}
	return fmt.Errorf("line %d, column %d: %w", t.Position.Line, t.Position.Column, err)
}

// place makes one line of an error of the YAML parser, with its place.
func place(err error) error {
	var own yaml.Error
	if !errors.As(err, &own) {
		return errors.New(oneLine(err.Error()))
	}
	return atToken(own.GetToken(), errors.New(oneLine(own.GetMessage())))
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// Has reports whether there is a value at a path such as $.rules[2].unit.
func (d *Document) Has(path string) bool { return d.find(path) != nil }

func (d *Document) find(path string) ast.Node {
	p, err := yaml.PathString(path)
	if err != nil {
		return nil
	}
	n, err := p.FilterFile(d.file)
	if err != nil {
		return nil
	}
	return n
}

// At adds to err where the value at a path is, if there is one.
func (d *Document) At(path string, err error) error {
	n := d.find(path)
	if n == nil {
		return err
	}
	return at(n, err)
}
