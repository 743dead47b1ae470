package sandboxtest

import (
	"testing"

	"github.com/skerry-run/skerry"
)

func testPersistent(t *testing.T, s *suite) {
	s.need(t, Persistent)
	persistent := func(spec *skerry.SandboxSpec) { spec.Persistent = true }

	t.Run("workspace and HOME are found again, and nothing else", func(t *testing.T) {
		b := s.session(t, persistent)
		if !b.Info().Persistent {
			t.Error("Info does not say that it is persistent")
		}
		b.sh("echo w > /workspace/f; mkdir -p d; chmod 700 d; echo h > ~/f; echo t > /tmp/f; export V=1; cd /tmp").want(0)
		if err := s.Delete(b.ctx, b.ref, skerry.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		c := s.session(t, persistent, func(spec *skerry.SandboxSpec) { spec.Ref = b.ref })
		c.sh("pwd; cat f ~/f; stat -c %a d; ls /tmp; echo [$V]; echo more >> f && cat f").wantOut("/workspace\nw\nh\n700\n[]\nw\nmore\n")
	})

	t.Run("purge deletes them", func(t *testing.T) {
		b := s.session(t, persistent)
		b.sh("echo w > f").want(0)
		if err := s.Delete(b.ctx, b.ref, skerry.DeleteOptions{Purge: true}); err != nil {
			t.Fatal(err)
		}
		c := s.session(t, persistent, func(spec *skerry.SandboxSpec) { spec.Ref = b.ref })
		c.sh("ls").wantOut("")
	})

	t.Run("purge works when the sandbox is gone already", func(t *testing.T) {
		b := s.session(t, persistent)
		b.sh("echo w > f").want(0)
		if err := s.Delete(b.ctx, b.ref, skerry.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := s.Delete(b.ctx, b.ref, skerry.DeleteOptions{Purge: true}); err != nil {
			t.Fatal(err)
		}
		c := s.session(t, persistent, func(spec *skerry.SandboxSpec) { spec.Ref = b.ref })
		c.sh("ls").wantOut("")
	})

	t.Run("one that is not persistent keeps nothing", func(t *testing.T) {
		b := s.session(t)
		b.sh("echo w > f").want(0)
		if err := s.Delete(b.ctx, b.ref, skerry.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		c := s.session(t, persistent, func(spec *skerry.SandboxSpec) { spec.Ref = b.ref })
		c.sh("ls").wantOut("")
	})

	t.Run("another org's session of the same name has its own files", func(t *testing.T) {
		b := s.session(t, persistent)
		b.sh("echo mine > f").want(0)
		c := s.session(t, persistent, func(spec *skerry.SandboxSpec) { spec.Name, spec.Org = b.ref.Name, s.org+"-other" })
		c.sh("ls; echo theirs > f").wantOut("")
		b.sh("cat f").wantOut("mine\n")
	})
}
