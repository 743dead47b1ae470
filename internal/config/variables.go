package config

import (
	"fmt"
	"slices"
	"strings"
)

const (
	variablePrefix = "SKERRY_"
	fileVariable   = "SKERRY_CONFIG"
	// testPrefix is of variables by which tests reach their own programs.
	testPrefix = "SKERRY_TEST_"
	// maxUnknown is how many unknown variables are named.
	maxUnknown = 3
)

// UnknownVariables says in one line which variables of the environment look
// like settings and are none, "" where there are none: a misspelt limit would
// else be no limit. environ is as os.Environ gives it.
func UnknownVariables(environ []string) string {
	known := []string{strings.TrimPrefix(fileVariable, variablePrefix)}
	for i := range settings {
		if settings[i].env != "" {
			known = append(known, strings.TrimPrefix(settings[i].env, variablePrefix))
		}
	}
	var unknown []string
	for _, pair := range environ {
		name, value, _ := strings.Cut(pair, "=")
		rest, ours := strings.CutPrefix(name, variablePrefix)
		if !ours || value == "" || strings.HasPrefix(name, testPrefix) || slices.Contains(known, rest) {
			continue
		}
		if near := nearest(rest, known); near != "" {
			name += fmt.Sprintf(" (did you mean %s?)", variablePrefix+near)
		}
		unknown = append(unknown, name)
	}
	if len(unknown) == 0 {
		return ""
	}
	slices.Sort(unknown)
	more := ""
	if n := len(unknown) - maxUnknown; n > 0 {
		unknown, more = unknown[:maxUnknown], fmt.Sprintf(" and %d more", n)
	}
	return fmt.Sprintf("no setting, so without effect: %s%s", strings.Join(unknown, ", "), more)
}

// Table is the list of settings as a table in Markdown, one line for each.
func Table() string {
	var b strings.Builder
	builtin := Builtin()
	b.WriteString("| setting | variable | built-in | what it is |\n|---|---|---|---|\n")
	for i := range settings {
		s := &settings[i]
		value := s.get(builtin)
		if value != "" {
			value = "`" + value + "`"
		}
		fmt.Fprintf(&b, "| `%s` | `%s` | %s | %s |\n", s.key, s.env, value, about[s.key])
	}
	return b.String()
}

// TerminalTable is the same for the variables of other agents' terminal tools.
func TerminalTable() string {
	var b strings.Builder
	b.WriteString("| variable | is read as |\n|---|---|\n")
	for i := range settings {
		if s := &settings[i]; s.terminal != "" {
			fmt.Fprintf(&b, "| `%s` | `%s` |\n", s.terminal, s.env)
		}
	}
	return b.String()
}
