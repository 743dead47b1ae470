package sandboxtest

import (
	"errors"
	"testing"

	"github.com/skerry-run/skerry"
)

// flood is more than a spool keeps, in bytes.
const flood = 200 << 20

func testSlowReader(t *testing.T, s *suite) {
	t.Run("holds the program back for a bounded time, then the gap is told", func(t *testing.T) {
		b := s.session(t)
		c := b.start(argv("head", "-c", itoa(flood), "/dev/zero"))
		ended := make(chan error, 1)
		go func() {
			_, err := c.Wait(b.ctx)
			ended <- err
		}()
		var got, omitted, next int64
		first := true
		err := c.Output(b.ctx, skerry.Offsets{}, func(chunk skerry.Chunk) error {
			if first { // this reader stands still until the program has ended
				first = false
				if err := <-ended; err != nil {
					return err
				}
			}
			if chunk.Offset != next+chunk.Omitted {
				t.Errorf("a chunk at %d with %d omitted, want %d", chunk.Offset, chunk.Omitted, next+chunk.Omitted)
			}
			next = chunk.Offset + int64(len(chunk.Data))
			got += int64(len(chunk.Data))
			omitted += chunk.Omitted
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if omitted == 0 || got+omitted != flood {
			t.Errorf("%d bytes came and %d were said to be gone, of %d", got, omitted, int64(flood))
		}
		if exit := b.wait(c); exit.StdoutBytes != flood {
			t.Errorf("exit says %d bytes, want %d", exit.StdoutBytes, int64(flood))
		}
	})

	t.Run("that is gone never blocks the program", func(t *testing.T) {
		b := s.session(t)
		gone := errors.New("gone")
		c := b.start(argv("head", "-c", itoa(flood), "/dev/zero"))
		if err := c.Output(b.ctx, skerry.Offsets{}, func(skerry.Chunk) error { return gone }); !errors.Is(err, gone) {
			t.Errorf("error %v", err)
		}
		b.finishOnly(c).want(0)
	})

	t.Run("that comes late finds head and tail, and the gap between", func(t *testing.T) {
		b := s.session(t)
		c := b.start(argv("bash", "-c", "echo HEAD; head -c "+itoa(flood)+" /dev/zero; echo TAIL"))
		b.finishOnly(c).want(0)
		d := b.collect(c, skerry.Offsets{}, "the flood")
		const total = flood + 10
		if d.omitted == 0 || int64(len(d.out))+d.omitted != total {
			t.Errorf("%d bytes and %d gone, of %d", len(d.out), d.omitted, total)
		}
		if len(d.out) < 10 || d.out[:5] != "HEAD\n" || d.out[len(d.out)-5:] != "TAIL\n" {
			t.Errorf("begins %.10q", d.out)
		}
	})

	t.Run("of one command does not hold up another", func(t *testing.T) {
		b := s.session(t)
		release := make(chan struct{})
		stuck := make(chan error, 1)
		reading := make(chan struct{})
		c := b.start(argv("head", "-c", itoa(flood), "/dev/zero"))
		go func() {
			first := true
			stuck <- c.Output(b.ctx, skerry.Offsets{}, func(skerry.Chunk) error {
				if first {
					first = false
					close(reading)
					<-release
				}
				return nil
			})
		}()
		<-reading
		b.sh("seq 1 100000 | tail -n 1").wantOut("100000\n")
		close(release)
		if err := <-stuck; err != nil {
			t.Error(err)
		}
	})

	t.Run("floods on both streams at once end", func(t *testing.T) { // B061
		b := s.session(t)
		d := b.do(argv("bash", "-c", "yes out | head -c 8000000 & yes err | head -c 8000000 >&2; wait")).want(0)
		if len(d.out) != 8_000_000 || len(d.err) != 8_000_000 {
			t.Errorf("%d and %d bytes", len(d.out), len(d.err))
		}
	})
}
