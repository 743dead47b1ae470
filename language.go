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

// Languages is a set of languages. A later one with the same name takes the
// place of an earlier one, whose aliases, endings and other fields stay where
// the later one leaves them empty.
type Languages []Language

// merged gives each language once, the later ones first.
func (ls Languages) merged() []Language {
	var out []Language
	for _, l := range slices.Backward(ls) {
		i := slices.IndexFunc(out, func(o Language) bool { return strings.EqualFold(o.Name, l.Name) })
		if i < 0 {
			out = append(out, l)
			continue
		}
		o := &out[i]
		if o.Aliases == nil {
			o.Aliases = l.Aliases
		}
		if o.Endings == nil {
			o.Endings = l.Endings
		}
		if len(o.Command) == 0 {
			o.Command = l.Command
		}
		if o.Image == "" {
			o.Image = l.Image
		}
		// How to get another interpreter says nothing about this one.
		if o.Install == "" && len(o.Command) > 0 && len(l.Command) > 0 && o.Command[0] == l.Command[0] {
			o.Install = l.Install
		}
	}
	return out
}

// called says whether name is the name or an alias of l, in any case.
func (l Language) called(name string) bool {
	return strings.EqualFold(l.Name, name) || containsFold(l.Aliases, name)
}

func containsFold(list []string, s string) bool {
	return slices.ContainsFunc(list, func(e string) bool { return strings.EqualFold(e, s) })
}

// Find gives the language of that name or alias, any case; an unknown one is
// Invalid and lists those there are.
func (ls Languages) Find(name string) (Language, error) {
	for _, l := range ls.merged() {
		if name != "" && l.called(name) {
			return l, nil
		}
	}
	return Language{}, Errorf(Invalid, "language", "unknown language %q", name).WithHint("the languages here are %s", strings.Join(ls.Names(), ", "))
}

// FindFor gives the language of a file by its ending, else by the
// interpreter in its shebang line.
func (ls Languages) FindFor(file string, code []byte) (Language, error) {
	all := ls.merged()
	ending := path.Ext(file)
	for _, l := range all {
		if ending != "" && containsFold(l.Endings, ending) {
			return l, nil
		}
	}
	if program := interpreter(code); program != "" {
		// python3.11 is a python as well.
		for _, name := range []string{program, strings.TrimRight(program, "0123456789.")} {
			for _, l := range all {
				if name != "" && (l.called(name) || len(l.Command) > 0 && l.Command[0] == name) {
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

// interpreter gives the name of the program in a shebang line, or "".
func interpreter(code []byte) string {
	line, ok := strings.CutPrefix(firstLine(code), "#!")
	if !ok {
		return ""
	}
	words := strings.Fields(line)
	if len(words) > 0 && path.Base(words[0]) == "env" {
		words = words[1:]
		for len(words) > 0 && (strings.HasPrefix(words[0], "-") || strings.Contains(words[0], "=")) {
			words = words[1:]
		}
	}
	if len(words) == 0 {
		return ""
	}
	return path.Base(words[0])
}

func firstLine(code []byte) string {
	const enough = 256 // the kernel reads no more of a shebang line
	s := string(code[:min(len(code), enough)])
	line, _, _ := strings.Cut(s, "\n")
	return line
}
