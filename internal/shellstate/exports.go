package shellstate

import (
	"errors"
	"fmt"
	"strings"
)

type variable struct{ name, value string }

var errQuote = errors.New("an exported variable's value does not end")

// parseExports reads what `export -p` prints: one `declare -FLAGS NAME=VALUE`
// after the other, VALUE in double quotes or as $'…', either over several
// lines. Arrays and variables without a value are left out: no process
// inherits them.
func parseExports(b []byte) ([]variable, error) {
	s := string(b)
	var out []variable
	for s != "" {
		rest, ok := strings.CutPrefix(s, "declare -")
		if !ok {
			return nil, fmt.Errorf("unexpected text %.40q among the exported variables", s)
		}
		flags, rest, ok := strings.Cut(rest, " ")
		if !ok || strings.Trim(flags, "abcdefghijklmnopqrstuvwxyzAI") != "" {
			return nil, errors.New("an exported variable has no name")
		}
		n := strings.IndexAny(rest, "=\n")
		if n < 0 || !isName(rest[:n]) {
			return nil, fmt.Errorf("%.40q is no variable", rest)
		}
		name := rest[:n]
		if rest[n] == '\n' {
			s = rest[n+1:]
			continue
		}
		rest = rest[n+1:]
		if strings.ContainsAny(flags, "aA") {
			var err error
			if s, err = skipArray(rest); err != nil {
				return nil, err
			}
			continue
		}
		value, rest, err := word(rest)
		if err != nil {
			return nil, err
		}
		if s, ok = strings.CutPrefix(rest, "\n"); !ok {
			return nil, fmt.Errorf("unexpected text after the value of %s", name)
		}
		out = append(out, variable{name, value})
	}
	return out, nil
}

// skipArray passes over (…) and the end of its line. An array may also be
// printed without a list.
func skipArray(s string) (string, error) {
	rest, ok := strings.CutPrefix(s, "(")
	for ok && !strings.HasPrefix(rest, ")\n") {
		switch {
		case rest == "":
			return "", errQuote
		case rest[0] == '"' || strings.HasPrefix(rest, "$'"):
			var err error
			if _, rest, err = word(rest); err != nil {
				return "", err
			}
		case rest[0] == '\\' && len(rest) > 1:
			rest = rest[2:]
		default:
			rest = rest[1:]
		}
	}
	if !ok {
		return "", errors.New("an exported array has no list")
	}
	return rest[2:], nil
}

// word reads one quoted word off s.
func word(s string) (value, rest string, err error) {
	if r, ok := strings.CutPrefix(s, "$'"); ok {
		return ansiC(r)
	}
	r, ok := strings.CutPrefix(s, `"`)
	if !ok {
		return "", "", errors.New("an exported variable's value is not quoted")
	}
	var b strings.Builder
	for i := 0; i < len(r); i++ {
		switch c := r[i]; {
		case c == '"':
			return b.String(), r[i+1:], nil
		case c == '\\' && i+1 < len(r) && strings.IndexByte("\\\"$`\n", r[i+1]) >= 0:
			i++
			b.WriteByte(r[i])
		default:
			b.WriteByte(c)
		}
	}
	return "", "", errQuote
}

// simpleEscapes of $'…'.
const simpleEscapes = "a\ab\be\x1bE\x1bf\fn\nr\rt\tv\v\\\\''\"\"??"

// ansiC reads the rest of $'…', of which the opening is gone.
func ansiC(s string) (value, rest string, err error) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c == '\'' {
			return b.String(), s[i+1:], nil
		}
		if c != '\\' || i+1 == len(s) {
			b.WriteByte(c)
			continue
		}
		i++
		c = s[i]
		if c >= '0' && c <= '7' {
			n, j := 0, i
			for ; j < len(s) && j < i+3 && s[j] >= '0' && s[j] <= '7'; j++ {
				n = n*8 + int(s[j]-'0')
			}
			i = j - 1
			if n == 0 || n > 255 {
				return "", "", errors.New("an exported variable holds a byte that is none")
			}
			b.WriteByte(byte(n))
			continue
		}
		k := -1
		for j := 0; j < len(simpleEscapes); j += 2 {
			if simpleEscapes[j] == c {
				k = j
			}
		}
		if k < 0 {
			return "", "", fmt.Errorf("an exported variable holds the unknown escape %q", c)
		}
		b.WriteByte(simpleEscapes[k+1])
	}
	return "", "", errQuote
}

// isName says whether s can be the name of a shell variable.
func isName(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c != '_' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}
