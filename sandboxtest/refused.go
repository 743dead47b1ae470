package sandboxtest

import (
	"strings"
	"testing"

	"github.com/skerry-run/skerry"
)

// testRefused has what can't start: an error with an outcome, and nothing ran.
func testRefused(t *testing.T, s *suite) {
	b := s.session(t)

	t.Run("a program that is not there is start_failed with the hint what to install", func(t *testing.T) {
		b := b.on(t)
		_, err := b.Start(b.ctx, skerry.CommandSpec{ID: "missing", Argv: []string{"no_such_cmd_x", "1"}, Missing: "apt-get install no-such"})
		if err == nil {
			t.Fatal("it started")
		}
		if got := skerry.OutcomeOf(err); got != skerry.StartFailed {
			t.Errorf("outcome %s of %v", got, err)
		}
		if got := skerry.HintOf(err); !strings.Contains(got, "apt-get install no-such") {
			t.Errorf("hint %q", got)
		}
		if !strings.Contains(err.Error(), "no_such_cmd_x") {
			t.Errorf("%v does not name the program", err)
		}
	})

	t.Run("what can't be executed is start_failed", func(t *testing.T) {
		b := b.on(t)
		b.sh("mkdir -p folder; echo text > not-executable; printf 'junk' > no-format; chmod +x no-format; printf '#!/no/such/interpreter\n' > no-interpreter; chmod +x no-interpreter").want(0)
		for _, program := range []string{"./not-executable", "./folder", "/no/such/file", "./no-interpreter", "./no-format"} {
			_, err := b.Start(b.ctx, skerry.CommandSpec{ID: "exec " + program, Argv: []string{program}})
			if err == nil {
				t.Errorf("%s started", program)
			} else if got := skerry.OutcomeOf(err); got != skerry.StartFailed {
				t.Errorf("%s: outcome %s of %v", program, got, err)
			}
		}
	})

	t.Run("an unknown command of a script is 127 with the shell's words", func(t *testing.T) { // B034
		d := b.on(t).sh("no_such_cmd_x 1").want(127)
		if !strings.Contains(d.err, "no_such_cmd_x") {
			t.Errorf("stderr %q", d.err)
		}
	})

	t.Run("a working directory that is none is a typed error and nothing ran", func(t *testing.T) { // B023
		b := b.on(t)
		b.sh("ln -s /nowhere broken").want(0)
		for _, dir := range []string{"/nope", "/etc/passwd", "no\nsuch", "broken"} {
			for _, spec := range []skerry.CommandSpec{argv("touch", "/workspace/ran"), script("touch /workspace/ran")} {
				spec.ID, spec.Dir = s.name("dir"), dir
				_, err := b.Start(b.ctx, spec)
				if err == nil {
					t.Errorf("started in %q", dir)
					continue
				}
				if got := skerry.OutcomeOf(err); got != skerry.StartFailed && got != skerry.Refused {
					t.Errorf("in %q: outcome %s of %v", dir, got, err)
				}
			}
		}
		if b.hasFile("ran") {
			t.Error("it ran all the same")
		}
	})

	t.Run("what no sandbox could start is invalid", func(t *testing.T) {
		b := b.on(t)
		for name, spec := range map[string]skerry.CommandSpec{
			"nothing":              {ID: "i"},
			"no id":                {Argv: []string{"true"}},
			"control in id":        {ID: "a\x00", Argv: []string{"true"}},
			"both":                 {ID: "i", Argv: []string{"true"}, Script: "true"},
			"NUL in script":        {ID: "i", Script: "echo a\x00b"}, // B027
			"NUL in argv":          {ID: "i", Argv: []string{"echo", "a\x00b"}},
			"empty program":        {ID: "i", Argv: []string{""}},
			"argument of 131,072":  {ID: "i", Argv: []string{"true", strings.Repeat("a", skerry.MaxArgvBytes+1)}}, // B124
			"variable of 140,000":  {ID: "i", Argv: []string{"true"}, Env: map[string]string{"V": strings.Repeat("a", 140_000)}},
			"negative timeout":     {ID: "i", Argv: []string{"true"}, Timeout: -1}, // B075
			"absurd timeout":       {ID: "i", Argv: []string{"true"}, Timeout: 1 << 62},
			"negative grace":       {ID: "i", Argv: []string{"true"}, Grace: -1},
			"unknown stdin":        {ID: "i", Argv: []string{"true"}, Stdin: "pipe"},
			"a variable's name":    {ID: "i", Argv: []string{"true"}, Env: map[string]string{"": "x"}},
			"file without a path":  {ID: "i", Argv: []string{"true"}, Files: []skerry.StartFile{{}}},
			"too many bytes":       {ID: "i", Argv: []string{"true"}, Files: []skerry.StartFile{{Path: "f", Data: make([]byte, skerry.MaxStartFilesBytes+1)}}},
			"script above 16 MiB":  {ID: "i", Script: strings.Repeat("#", int(skerry.MaxScriptBytes)+1)},
			"NUL in the directory": {ID: "i", Argv: []string{"true"}, Dir: "a\x00"},
		} {
			_, err := b.Start(b.ctx, spec)
			wantKind(t, name, err, skerry.Invalid)
		}
	})

	t.Run("a file that would leave the sandbox's folders is refused", func(t *testing.T) {
		b := b.on(t)
		for _, path := range []string{"/etc/x", "../x", "/proc/self/mem", "/workspace/../etc/x"} {
			_, err := b.Start(b.ctx, skerry.CommandSpec{ID: s.name("file"), Argv: []string{"true"}, Files: []skerry.StartFile{{Path: path, Data: []byte("x")}}})
			wantKind(t, path, err, skerry.Denied, skerry.Invalid)
		}
	})
}
