package sandboxtest

import (
	"testing"
	"time"

	"github.com/skerry-run/skerry"
)

func testExpiry(t *testing.T, s *suite) {
	// gone waits until a sandbox is past its time, and gives what Open says.
	gone := func(b *box) error {
		var err error
		b.until("it is past its time", func() bool {
			var other skerry.Sandbox
			other, err = s.Open(b.ctx, b.ref)
			if err == nil {
				other.Close()
			}
			return err != nil
		})
		return err
	}

	t.Run("the time to live ends a sandbox whatever it does", func(t *testing.T) {
		b := s.session(t, func(spec *skerry.SandboxSpec) { spec.TTL = 2 * time.Second })
		c := b.start(argv("sleep", "1000"))
		err := gone(b)
		wantKind(t, "open", err, skerry.NotFound, skerry.Expired)
		if exit, err := c.Wait(b.ctx); err == nil && exit.Outcome == skerry.Exited {
			t.Errorf("its command is said to have %s", exitText(exit))
		}
	})

	t.Run("an idle session ends", func(t *testing.T) {
		b := s.session(t, func(spec *skerry.SandboxSpec) { spec.Idle = time.Second })
		b.sh("echo used").want(0)
		b.Close()
		b.until("it is gone", func() bool {
			// Looking with Open would keep it busy.
			infos, err := s.List(b.ctx, skerry.Filter{Org: s.org})
			if err != nil {
				t.Fatal(err)
			}
			for _, info := range infos {
				if info.Ref == b.ref {
					return false
				}
			}
			return true
		})
	})

	t.Run("a session in which a command runs is not idle", func(t *testing.T) {
		b := s.session(t, func(spec *skerry.SandboxSpec) { spec.Idle = time.Second })
		spec := script("sleep 3; echo finished")
		spec.Background = true
		c := b.start(spec)
		id := c.ID()
		b.Close()
		other, err := s.Open(b.ctx, b.ref)
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		c, err = other.Command(b.ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		b.finish(c, "background command").wantOut("finished\n")
	})

	t.Run("what is remembered is expired, what is not is not found", func(t *testing.T) {
		s.need(t, Remember)
		b := s.session(t, func(spec *skerry.SandboxSpec) { spec.Remember = time.Hour })
		if err := s.Delete(b.ctx, b.ref, skerry.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		_, err := s.again(t).Open(b.ctx, b.ref)
		wantKind(t, "open of a remembered session", err, skerry.Expired)

		again := s.session(t, func(spec *skerry.SandboxSpec) { spec.Ref = b.ref })
		again.do(argv("true")).want(0)

		c := s.session(t)
		if err := s.Delete(b.ctx, c.ref, skerry.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		_, err = s.Open(b.ctx, c.ref)
		wantKind(t, "open of a forgotten session", err, skerry.NotFound)
	})

	t.Run("a remembered run is never made again", func(t *testing.T) {
		s.need(t, Remember)
		digest := func(d string) func(*skerry.SandboxSpec) {
			return func(spec *skerry.SandboxSpec) { spec.Remember, spec.Digest = time.Hour, d }
		}
		b := s.run(t, digest("one request"))
		if err := s.Delete(b.ctx, b.ref, skerry.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		for d, want := range map[string]skerry.Kind{"one request": skerry.Expired, "another request": skerry.Conflict} {
			spec := s.spec(skerry.RunKind, digest(d), func(spec *skerry.SandboxSpec) { spec.Ref = b.ref })
			sandbox, err := s.Create(b.ctx, spec)
			if err == nil {
				s.cleanup(t, sandbox, spec.Ref)
			}
			wantKind(t, "create for "+d, err, want)
		}
		_, err := s.Open(b.ctx, b.ref)
		wantKind(t, "open", err, skerry.Expired)
	})

	t.Run("a session that ended by its time to live is remembered too", func(t *testing.T) {
		s.need(t, Remember)
		b := s.session(t, func(spec *skerry.SandboxSpec) { spec.TTL, spec.Remember = time.Second, time.Hour })
		wantKind(t, "open", gone(b), skerry.Expired)
	})
}
