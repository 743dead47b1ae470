package skerry_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/skerry-run/skerry"
)

func TestLanguagesAreFoundByNameAndAlias(t *testing.T) {
	ls := skerry.Languages(skerry.BuiltinLanguages())
	for name, want := range map[string]string{
		"python": "python", "py": "python", "Python3": "python", "PYTHON": "python",
		"bash": "bash", "sh": "bash", "shell": "bash", "node": "node", "js": "node", "JavaScript": "node",
	} {
		if l, err := ls.Find(name); err != nil || l.Name != want {
			t.Errorf("%q is %q, %v; want %s", name, l.Name, err, want)
		}
	}
}

// B139
func TestAnythingElseIsNoLanguage(t *testing.T) {
	ls := skerry.Languages(skerry.BuiltinLanguages())
	for _, name := range []string{"", "python3; id", "../../bin/sh", "PYTHON ", "ruby", "python\x00", "-l"} {
		_, err := ls.Find(name)
		if skerry.KindOf(err) != skerry.Invalid || !strings.Contains(skerry.HintOf(err), "bash, node, python") {
			t.Errorf("%q gave %v, hint %q; want invalid and the languages there are", name, err, skerry.HintOf(err))
		}
	}
}

func TestTheLanguageOfAFile(t *testing.T) {
	ls := skerry.Languages(skerry.BuiltinLanguages())
	for _, c := range []struct{ file, code, want string }{
		{"a.py", "", "python"}, {"A.PY", "", "python"}, {"dir.js/x.sh", "", "bash"}, {"x.mjs", "", "node"}, {".bash", "", "bash"},
		{"x", "#!/bin/sh\nexit", "bash"}, {"x", "#!/usr/bin/env python3\n", "python"}, {"x", "#!/usr/bin/env -S node --flag\n", "node"},
		{"x", "#! /usr/bin/python3.11 -u\r\n", "python"}, {"x", "#!/usr/bin/env LANG=C bash", "bash"}, {"x.txt", "#!/usr/bin/env node", "node"},
		{"x.py", "#!/bin/sh", "python"}, // the ending counts first
		{"x", "", ""}, {"x", "#!", ""}, {"x", "#!/usr/bin/env", ""}, {"x", "#!/usr/bin/perl", ""}, {"x.rb", "puts 1", ""}, {"x", " #!/bin/sh", ""},
		{"x", "#!/bin/3.11", ""}, {"x", "#!" + strings.Repeat("/", 1000) + "sh", ""},
	} {
		l, err := ls.FindFor(c.file, []byte(c.code))
		if l.Name != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%q with %.30q is %q, %v; want %q", c.file, c.code, l.Name, err, c.want)
		}
		if err != nil && (skerry.KindOf(err) != skerry.Invalid || skerry.HintOf(err) == "") {
			t.Errorf("%v (%s) has no hint", err, skerry.KindOf(err))
		}
	}
}

func TestALaterLanguageTakesThePlaceOfAnEarlierOne(t *testing.T) {
	ls := append(skerry.Languages(skerry.BuiltinLanguages()),
		skerry.Language{Name: "bash", Command: []string{"bash", "-eu"}},
		skerry.Language{Name: "Python", Aliases: []string{"snake"}, Command: []string{"pypy3"}},
		skerry.Language{Name: "R", Endings: []string{".R"}, Command: []string{"Rscript"}},
	)
	for _, name := range []string{"bash", "sh"} {
		if l, err := ls.Find(name); err != nil || !slices.Equal(l.Command, []string{"bash", "-eu"}) || l.Install == "" || l.Ending() != ".sh" {
			t.Errorf("%s is %+v, %v", name, l, err)
		}
	}
	if l, err := ls.FindFor("x.py", nil); err != nil || l.Command[0] != "pypy3" || l.Install != "" {
		t.Errorf("x.py is %+v, %v", l, err)
	}
	if l, err := ls.Find("py"); err == nil {
		t.Errorf("py is %+v: its aliases were given anew", l)
	}
	for _, file := range []string{"x.r", "x.R"} {
		if l, err := ls.FindFor(file, nil); err != nil || l.Name != "R" {
			t.Errorf("%s is %+v, %v", file, l, err)
		}
	}
	if l, err := ls.Find("r"); err != nil || l.Name != "R" {
		t.Errorf("r is %+v, %v", l, err)
	}
}
