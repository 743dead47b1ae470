package sandboxtest

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/skerry-run/skerry"
)

func testStart(t *testing.T, s *suite) {
	b := s.session(t)

	t.Run("the same id and spec is the same command", func(t *testing.T) {
		b := b.on(t)
		spec := script("echo x >> count-same; echo out")
		spec.ID = "same"
		for range 3 {
			b.do(spec).wantOut("out\n")
		}
		b.sh("wc -l < count-same").wantOut("1\n")
	})

	t.Run("the same id with another spec is a conflict", func(t *testing.T) {
		b := b.on(t)
		size := skerry.TerminalSize{Cols: 80, Rows: 24}
		spec := skerry.CommandSpec{ID: "taken", Argv: []string{"echo", "one"}}
		b.do(spec).wantOut("one\n")
		for name, mod := range map[string]func(*skerry.CommandSpec){
			"argv":     func(c *skerry.CommandSpec) { c.Argv = []string{"echo", "two"} },
			"split":    func(c *skerry.CommandSpec) { c.Argv = []string{"echo one"} },
			"script":   func(c *skerry.CommandSpec) { c.Argv, c.Script = nil, "echo one" },
			"dir":      func(c *skerry.CommandSpec) { c.Dir = "/tmp" },
			"env":      func(c *skerry.CommandSpec) { c.Env = map[string]string{"A": "1"} },
			"stdin":    func(c *skerry.CommandSpec) { c.Stdin = skerry.StdinStream },
			"terminal": func(c *skerry.CommandSpec) { c.TTY = &size },
			"merge":    func(c *skerry.CommandSpec) { c.Merge = true },
			"timeout":  func(c *skerry.CommandSpec) { c.Timeout = 1e9 },
			"files":    func(c *skerry.CommandSpec) { c.Files = []skerry.StartFile{{Path: "f", Data: []byte("x")}} },
		} {
			other := spec
			mod(&other)
			_, err := b.Start(b.ctx, other)
			wantKind(t, "another "+name, err, skerry.Conflict)
		}
	})

	t.Run("a default that is spelled out is the same spec", func(t *testing.T) {
		b := b.on(t)
		spec := skerry.CommandSpec{ID: "defaults", Argv: []string{"echo", "out"}, TTY: &skerry.TerminalSize{}, Files: []skerry.StartFile{{Path: "defaults"}}}
		b.start(spec)
		for name, mod := range map[string]func(*skerry.CommandSpec){
			"grace":    func(c *skerry.CommandSpec) { c.Grace = skerry.DefaultKillGrace },
			"terminal": func(c *skerry.CommandSpec) { c.TTY = &skerry.TerminalSize{Cols: 80, Rows: 24} },
			"columns":  func(c *skerry.CommandSpec) { c.TTY = &skerry.TerminalSize{Cols: 80} },
			"mode":     func(c *skerry.CommandSpec) { c.Files = []skerry.StartFile{{Path: "defaults", Mode: 0o644}} },
			"env":      func(c *skerry.CommandSpec) { c.Env = map[string]string{} },
			"hint":     func(c *skerry.CommandSpec) { c.Missing = "install it" },
		} {
			same := spec
			mod(&same)
			if _, err := b.Start(b.ctx, same); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	})

	t.Run("20 starts at once start once", func(t *testing.T) {
		b := b.on(t)
		const callers = 20
		spec := script("echo x >> count-many; echo out")
		spec.ID = "many"
		var wg sync.WaitGroup
		for range callers {
			wg.Go(func() {
				c, err := b.Start(b.ctx, spec)
				if err != nil {
					t.Errorf("start: %v", err)
					return
				}
				var out strings.Builder
				if err := c.Output(b.ctx, skerry.Offsets{}, func(chunk skerry.Chunk) error {
					out.Write(chunk.Data)
					return nil
				}); err != nil || out.String() != "out\n" {
					t.Errorf("output %q, error %v", out.String(), err)
				}
			})
		}
		wg.Wait()
		b.sh("wc -l < count-many").wantOut("1\n")
	})

	t.Run("attaches to a command that another handle started", func(t *testing.T) {
		b := b.on(t)
		spec := script("until test -e go-attach; do sleep 0.01; done; echo x >> count-attach; echo out")
		spec.ID = "attach"
		b.start(spec)
		other, err := s.again(t).Open(b.ctx, b.ref)
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		b.Sandbox = other
		c := b.start(spec)
		b.write("go-attach", "")
		b.finish(c, "the command").wantOut("out\n")
		b.sh("wc -l < count-attach").wantOut("1\n")
	})

	t.Run("a start whose caller gave up can be repeated", func(t *testing.T) {
		b := b.on(t)
		spec := script("echo x >> count-given-up; echo out")
		spec.ID = "given up"
		ctx, cancel := context.WithCancel(b.ctx)
		cancel()
		_, _ = b.Start(ctx, spec) // may have started it or not; that is what the id is for
		b.do(spec).wantOut("out\n")
		b.sh("wc -l < count-given-up").wantOut("1\n")
	})

	t.Run("takes any legal id, and no other", func(t *testing.T) {
		b := b.on(t)
		for _, id := range []string{"a b", "../x", "/", "-", "é", "$(id)", strings.Repeat("i", 256)} {
			spec := argv("printf", "%s", id)
			spec.ID = id
			b.do(spec).wantOut(id)
		}
		for _, id := range []string{"", "a\nb", "a\u202eb", "a\u200bb", "\xff", strings.Repeat("i", 257)} {
			spec := argv("true")
			spec.ID = id
			_, err := b.Start(b.ctx, spec)
			wantKind(t, "the id "+id, err, skerry.Invalid)
		}
	})

	t.Run("passes argv on byte for byte", func(t *testing.T) {
		b := b.on(t)
		words := []string{"", " ", "a b", "'", `"`, "\\", "$HOME", "`id`", "*", "~", "-n", "--", "é漢", "\xff\xfe", "a\nb", "${}", "!x", "#"}
		b.do(argv(append([]string{"printf", "%s\\0"}, words...)...)).wantOut(strings.Join(words, "\x00") + "\x00")
	})

	// B124, X5: Linux takes 131,071 bytes in one string and no more.
	t.Run("an argument of 131,071 bytes works", func(t *testing.T) {
		b := b.on(t)
		b.do(argv("bash", "-c", `echo ${#1}`, "x", strings.Repeat("a", skerry.MaxArgvBytes))).wantOut("131071\n")
		spec := argv("bash", "-c", `echo ${#LONG}`)
		spec.Env = map[string]string{"LONG": strings.Repeat("v", skerry.MaxArgvBytes-len("LONG="))}
		b.do(spec).wantOut(itoa(skerry.MaxArgvBytes-5) + "\n")
	})

	t.Run("writes its files before the program starts", func(t *testing.T) {
		b := b.on(t)
		big := strings.Repeat("0123456789abcdef", 30_000)
		spec := argv("bash", "-c", `cat start/one; wc -c < start/two; stat -c %a start/one start/run; ./start/run`)
		spec.Files = []skerry.StartFile{
			{Path: "start/one", Data: []byte("first\n")},
			{Path: "start/two", Data: []byte(big)},
			{Path: "/workspace/start/run", Data: []byte("#!/bin/sh\necho ran\n"), Mode: 0o755},
		}
		b.do(spec).wantOut("first\n480000\n644\n755\nran\n")
	})

	// B023, B024: the same options do the same in every mode.
	t.Run("runs in the directory that was asked for, in every mode", func(t *testing.T) {
		b := b.on(t)
		b.sh("mkdir -p 'w/x y'").want(0)
		for _, background := range []bool{false, true} {
			for _, dir := range []string{"w/x y", "/workspace/w/x y", "./w/../w/x y"} {
				for _, spec := range []skerry.CommandSpec{argv("pwd"), script("pwd")} {
					spec.Dir, spec.Background = dir, background
					b.do(spec).wantOut("/workspace/w/x y\n")
				}
			}
		}
		b.do(argv("pwd")).wantOut("/workspace\n")
	})

	t.Run("a merged command has one stream in exact order", func(t *testing.T) { // B066, X7
		b := b.on(t)
		const text = `for i in 1 2 3 4 5; do echo o$i; echo e$i >&2; done`
		for _, spec := range []skerry.CommandSpec{argv("bash", "-c", text), script(text)} {
			spec.Merge = true
			d := b.do(spec).wantOut("o1\ne1\no2\ne2\no3\ne3\no4\ne4\no5\ne5\n")
			if d.err != "" || d.exit.StderrBytes != 0 {
				t.Errorf("stderr %q, %d bytes", d.err, d.exit.StderrBytes)
			}
		}
	})
}
