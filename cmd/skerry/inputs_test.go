package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestParseInputArg(t *testing.T) {
	for _, c := range []struct{ in, goos, src, dest string }{
		{"data.csv", "linux", "data.csv", ""},
		{"a/b.csv:in/x.csv", "linux", "a/b.csv", "in/x.csv"},
		{"./-dash.txt", "linux", "./-dash.txt", ""},
		{"a:b:", "linux", "a:b", ""},
		{"a:b:c", "linux", "a:b", "c"},
		{`C:\data\x.csv`, "windows", `C:\data\x.csv`, ""},
		{`C:\data\x.csv:in/x`, "windows", `C:\data\x.csv`, "in/x"},
		{"c:/x", "windows", "c:/x", ""},
		{"c:/x", "linux", "c", "/x"},
		{`a"b\'.txt`, "linux", `a"b\'.txt`, ""},
		{"two\nlines", "linux", "two\nlines", ""},
	} {
		got, err := parseInputArgFor(c.in, c.goos)
		if err != nil || got.src != c.src || got.dest != c.dest {
			t.Errorf("%q on %s: got %+v, %v", c.in, c.goos, got, err)
		}
	}
	for _, bad := range []string{"", ":x", ":"} {
		if got, err := parseInputArgFor(bad, "linux"); err == nil {
			t.Errorf("%q: got %+v", bad, got)
		}
	}
}

// B129, B133, B134: every name lands where it says, none is dropped or changed.
func TestResolveInputs(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for name, data := range map[string]string{
		"a/x.txt": "1", "b/x.txt": "2", "-dash.txt": "3", "報告/図①😀.csv": "4", "e\u0301": "5", "\u00e9": "6",
		"tree/one": "7", "tree/deep/two": "8", "$(id)": "9", "a:b": "10", "tool.sh": "11",
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod("tool.sh", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/passwd", "tree/link"); err != nil {
		t.Fatal(err)
	}
	inputs, notes, err := resolveInputs([]string{
		"a/x.txt", "b/x.txt:b/x.txt", "./-dash.txt", "報告/図①😀.csv:報告/図①😀.csv", "e\u0301", "\u00e9", "tree", "tree:copy", "$(id)", "a:b:", "tool.sh:bin/",
	}, 100)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, in := range inputs {
		r, err := in.Open()
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		r.Close()
		if err != nil || int64(len(data)) != in.Size {
			t.Errorf("%q: %d bytes, said %d, %v", in.Path, len(data), in.Size, err)
		}
		got[in.Path] = string(data)
		if in.Path == "bin/tool.sh" && in.Mode != 0o755 || in.Path == "x.txt" && in.Mode != 0o644 {
			t.Errorf("%q has mode %o", in.Path, in.Mode)
		}
	}
	want := map[string]string{
		"x.txt": "1", "b/x.txt": "2", "-dash.txt": "3", "報告/図①😀.csv": "4", "e\u0301": "5", "\u00e9": "6", "tree/one": "7", "tree/deep/two": "8",
		"copy/one": "7", "copy/deep/two": "8", "$(id)": "9", "a:b": "10", "bin/tool.sh": "11",
	}
	for path, data := range want {
		if got[path] != data {
			t.Errorf("%q has %q, want %q", path, got[path], data)
		}
	}
	if len(got) != len(want) {
		t.Errorf("got %v", got)
	}
	// B137: a link that was left out is told.
	if len(notes) != 2 || !strings.Contains(notes[0], "tree/link") {
		t.Errorf("notes %q", notes)
	}
}

func TestEnvironment(t *testing.T) {
	file := filepath.Join(t.TempDir(), "env")
	if err := os.WriteFile(file, []byte("# comment\n\nA=1\n  B = two words # kept\r\nC=\"quoted\"\nD=$A\nE=a=b\n"), 0o600); err == nil {
		_, err = environmentFlags{file: file}.resolve(nil, nil)
		if err == nil || strings.Contains(err.Error(), "two words") || !strings.Contains(err.Error(), ":4 ") {
			t.Errorf("a name with a blank gave %v", err)
		}
	}
	if err := os.WriteFile(file, []byte("# comment\n\nA=1\n  B= two words # kept\r\nC=\"quoted\"\nD=$A\nE=a=b"), 0o600); err != nil {
		t.Fatal(err)
	}
	caller := func(name string) (string, bool) { return "caller's", name == "MINE" }
	env, err := environmentFlags{file: file, pairs: []string{"MINE", "A=over", "EMPTY="}}.resolve(map[string]string{"A": "base", "P": "profile"}, caller)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"A": "over", "B": " two words # kept", "C": `"quoted"`, "D": "$A", "E": "a=b", "MINE": "caller's", "EMPTY": "", "P": "profile"}
	for k, v := range want {
		if env[k] != v {
			t.Errorf("%s is %q, want %q", k, env[k], v)
		}
	}
	if len(env) != len(want) {
		t.Errorf("got %q", env)
	}
	if _, err := (environmentFlags{pairs: []string{"NOPE"}}).resolve(nil, caller); err == nil {
		t.Error("a variable that is not set was taken")
	}
	if _, err := (environmentFlags{pairs: []string{"=x"}}).resolve(nil, caller); err == nil {
		t.Error("an empty name was taken")
	}
}

func TestParseSessionPath(t *testing.T) {
	for _, c := range []struct{ in, goos, session, path string }{
		{"work:a/b", "linux", "work", "a/b"},
		{"work:", "linux", "work", ""},
		{"work:a:b", "linux", "work", "a:b"},
		{"./a:b", "linux", "", "./a:b"},
		{"/x/a:b", "linux", "", "/x/a:b"},
		{"plain", "linux", "", "plain"},
		{":x", "linux", "", ":x"},
		{`C:\x`, "windows", "", `C:\x`},
		{"c:x", "windows", "c", "x"},
		{"-", "linux", "", "-"},
	} {
		if got := parseSessionPath(c.in, c.goos); got.session != c.session || got.path != c.path {
			t.Errorf("%q on %s: got %+v", c.in, c.goos, got)
		}
	}
}

func TestParseSignal(t *testing.T) {
	for in, want := range map[string]int{"TERM": 15, "sigkill": 9, "2": 2, "64": 64} {
		if got, err := parseSignal(in); err != nil || got != want {
			t.Errorf("%q: got %d, %v", in, got, err)
		}
	}
	for _, bad := range []string{"", "0", "-9", "65", "BANG"} {
		if got, err := parseSignal(bad); err == nil {
			t.Errorf("%q: got %d", bad, got)
		}
	}
}
