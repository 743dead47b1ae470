package sandboxtest

import (
	"testing"

	"github.com/skerry-run/skerry"
)

func testPersistent(t *testing.T, s *suite) {
	s.need(t, Persistent)
	persistent := func(spec *skerry.SandboxSpec) { spec.Persistent = true }
	end := func(b *box, opts skerry.DeleteOptions) {
		b.t.Helper()
		if err := s.Delete(b.ctx, b.ref, opts); err != nil {
			b.t.Fatal(err)
		}
	}
	again := func(b *box) *box {
		b.t.Helper()
		return s.session(b.t, persistent, func(spec *skerry.SandboxSpec) { spec.Ref = b.ref })
	}

	t.Run("workspace and HOME are found again, and nothing else", func(t *testing.T) {
		b := s.session(t, persistent)
		if !b.Info().Persistent {
			t.Error("Info does not say that it is persistent")
		}
		b.sh("echo w > /workspace/f; mkdir -p d; chmod 700 d; echo h > ~/f; echo t > /tmp/f; export V=1; cd /tmp").want(0)
		end(b, skerry.DeleteOptions{})
		again(b).sh("pwd; cat f ~/f; stat -c %a d; ls /tmp; echo [$V]; echo more >> f && cat f").wantOut("/workspace\nw\nh\n700\n[]\nw\nmore\n")
	})

	t.Run("purge deletes them", func(t *testing.T) {
		b := s.session(t, persistent)
		b.sh("echo w > f").want(0)
		end(b, skerry.DeleteOptions{Purge: true})
		again(b).sh("ls").wantOut("")
	})

	t.Run("purge works when the sandbox is gone already", func(t *testing.T) {
		b := s.session(t, persistent)
		b.sh("echo w > f").want(0)
		end(b, skerry.DeleteOptions{})
		end(b, skerry.DeleteOptions{Purge: true})
		again(b).sh("ls").wantOut("")
	})

	t.Run("one that is not persistent keeps nothing", func(t *testing.T) {
		b := s.session(t)
		b.sh("echo w > f").want(0)
		end(b, skerry.DeleteOptions{})
		again(b).sh("ls").wantOut("")
	})

	t.Run("another org's session of the same name has its own files", func(t *testing.T) {
		b := s.session(t, persistent)
		b.sh("echo mine > f").want(0)
		c := s.session(t, persistent, func(spec *skerry.SandboxSpec) { spec.Name, spec.Org = b.ref.Name, s.org+"-other" })
		c.sh("ls; echo theirs > f").wantOut("")
		b.sh("cat f").wantOut("mine\n")
	})
}
