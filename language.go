package skerry

import (
	"path"
	"slices"
	"strings"
)

// Language is data: how code in it becomes a command.
type Language struct {
	Name    string
	Aliases []string
	Endings []string // of files, with the dot
	Command []string // the interpreter and its arguments; the code's file follows
	Image   string   // for backends with images; "" is the profile's
	Install string   // what to do when the interpreter is missing
}

// BuiltinLanguages are the languages that need no configuration.
func BuiltinLanguages() []Language {
	return []Language{
		{
			Name: "python", Aliases: []string{"py", "python3"}, Endings: []string{".py"},
			Command: []string{"python3", "-u"}, Install: "apt-get install python3",
		},
		{
			Name: "bash", Aliases: []string{"sh", "shell"}, Endings: []string{".sh", ".bash"},
			Command: []string{"bash"}, Install: "apt-get install bash",
		},
		{
			Name: "node", Aliases: []string{"js", "javascript", "nodejs"}, Endings: []string{".js", ".mjs", ".cjs"},
			Command: []string{"node"}, Install: "apt-get install nodejs",
		},
	}
}

// Languages is a set of languages. A later one with the same name replaces an
// earlier one.
type Languages []Language

// Find gives the language of that name or alias, any case; an unknown one is
// Invalid and lists those there are.
func (ls Languages) Find(name string) (Language, error) {
	want := strings.ToLower(name)
	for _, l := range slices.Backward(ls) {
		if l.Name == want || slices.Contains(l.Aliases, want) {
			return l, nil
		}
	}
	return Language{}, Errorf(Invalid, "language", "unknown language %q", name).WithHint("the languages here are %s", strings.Join(ls.Names(), ", "))
}

// FindFor gives the language of a file by its ending, else by the
// interpreter in its shebang line.
func (ls Languages) FindFor(file string, code []byte) (Language, error) {
	ending := strings.ToLower(path.Ext(file))
	for _, l := range slices.Backward(ls) {
		if ending != "" && slices.Contains(l.Endings, ending) {
			return l, nil
		}
	}
	if line, ok := strings.CutPrefix(firstLine(code), "#!"); ok {
		words := strings.Fields(line)
		if len(words) > 0 && path.Base(words[0]) == "env" {
			words = words[1:]
			for len(words) > 0 && strings.HasPrefix(words[0], "-") {
				words = words[1:]
			}
		}
		if len(words) > 0 {
			base := path.Base(words[0])
			for _, l := range slices.Backward(ls) {
				if l.Name == base || slices.Contains(l.Aliases, base) || len(l.Command) > 0 && l.Command[0] == base {
					return l, nil
				}
			}
		}
	}
	return Language{}, Errorf(Invalid, "language", "can't tell the language of %q from its ending or its first line", file).WithHint("name it with -l: %s", strings.Join(ls.Names(), ", "))
}

// Names lists the names of the languages, sorted, each once.
func (ls Languages) Names() []string {
	var names []string
	for _, l := range ls {
		names = append(names, l.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Ending gives the language's first file ending, or "".
func (l Language) Ending() string {
	if len(l.Endings) == 0 {
		return ""
	}
	return l.Endings[0]
}

func firstLine(code []byte) string {
	const enough = 256 // the kernel reads no more of a shebang line
	s := string(code[:min(len(code), enough)])
	line, _, _ := strings.Cut(s, "\n")
	return line
}
