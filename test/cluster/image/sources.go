//go:build linux

package image

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// aptFolder is where a machine says from where it has its packages.
const aptFolder = "/etc/apt"

// sources gives the machine's own sources of a suite and its updates, as lines
// of a sources.list; none when it has none, because it is another Debian or
// none at all. A machine that reaches only a mirror has its mirror there.
func sources(folder, suite string) []string {
	var lines []string
	files, _ := filepath.Glob(filepath.Join(folder, "sources.list.d", "*"))
	for _, file := range append([]string{filepath.Join(folder, "sources.list")}, files...) {
		data, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		switch filepath.Ext(file) {
		case ".list":
			lines = append(lines, fromLines(string(data), suite)...)
		case ".sources":
			lines = append(lines, fromStanzas(string(data), suite)...)
		}
	}
	return lines
}

// isOf says whether a suite is the one, or what belongs to it.
func isOf(suite, of string) bool {
	return slices.Contains([]string{of, of + "-updates", of + "-security", of + "/updates"}, suite)
}

func fromLines(text, suite string) []string {
	var out []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		rest, ok := strings.CutPrefix(line, "deb ")
		if _, behind, found := strings.Cut(rest, "]"); found {
			rest = behind
		}
		fields := strings.Fields(rest)
		if ok && len(fields) >= 3 && isOf(fields[1], suite) {
			out = append(out, line)
		}
	}
	return out
}

func fromStanzas(text, suite string) []string {
	var out []string
	for stanza := range strings.SplitSeq(text, "\n\n") {
		field := map[string][]string{}
		for line := range strings.Lines(stanza) {
			// What is continued on a further line is a key written out, which
			// can't be said in one.
			if name, value, ok := strings.Cut(line, ":"); ok && !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, " ") {
				field[strings.ToLower(name)] = strings.Fields(value)
			}
		}
		if !slices.Contains(field["types"], "deb") || slices.Equal(field["enabled"], []string{"no"}) {
			continue
		}
		options := ""
		if key := field["signed-by"]; len(key) == 1 {
			options = "[signed-by=" + key[0] + "] "
		}
		for _, uri := range field["uris"] {
			for _, s := range field["suites"] {
				if isOf(s, suite) {
					out = append(out, "deb "+options+uri+" "+s+" "+strings.Join(field["components"], " "))
				}
			}
		}
	}
	return out
}
