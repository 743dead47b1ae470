package sandboxtest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/skerry-run/skerry"
)

func testOutput(t *testing.T, s *suite) {
	b := s.session(t)

	t.Run("keeps stdout and stderr apart", func(t *testing.T) {
		for _, spec := range []skerry.CommandSpec{
			argv("bash", "-c", "echo o; echo e >&2; echo o2"), script("echo o; echo e >&2; echo o2"),
		} {
			d := b.on(t).do(spec).wantOut("o\no2\n")
			if d.err != "e\n" || d.exit.StdoutBytes != 5 || d.exit.StderrBytes != 2 {
				t.Errorf("stderr %q, exit %+v", d.err, d.exit)
			}
		}
	})

	t.Run("comes while the program runs", func(t *testing.T) {
		b := b.on(t)
		c := b.start(script("echo first; until test -e go-live; do sleep 0.01; done; echo last"))
		var out strings.Builder
		err := c.Output(b.ctx, skerry.Offsets{}, func(chunk skerry.Chunk) error {
			out.Write(chunk.Data)
			if out.String() == "first\n" {
				b.write("go-live", "") // the program ends only when its first line was seen
			}
			return nil
		})
		if err != nil || out.String() != "first\nlast\n" {
			t.Errorf("output %q, error %v", out.String(), err)
		}
	})

	t.Run("resumes at any offset, running or ended", func(t *testing.T) {
		b := b.on(t)
		c := b.start(argv("bash", "-c", "printf 0123456789; printf abcdef >&2"))
		b.finish(c, "the command").wantOut("0123456789")
		for _, at := range []skerry.Offsets{{}, {Stdout: 1}, {Stdout: 9, Stderr: 3}, {Stdout: 10, Stderr: 6}, {Stderr: 5}} {
			d := b.collect(c, at, "the command")
			if d.out != "0123456789"[at.Stdout:] || d.err != "abcdef"[at.Stderr:] || d.omitted != 0 {
				t.Errorf("from %+v: stdout %q, stderr %q, omitted %d", at, d.out, d.err, d.omitted)
			}
		}
	})

	t.Run("an offset beyond the end never replays", func(t *testing.T) { // B063
		b := b.on(t)
		c := b.start(argv("printf", "0123456789"))
		b.finish(c, "the command")
		err := c.Output(b.ctx, skerry.Offsets{Stdout: 100, Stderr: 100}, func(chunk skerry.Chunk) error {
			t.Errorf("got %q at %d", chunk.Data, chunk.Offset)
			return nil
		})
		if err != nil {
			wantKind(t, "output", err, skerry.Invalid)
		}
		err = c.Output(b.ctx, skerry.Offsets{Stdout: -1}, func(skerry.Chunk) error { return nil })
		wantKind(t, "a negative offset", err, skerry.Invalid)
	})

	t.Run("an error of the reader ends it and is returned", func(t *testing.T) {
		b := b.on(t)
		stop := errors.New("enough")
		c := b.start(script("echo one; until test -e go-error; do sleep 0.01; done; echo two"))
		if err := c.Output(b.ctx, skerry.Offsets{}, func(skerry.Chunk) error { return stop }); !errors.Is(err, stop) {
			t.Errorf("error %v", err)
		}
		b.write("go-error", "")
		b.finish(c, "the command").wantOut("one\ntwo\n")
	})

	t.Run("ends with its context, and the program goes on", func(t *testing.T) {
		b := b.on(t)
		c := b.start(script("echo one; until test -e go-context; do sleep 0.01; done; echo two"))
		ctx, cancel := context.WithCancel(b.ctx)
		if err := c.Output(ctx, skerry.Offsets{}, func(skerry.Chunk) error { cancel(); return nil }); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
		b.write("go-context", "")
		b.finish(c, "the command").wantOut("one\ntwo\n")
	})

	t.Run("two readers both get everything", func(t *testing.T) {
		b := b.on(t)
		c := b.start(argv("seq", "1", "300000"))
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				n, err := countSeq(b.ctx, c)
				if err != nil || n != 300000 {
					t.Errorf("read %d numbers, error %v", n, err)
				}
			})
		}
		wg.Wait()
	})

	t.Run("a reader that keeps up gets everything, however much it is", func(t *testing.T) { // B004, B050, B061
		b := b.on(t)
		const lines = 20_000_000 // 169 MB, more than any spool keeps
		c := b.start(argv("seq", "1", itoa(lines)))
		n, err := countSeq(b.ctx, c)
		if err != nil || n != lines {
			t.Errorf("read %d numbers of %d, error %v", n, lines, err)
		}
		b.finishOnly(c).want(0)
	})

	t.Run("of a long line is whole", func(t *testing.T) { // B047
		b := b.on(t)
		d := b.do(argv("bash", "-c", "echo a; head -c 20000000 /dev/zero | tr '\\0' x; echo; echo b")).want(0)
		if want := "a\n" + strings.Repeat("x", 20_000_000) + "\nb\n"; d.out != want {
			t.Errorf("%d bytes, want %d", len(d.out), len(want))
		}
	})

	t.Run("of a program that ends at once is whole", func(t *testing.T) { // B048, B049, B052, B062, B015
		b := b.on(t)
		for i := range 50 {
			text := fmt.Sprintf("tail-only %d", i)
			b.do(argv("printf", "%s", text)).wantOut(text)
		}
		b.do(argv("printf", "%5000s", "x")).wantOut(strings.Repeat(" ", 4999) + "x")
	})

	t.Run("is exact bytes", func(t *testing.T) { // B043
		var all strings.Builder
		var octal strings.Builder
		for i := range 256 {
			all.WriteByte(byte(i))
			fmt.Fprintf(&octal, "\\%03o", i)
		}
		b.on(t).do(argv("printf", octal.String())).wantOut(all.String())
	})

	t.Run("that nobody reads does not keep the program from ending", func(t *testing.T) { // B012
		b := b.on(t)
		c := b.start(argv("bash", "-c", "seq 1 3000000; seq 1 3000000 >&2; exit 5"))
		exit := b.wait(c)
		if exit.ExitCode == nil || *exit.ExitCode != 5 {
			t.Errorf("exit %s", exitText(exit))
		}
	})
}

// finishOnly waits for a command's end without reading its output.
func (b *box) finishOnly(c skerry.Command) done {
	b.t.Helper()
	return done{t: b.t, what: c.ID(), exit: b.wait(c)}
}

// countSeq reads the output of seq 1 N from its start and checks every number,
// without holding it.
func countSeq(ctx context.Context, c skerry.Command) (int, error) {
	r, w := io.Pipe()
	result := make(chan error, 1)
	n := 0
	go func() {
		lines := bufio.NewScanner(r)
		for lines.Scan() {
			n++
			if got := lines.Text(); got != itoa(n) {
				err := fmt.Errorf("line %d is %q", n, got)
				r.CloseWithError(err)
				result <- err
				return
			}
		}
		result <- lines.Err()
	}()
	err := c.Output(ctx, skerry.Offsets{}, func(chunk skerry.Chunk) error {
		if chunk.Omitted > 0 {
			return fmt.Errorf("%d bytes before %d are gone", chunk.Omitted, chunk.Offset)
		}
		_, err := w.Write(chunk.Data)
		return err
	})
	w.CloseWithError(err)
	return n, errors.Join(err, <-result)
}
