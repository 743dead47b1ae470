package config

import (
	"fmt"
	"strings"

	"github.com/skerry-run/skerry"
)

var languageKeys = []string{"name", "aliases", "endings", "command", "image", "install"}

// parseLanguages adds the file's languages after the built-in ones; the same
// name replaces.
func (c *Config) parseLanguages(f field) error {
	if f.value.shape == emptyShape {
		return nil
	}
	if f.value.shape != listShape {
		return atLine(c.file, f.line, "languages is %s, want a list", f.value.shape)
	}
	for _, item := range f.value.items {
		l, err := c.parseLanguage(item)
		if err != nil {
			return err
		}
		c.Languages = append(c.Languages, l)
		c.sources["languages."+l.Name] = Source{fromFile, fmt.Sprintf("%s:%d", c.file, item.line)}
	}
	return nil
}

func (c *Config) parseLanguage(n *node) (skerry.Language, error) {
	var l skerry.Language
	if n.shape != mappingShape {
		return l, atLine(c.file, n.line, "a language is %s, want a mapping with %s", n.shape, strings.Join(languageKeys, ", "))
	}
	for _, f := range n.fields {
		var err error
		switch f.key {
		case "name":
			l.Name, err = c.word(f)
		case "aliases":
			l.Aliases, err = c.words(f)
		case "endings":
			l.Endings, err = c.words(f)
		case "command":
			l.Command, err = c.words(f)
		case "image":
			l.Image, err = c.word(f)
		case "install":
			l.Install, err = c.word(f)
		default:
			err = unknownKey(c.file, f, " in a language", languageKeys)
		}
		if err != nil {
			return l, err
		}
	}
	// Names are looked up in lower case.
	l.Name = strings.ToLower(l.Name)
	for i := range l.Aliases {
		l.Aliases[i] = strings.ToLower(l.Aliases[i])
	}
	for i, e := range l.Endings {
		if !strings.HasPrefix(e, ".") || strings.ContainsAny(e, "/\\") {
			return l, atLine(c.file, n.line, "the ending %q is not one: it starts with a dot", e)
		}
		l.Endings[i] = strings.ToLower(e)
	}
	switch {
	case l.Name == "":
		return l, atLine(c.file, n.line, "a language has no name")
	case len(l.Command) == 0 || l.Command[0] == "":
		return l, atLine(c.file, n.line, "the language %s has no command", l.Name).WithHint("give the interpreter and its arguments, for example command: [ruby]")
	}
	return l, nil
}

func (c *Config) word(f field) (string, error) {
	if f.value.shape != scalarShape {
		return "", atLine(c.file, f.line, "%s is %s, want a single value", f.key, f.value.shape)
	}
	return f.value.scalar, nil
}

// words reads a list, or a single value as a list of one.
func (c *Config) words(f field) ([]string, error) {
	switch f.value.shape {
	case scalarShape:
		return []string{f.value.scalar}, nil
	case emptyShape:
		return nil, nil
	case mappingShape:
		return nil, atLine(c.file, f.line, "%s is a mapping, want a list", f.key)
	}
	var out []string
	for _, item := range f.value.items {
		if item.shape != scalarShape {
			return nil, atLine(c.file, item.line, "an entry of %s is %s, want a single value", f.key, item.shape)
		}
		out = append(out, item.scalar)
	}
	return out, nil
}
