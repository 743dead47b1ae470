package skerry

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// CleanText gives text from elsewhere in a form that is safe to show: at most
// most bytes of it, an ellipsis where it was cut, in UTF-8. In the place of each
// character that acts on a terminal, can't be seen or changes how others are
// read stands U+FFFD; keep names the exceptions, for example "\t\n".
func CleanText(s string, most int, keep string) string {
	cut := len(s) > most
	if cut {
		for most > 0 && !utf8.RuneStart(s[most]) {
			most--
		}
		s = s[:most]
	}
	s = strings.Map(func(r rune) rune {
		if unicode.IsGraphic(r) || strings.ContainsRune(keep, r) {
			return r
		}
		return utf8.RuneError
	}, strings.ToValidUTF8(s, string(utf8.RuneError)))
	if cut {
		s += "…"
	}
	return s
}
