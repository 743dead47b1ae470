package sandboxtest

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/skerry-run/skerry"
)

func testTerminal(t *testing.T, s *suite) {
	b := s.session(t)
	onTerminal := func(spec skerry.CommandSpec, cols, rows uint16) skerry.CommandSpec {
		spec.TTY = &skerry.TerminalSize{Cols: cols, Rows: rows}
		return spec
	}

	t.Run("is a terminal, of the size asked for", func(t *testing.T) {
		b := b.on(t)
		const text = "test -t 0 && test -t 1 && test -t 2 && echo terminal; stty size; echo err >&2"
		for _, spec := range []skerry.CommandSpec{argv("bash", "-c", text), script(text)} {
			d := b.do(onTerminal(spec, 123, 45)).wantOut("terminal\r\n45 123\r\nerr\r\n")
			if d.err != "" {
				t.Errorf("stderr %q; a terminal has one stream", d.err)
			}
		}
		b.do(onTerminal(argv("stty", "size"), 0, 0)).wantOut("24 80\r\n")
	})

	t.Run("is there only when asked for", func(t *testing.T) {
		b.on(t).do(argv("bash", "-c", "test -t 0 || test -t 1 || test -t 2 || echo none")).wantOut("none\n")
	})

	t.Run("resizes", func(t *testing.T) {
		b := b.on(t)
		c := b.start(onTerminal(argv("bash", "-c", "trap 'stty size; exit' WINCH; echo ready; while :; do sleep 0.01; done"), 80, 24))
		term := b.dial(c)
		term.expect("ready")
		if err := c.Resize(b.ctx, skerry.TerminalSize{Cols: 132, Rows: 50}); err != nil {
			t.Fatal(err)
		}
		term.expect("50 132")
		b.finishOnly(c).want(0)
	})

	t.Run("resize of what has none is invalid", func(t *testing.T) {
		b := b.on(t)
		c := b.start(argv("sleep", "1000"))
		wantKind(t, "resize", c.Resize(b.ctx, skerry.TerminalSize{Cols: 1, Rows: 1}), skerry.Invalid)
		if err := c.Cancel(b.ctx, "done"); err != nil {
			t.Error(err)
		}
	})

	t.Run("takes lines, interrupts and end of file", func(t *testing.T) {
		b := b.on(t)
		spec := onTerminal(argv("bash", "--norc", "-i"), 80, 24)
		spec.Env = map[string]string{"PS1": "ready> "}
		c := b.start(spec)
		term := b.dial(c)
		// Each line waits for the prompt: what is typed before it is taken by
		// the terminal's own line discipline, or dropped by an interrupt.
		term.expect("ready> ")
		term.send("echo $((6*7))-first\r")
		term.expect("42-first\r\n")
		term.expect("ready> ")
		term.send("sleep 1000\r")
		b.until("it sleeps", func() bool { return b.processes("sleep 1000") != "0" })
		term.send("\x03")
		term.expect("ready> ")
		term.send("echo $((6*7))-second\r")
		term.expect("42-second\r\n")
		term.expect("ready> ")
		term.send("\x04")
		b.wait(c)
	})

	t.Run("ends with its program", func(t *testing.T) {
		b := b.on(t)
		b.do(onTerminal(script("echo bye; exit 5"), 80, 24)).want(5)
	})

	t.Run("hangs up what is left when the command is cancelled", func(t *testing.T) {
		b := b.on(t)
		c := b.start(onTerminal(argv("bash", "--norc", "-i"), 80, 24))
		term := b.dial(c)
		term.send("sleep 4327 & setsid sleep 4327 &\r")
		b.until("both run", func() bool { return b.processes("sleep 4327") == "2" })
		if err := c.Cancel(b.ctx, "closed"); err != nil {
			t.Fatal(err)
		}
		if n := b.processes("sleep 4327"); n != "0" {
			t.Errorf("%s processes are left", n)
		}
	})
}

// terminal is one end of a command's terminal.
type terminal struct {
	b     *box
	stdin io.WriteCloser
	text  chan string
	seen  string
}

// dial connects to the terminal of a command.
func (b *box) dial(c skerry.Command) *terminal {
	b.t.Helper()
	w, err := c.Stdin(b.ctx)
	if err != nil {
		b.t.Fatal(err)
	}
	term := &terminal{b: b, stdin: w, text: make(chan string, 1024)}
	go func() {
		defer close(term.text)
		c.Output(b.ctx, skerry.Offsets{}, func(chunk skerry.Chunk) error {
			select {
			case term.text <- string(chunk.Data):
				return nil
			case <-b.ctx.Done():
				return context.Cause(b.ctx)
			}
		})
	}()
	return term
}

func (term *terminal) send(text string) {
	term.b.t.Helper()
	if _, err := io.WriteString(term.stdin, text); err != nil {
		term.b.t.Fatalf("type %q: %v", text, err)
	}
}

// expect reads until text has come.
func (term *terminal) expect(text string) {
	term.b.t.Helper()
	for !strings.Contains(term.seen, text) {
		more, ok := <-term.text
		if !ok {
			term.b.t.Fatalf("the terminal ended without %q: %q", text, term.seen)
		}
		term.seen += more
	}
	_, term.seen, _ = strings.Cut(term.seen, text)
}
