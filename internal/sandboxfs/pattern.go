package sandboxfs

import (
	"fmt"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// Bounds on a pattern. Braces multiply, so they are counted as they are
// written out.
const (
	maxPatternBytes = 4 << 10
	maxAlternatives = 64
	maxPatternElems = 1024 // of all alternatives
)

// pattern is a glob pattern, made ready to be matched one path element at a
// time: "**" as a whole element is any number of folders, in an element *, ?,
// [a-z] and [!a-z] match anything but a slash, {a,b} is one or the other, and a
// backslash takes the next character as it is. Hidden files are files like any
// other.
type pattern struct {
	alternatives []alternative
	elems        int // of all alternatives
}

type alternative struct {
	elems      []string
	first      int  // number of its first element among those of all alternatives
	folderOnly bool // it ended in a slash
}

// state is which elements of which alternatives come next; nil is a dead end.
type state []position

type position struct{ alternative, elem int }

func parsePattern(s string) (*pattern, error) {
	switch {
	case s == "":
		return nil, fmt.Errorf("the pattern is empty")
	case len(s) > maxPatternBytes:
		return nil, fmt.Errorf("the pattern has %d bytes, at most %d", len(s), maxPatternBytes)
	case strings.IndexByte(s, 0) >= 0:
		return nil, fmt.Errorf("the pattern holds a NUL byte")
	case !doublestar.ValidatePattern(s):
		return nil, fmt.Errorf("the pattern has an open bracket or brace, or ends in a backslash")
	}
	texts, err := expand(s)
	if err != nil {
		return nil, err
	}
	p := &pattern{}
	for _, text := range texts {
		if strings.HasPrefix(text, "/") {
			return nil, fmt.Errorf("the pattern is absolute, but it is matched below the folder searched")
		}
		a := alternative{folderOnly: strings.HasSuffix(text, "/")}
		for _, e := range splitElems(text) {
			switch {
			case e == "" || e == ".":
			case e == "..":
				return nil, fmt.Errorf(`the pattern has "..", but it is matched below the folder searched`)
			case e == "**" && len(a.elems) > 0 && a.elems[len(a.elems)-1] == "**":
			case !doublestar.ValidatePattern(e):
				return nil, fmt.Errorf("the pattern has a slash in brackets")
			default:
				a.elems = append(a.elems, e)
			}
		}
		if len(a.elems) > 0 {
			a.first = p.elems
			p.elems += len(a.elems)
			p.alternatives = append(p.alternatives, a)
		}
		if p.elems > maxPatternElems {
			return nil, fmt.Errorf("the pattern has more than %d elements", maxPatternElems)
		}
	}
	if len(p.alternatives) == 0 {
		return nil, fmt.Errorf("the pattern matches nothing below the folder searched")
	}
	return p, nil
}

// start is the state at the folder that is searched.
func (p *pattern) start() state {
	var s state
	seen := make([]bool, p.elems)
	for i := range p.alternatives {
		s = p.add(s, seen, position{i, 0})
	}
	return s
}

// step gives the state after one more path element, and whether the path
// matches as it is.
func (p *pattern) step(s state, name string, folder bool) (next state, matched bool) {
	seen := make([]bool, p.elems)
	for _, at := range s {
		a := p.alternatives[at.alternative]
		e := a.elems[at.elem]
		last := at.elem == len(a.elems)-1
		if e == "**" {
			next = p.add(next, seen, at)
			matched = matched || last && (folder || !a.folderOnly)
			continue
		}
		if !doublestar.MatchUnvalidated(e, name) {
			continue
		}
		after := position{at.alternative, at.elem + 1}
		matched = matched || p.complete(after) && (folder || !a.folderOnly)
		next = p.add(next, seen, after)
	}
	return next, matched
}

// add puts a position in s, and the one behind a "**", which may be no folder
// at all.
func (p *pattern) add(s state, seen []bool, at position) state {
	a := p.alternatives[at.alternative]
	for ; at.elem < len(a.elems) && !seen[a.first+at.elem]; at.elem++ {
		seen[a.first+at.elem] = true
		s = append(s, at)
		if a.elems[at.elem] != "**" {
			break
		}
	}
	return s
}

func (p *pattern) complete(at position) bool {
	return at.elem == len(p.alternatives[at.alternative].elems)
}

// splitElems splits at slashes that no backslash precedes.
func splitElems(s string) []string {
	var elems []string
	start := 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '/':
			elems = append(elems, s[start:i])
			start = i + 1
		}
	}
	return append(elems, s[start:])
}

// expand writes out the braces of a pattern, which is valid.
func expand(s string) ([]string, error) {
	todo, done := []string{s}, []string(nil)
	for len(todo) > 0 {
		if len(todo)+len(done) > maxAlternatives {
			return nil, fmt.Errorf("the braces of the pattern stand for more than %d patterns", maxAlternatives)
		}
		s := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		open, parts, end := firstBraces(s)
		if open < 0 {
			done = append(done, s)
			continue
		}
		if len(parts) > maxAlternatives {
			return nil, fmt.Errorf("the braces of the pattern stand for more than %d patterns", maxAlternatives)
		}
		for _, part := range parts {
			todo = append(todo, s[:open]+part+s[end:])
		}
	}
	return done, nil
}

// firstBraces finds the first braces outside brackets: where they open, what
// they choose from, and where the text goes on. open is -1 when there are none.
func firstBraces(s string) (open int, parts []string, end int) {
	open = -1
	depth, start := 0, 0
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\':
			i++
		case c == '[':
			i = closeBracket(s, i)
		case c == '{':
			if depth++; depth == 1 {
				open, start = i, i+1
			}
		case c == ',' && depth == 1:
			parts = append(parts, s[start:i])
			start = i + 1
		case c == '}' && depth > 0:
			if depth--; depth == 0 {
				return open, append(parts, s[start:i]), i + 1
			}
		}
	}
	return -1, nil, 0
}

// closeBracket gives the index of the bracket that closes the class at i, or i
// when none does.
func closeBracket(s string, i int) int {
	for j := i + 1; j < len(s); j++ {
		switch {
		case s[j] == '\\':
			j++
		case s[j] == ']' && j > i+1:
			return j
		}
	}
	return i
}
