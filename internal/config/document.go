package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/skerry-run/skerry"
)

// maxDepth bounds how deep a configuration nests; no setting needs half of it.
const maxDepth = 16

// node is one value of the file with the line it stands on. Exactly one of
// its shapes is used.
type node struct {
	line   int
	scalar string
	fields []field // of a mapping, in the file's order
	items  []*node // of a list
	shape  shape
}

type shape string

const (
	scalarShape  shape = "a value"
	mappingShape shape = "a mapping"
	listShape    shape = "a list"
	emptyShape   shape = "nothing"
)

type field struct {
	key   string
	line  int
	value *node
}

// parseDocument reads a file of at most one YAML document. Anchors, aliases,
// merges and tags are refused: a setting stands where it is read.
func parseDocument(file string, data []byte) (*node, error) {
	parsed, err := parser.ParseBytes(data, 0)
	if err != nil {
		line, message := 1, err.Error()
		if syntax, ok := errors.AsType[*yaml.SyntaxError](err); ok {
			message = syntax.Message
			if syntax.Token != nil {
				line = syntax.Token.Position.Line
			}
		}
		return nil, atLine(file, line, "not valid YAML: %s", message)
	}
	var body *node
	for _, d := range parsed.Docs {
		if d.Body == nil {
			continue
		}
		if body != nil {
			return nil, atLine(file, d.Body.GetToken().Position.Line, "a second document; the file holds one")
		}
		if body, err = convert(file, d.Body, 0); err != nil {
			return nil, err
		}
	}
	if body == nil {
		return &node{line: 1, shape: emptyShape}, nil
	}
	return body, nil
}

func convert(file string, n ast.Node, depth int) (*node, error) {
	line := 1
	if t := n.GetToken(); t != nil {
		line = t.Position.Line
	}
	if depth > maxDepth {
		return nil, atLine(file, line, "nested more than %d deep", maxDepth)
	}
	switch n := n.(type) {
	case *ast.CommentGroupNode:
		return &node{line: line, shape: emptyShape}, nil
	case *ast.NullNode:
		return &node{line: line, shape: emptyShape}, nil
	case *ast.StringNode:
		return &node{line: line, shape: scalarShape, scalar: n.Value}, nil
	case *ast.LiteralNode:
		return &node{line: line, shape: scalarShape, scalar: n.Value.Value}, nil
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return &node{line: line, shape: scalarShape, scalar: n.GetToken().Value}, nil
	case *ast.MappingNode:
		out := &node{line: line, shape: mappingShape}
		for _, v := range n.Values {
			if err := out.addField(file, v, depth); err != nil {
				return nil, err
			}
		}
		return out, nil
	case *ast.MappingValueNode:
		out := &node{line: line, shape: mappingShape}
		return out, out.addField(file, n, depth)
	case *ast.SequenceNode:
		out := &node{line: line, shape: listShape}
		for _, v := range n.Values {
			item, err := convert(file, v, depth+1)
			if err != nil {
				return nil, err
			}
			out.items = append(out.items, item)
		}
		return out, nil
	}
	return nil, atLine(file, line, "%s are not supported here", strings.ToLower(n.Type().String())+"s")
}

func (n *node) addField(file string, v *ast.MappingValueNode, depth int) error {
	line := v.Key.GetToken().Position.Line
	key, ok := v.Key.(ast.ScalarNode)
	if !ok {
		return atLine(file, line, "a key that is not a plain word")
	}
	if _, merge := v.Key.(*ast.MergeKeyNode); merge {
		return atLine(file, line, "merge keys are not supported here")
	}
	name := fmt.Sprint(key.GetValue())
	for _, f := range n.fields {
		if f.key == name {
			return atLine(file, line, "%s is set twice, first in line %d", name, f.line)
		}
	}
	value, err := convert(file, v.Value, depth+1)
	if err != nil {
		return err
	}
	n.fields = append(n.fields, field{key: name, line: line, value: value})
	return nil
}

// atLine is an error about a place in the file.
func atLine(file string, line int, format string, args ...any) *skerry.Error {
	return skerry.Errorf(skerry.Invalid, fmt.Sprintf("%s:%d", file, line), format, args...).
		WithHint("docs/cli.md has an example and lists the settings")
}

// unknownKey names the nearest key that exists.
func unknownKey(file string, f field, where string, known []string) error {
	e := atLine(file, f.line, "unknown key %q%s", f.key, where)
	if near := nearest(f.key, known); near != "" {
		return e.WithHint("did you mean %q?", near)
	}
	return e.WithHint("the keys here are %s", strings.Join(known, ", "))
}

// nearest gives the word closest to s when it is close enough to be a slip.
func nearest(s string, words []string) string {
	best, bestDistance := "", max(2, len(s)/3)+1
	for _, w := range words {
		if d := distance(s, w); d < bestDistance {
			best, bestDistance = w, d
		}
	}
	return best
}

// distance counts the single-character edits between a and b.
func distance(a, b string) int {
	if len(a) > maxWord {
		return len(a)
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
