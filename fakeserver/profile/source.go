package profile

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

// source is a parsed text, kept to find the places that errors are about.
type source struct {
	file *ast.File
	body ast.Node // nil if there is none
}

func newSource(data []byte) (*source, error) {
	if depth(data) > maxDepth {
		return nil, fmt.Errorf("nested over %d deep", maxDepth)
	}
	file, err := parser.ParseBytes(data, 0)
	if err != nil {
		return nil, place(err)
	}
	s := &source{file: file}
	for _, doc := range file.Docs {
		if doc == nil || doc.Body == nil || doc.Body.Type() == ast.CommentType || doc.Body.Type() == ast.CommentGroupType {
			continue
		}
		if s.body != nil {
			return nil, at(doc.Body, errors.New("a second document"))
		}
		s.body = doc.Body
	}
	return s, nil
}

// maxDepth bounds the recursion of the parser; a profile needs five.
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

func (s *source) decode(d *document) error {
	if s.body == nil {
		return nil
	}
	if s.body.Type() != ast.MappingType && s.body.Type() != ast.MappingValueType {
		return at(s.body, errors.New("not a mapping of keys to values"))
	}
	// A key without a value would be as if it were not there: somebody's fault that never happens.
	var null nullFinder
	ast.Walk(&null, s.body)
	if null.node != nil {
		return at(null.node, errors.New("a value is missing"))
	}
	err := yaml.NodeToValue(s.body, d, yaml.Strict())
	if err == nil {
		return nil
	}
	// Errors of time.ParseDuration come without a place, but end in the text that they are about.
	if m := lastQuoted.FindString(err.Error()); m != "" && !errors.As(err, new(yaml.Error)) {
		text, _ := strconv.Unquote(m)
		found := textFinder{text: text}
		ast.Walk(&found, s.body)
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
func at(n ast.Node, err error) error { return atToken(n.GetToken(), err) }

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
func (s *source) explain(err error) error {
	var field *fieldError
	if errors.As(err, &field) {
		return s.atPath("$."+field.key, err)
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
		return s.atPath("$."+key, fmt.Errorf("%s: %s", key, m[3]))
	}
	path, rest := "$."+key+"["+m[2]+"]", m[3]
	for {
		inner := innerKey.FindStringSubmatch(rest)
		if inner == nil || s.find(path+"."+inner[1]) == nil {
			return s.atPath(path, errors.New(m[3]))
		}
		path += "." + inner[1]
		rest = rest[len(inner[0]):]
	}
}

func (s *source) find(path string) ast.Node {
	p, err := yaml.PathString(path)
	if err != nil {
		return nil
	}
	n, err := p.FilterFile(s.file)
	if err != nil {
		return nil
	}
	return n
}

// atPath says where the value at a path is.
func (s *source) atPath(path string, err error) error {
	n := s.find(path)
	if n == nil {
		return err
	}
	if m, ok := n.(*ast.MappingNode); ok && len(m.Values) > 0 {
		n = m.Values[0].Key // a block's own token is its first colon
	}
	if m, ok := n.(*ast.MappingValueNode); ok {
		n = m.Key
	}
	return at(n, err)
}
