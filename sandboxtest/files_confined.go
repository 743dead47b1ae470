package sandboxtest

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/skerry-run/skerry"
)

func testFilesConfined(t *testing.T, s *suite) {
	b := s.session(t)

	// every gives each operation that takes a path.
	every := func(b *box) map[string]func(path string) error {
		f := b.Files()
		return map[string]func(string) error{
			"read": func(p string) error { _, err := f.Read(b.ctx, p, 0, -1, io.Discard); return err },
			"write": func(p string) error {
				_, err := f.Write(b.ctx, p, strings.NewReader("x"), skerry.WriteOptions{})
				return err
			},
			"list":      func(p string) error { _, err := f.List(b.ctx, p, skerry.ListOptions{}); return err },
			"stat":      func(p string) error { _, err := f.Stat(b.ctx, p); return err },
			"move from": func(p string) error { return f.Move(b.ctx, p, "moved") },
			"move to": func(p string) error {
				b.write("to-move", "x")
				return f.Move(b.ctx, "to-move", p)
			},
			"remove":  func(p string) error { return f.Remove(b.ctx, p, true) },
			"mkdir":   func(p string) error { return f.Mkdir(b.ctx, p) },
			"glob":    func(p string) error { _, err := f.Glob(b.ctx, p, "*", 0); return err },
			"grep":    func(p string) error { _, err := f.Grep(b.ctx, skerry.GrepSpec{Pattern: "root", Dir: p}); return err },
			"tar in":  func(p string) error { _, err := f.TarIn(b.ctx, p, tarOf(entry{name: "x", data: "x"})); return err },
			"tar out": func(p string) error { _, err := f.TarOut(b.ctx, p, io.Discard); return err },
		}
	}

	t.Run("a path outside the sandbox's folders is denied", func(t *testing.T) { // B125, B128
		b := b.on(t)
		for _, path := range []string{"/etc/passwd", "/etc", "/", "../etc", "../../etc/passwd", "a/../../etc", "/workspace/../etc", "/workspace/..", "/workspacex", "/workspace-evil/x", "/tmpx", "/proc/self/environ", "/dev/null", "/home", "/home/other", "/usr/bin"} {
			for op, do := range every(b) {
				if err := do(path); skerry.KindOf(err) != skerry.Denied || !strings.Contains(err.Error(), path) {
					t.Errorf("%s %q: error %v of kind %q, want denied and the path", op, path, err, skerry.KindOf(err))
				}
			}
		}
	})

	t.Run("an error names its path", func(t *testing.T) {
		b := b.on(t)
		b.write("plain", "x")
		for op, do := range every(b) {
			const path = "plain/below"
			if err := do(path); err == nil || !strings.Contains(err.Error(), path) {
				t.Errorf("%s: error %v, want one that names %q", op, err, path)
			}
		}
	})

	t.Run("a NUL in a path is invalid", func(t *testing.T) {
		b := b.on(t)
		for op, do := range every(b) {
			if err := do("a\x00b"); skerry.KindOf(err) != skerry.Invalid {
				t.Errorf("%s: error %v of kind %q", op, err, skerry.KindOf(err))
			}
		}
	})

	t.Run("an empty path is invalid", func(t *testing.T) {
		b := b.on(t)
		for op, do := range every(b) {
			if op == "grep" || op == "glob" {
				continue // "" is the workspace there
			}
			if err := do(""); skerry.KindOf(err) != skerry.Invalid {
				t.Errorf("%s: error %v of kind %q", op, err, skerry.KindOf(err))
			}
		}
	})

	t.Run("no operation leaves the folders through a link", func(t *testing.T) { // B126
		b := b.on(t)
		b.sh("ln -s /etc etc; ln -s ../../../../etc rel; ln -s / root; ln -s /etc/passwd passwd; ln -s /usr/share usr; mkdir in; ln -s .. in/up; ln -s in/up/../.. far").want(0)
		before := b.do(argv("bash", "-c", "ls -la /etc /usr/share | md5sum")).want(0).out
		for _, path := range []string{"etc/passwd", "rel/passwd", "root/etc/passwd", "usr/x", "in/up/../../etc/passwd", "far/etc/passwd"} {
			for op, do := range every(b) {
				if err := do(path); err == nil {
					t.Errorf("%s %q worked", op, path)
				}
			}
		}
		for op, do := range every(b) {
			switch op { // on the link itself
			case "read", "list", "glob", "grep", "tar in":
				for _, path := range []string{"etc", "passwd"} {
					if err := do(path); err == nil {
						t.Errorf("%s %q followed the link", op, path)
					}
				}
			}
		}
		if after := b.do(argv("bash", "-c", "ls -la /etc /usr/share | md5sum")).want(0).out; after != before {
			t.Error("something changed outside")
		}
	})

	t.Run("links within the folders are followed", func(t *testing.T) {
		b := b.on(t)
		b.sh("mkdir -p inside/real; echo text > inside/real/f; ln -s real inside/link; ln -s real/f inside/flink").want(0)
		for _, path := range []string{"inside/link/f", "inside/flink"} {
			if got := b.read(path); got != "text\n" {
				t.Errorf("%s holds %q", path, got)
			}
		}
	})

	t.Run("a link swapped in while reading leads nowhere", func(t *testing.T) {
		b := b.on(t)
		c := b.start(argv("bash", "-c", "mkdir -p race/d; echo mine > race/d/passwd; cd race; touch racing; while :; do mv d e; ln -s /etc d; rm d; mv e d; done 2>/dev/null"))
		b.until("it races", func() bool { return b.hasFile("race/racing") })
		for range 300 {
			var w bytes.Buffer
			if _, err := b.Files().Read(b.ctx, "race/d/passwd", 0, -1, &w); err == nil && w.String() != "mine\n" {
				t.Fatalf("read %.100q", w.String())
			}
			b.Files().Write(b.ctx, "race/d/hostname", strings.NewReader("x"), skerry.WriteOptions{})
		}
		if err := c.Cancel(b.ctx, "done"); err != nil {
			t.Error(err)
		}
	})

	t.Run("nothing blocks on a FIFO or a device", func(t *testing.T) {
		b := b.on(t)
		b.sh("mkdir f; mkfifo f/fifo; ln -s /dev/zero f/zero; ln -s fifo f/fifo-link; echo text > f/file").want(0)
		ctx, cancel := context.WithTimeout(b.ctx, 30*time.Second)
		defer cancel()
		bounded := *b
		bounded.ctx = ctx
		for op, do := range every(&bounded) {
			for _, path := range []string{"f/fifo", "f/fifo-link", "f/zero"} {
				switch op {
				case "move from", "move to", "remove", "write", "stat":
					continue // they act on the name
				}
				if err := do(path); err == nil && op != "tar out" {
					t.Errorf("%s %q worked", op, path)
				}
			}
		}
		if ctx.Err() != nil {
			t.Fatal("an operation hung")
		}
		if r, err := b.Files().Grep(b.ctx, skerry.GrepSpec{Pattern: "text", Dir: "f"}); err != nil || len(r.Matches) != 1 {
			t.Errorf("grep beside a FIFO: %+v, error %v", r, err)
		}
		b.write("f/fifo", "replaced") // a write replaces what is there
		if got := b.read("f/fifo"); got != "replaced" {
			t.Errorf("it holds %q", got)
		}
	})

	t.Run("odd but legal forms of a path are the same file", func(t *testing.T) { // B128
		b := b.on(t)
		b.write("same/file", "text")
		for _, path := range []string{"./same/file", "same//file", "same/./file", "/workspace/same/file", "/workspace/./same/file"} {
			if got := b.read(path); got != "text" {
				t.Errorf("%s holds %q", path, got)
			}
		}
	})
}
