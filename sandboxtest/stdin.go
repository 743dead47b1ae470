package sandboxtest

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/skerry-run/skerry"
)

func testStdin(t *testing.T, s *suite) {
	b := s.session(t)

	stream := func(spec skerry.CommandSpec) skerry.CommandSpec {
		spec.Stdin = skerry.StdinStream
		return spec
	}
	feed := func(b *box, c skerry.Command, r io.Reader) {
		b.t.Helper()
		w, err := c.Stdin(b.ctx)
		if err != nil {
			b.t.Fatal(err)
		}
		go func() {
			defer w.Close()
			io.Copy(w, r)
		}()
	}

	t.Run("is empty unless asked for", func(t *testing.T) { // B003
		b := b.on(t)
		b.do(argv("cat")).wantOut("")
		b.sh("cat; read x; echo rc=$?").wantOut("rc=1\n")
		b.do(argv("stat", "-Lc", "%t:%T", "/dev/stdin")).wantOut("1:3\n") // /dev/null
	})

	t.Run("without a stream can't be written", func(t *testing.T) {
		b := b.on(t)
		c := b.start(argv("cat"))
		w, err := c.Stdin(b.ctx)
		if err == nil {
			_, err = w.Write([]byte("x"))
			if err == nil {
				err = w.Close()
			}
		}
		wantKind(t, "stdin", err, skerry.Invalid)
	})

	t.Run("arrives whole and ends with close", func(t *testing.T) { // B001
		b := b.on(t)
		for _, text := range []string{"", "hello", "two\nlines\n"} {
			for _, spec := range []skerry.CommandSpec{argv("wc", "-c"), script("wc -c")} {
				c := b.start(stream(spec))
				feed(b, c, strings.NewReader(text))
				b.finish(c, "wc").wantOut(itoa(len(text)) + "\n")
			}
		}
	})

	t.Run("of 20 MB is exact", func(t *testing.T) {
		b := b.on(t)
		data := make([]byte, 20_000_000)
		rnd := rand.NewChaCha8([32]byte{1})
		rnd.Read(data)
		sum := sha256.Sum256(data)
		c := b.start(stream(argv("sha256sum")))
		feed(b, c, strings.NewReader(string(data)))
		b.finish(c, "sha256sum").wantOut(hex.EncodeToString(sum[:]) + "  -\n")
	})

	t.Run("flows while the program runs", func(t *testing.T) {
		b := b.on(t)
		c := b.start(stream(argv("bash", "-c", `while read -r x; do echo "got $x"; done; echo end`)))
		w, err := c.Stdin(b.ctx)
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		sent := 0
		send := func() {
			if sent == 3 {
				w.Close()
			} else if _, err := io.WriteString(w, itoa(sent)+"\n"); err != nil {
				t.Error(err)
			}
			sent++
		}
		send()
		err = c.Output(b.ctx, skerry.Offsets{}, func(chunk skerry.Chunk) error {
			out.Write(chunk.Data)
			if strings.Count(out.String(), "\n") == sent && sent <= 3 {
				send()
			}
			return nil
		})
		if err != nil || out.String() != "got 0\ngot 1\ngot 2\nend\n" {
			t.Errorf("output %q, error %v", out.String(), err)
		}
	})

	t.Run("that a program does not read does not keep it from ending", func(t *testing.T) {
		b := b.on(t)
		c := b.start(stream(argv("bash", "-c", "exit 4")))
		feed(b, c, strings.NewReader(strings.Repeat("x", 5_000_000)))
		b.finish(c, "the program").want(4)
	})

	t.Run("that stays open does not keep a program from ending", func(t *testing.T) {
		b := b.on(t)
		c := b.start(stream(argv("echo", "done")))
		w, err := c.Stdin(b.ctx)
		if err == nil {
			defer w.Close()
		}
		b.finish(c, "the program").wantOut("done\n")
	})
}
