package sandboxtest

import (
	"strconv"
	"strings"
	"testing"

	"github.com/skerry-run/skerry"
)

func itoa(n int) string { return strconv.Itoa(n) }

func testBackend(t *testing.T, s *suite) {
	t.Run("name is one word", func(t *testing.T) {
		if n := s.Name(); n == "" || strings.ContainsAny(n, " \t\n") {
			t.Errorf("Name() = %q", n)
		}
	})

	t.Run("check finds that sandboxes work, and gives a remedy for what is not well", func(t *testing.T) {
		report, err := s.Check(s.context(t))
		if err != nil {
			t.Fatal(err)
		}
		if len(report) == 0 || report.Failed() {
			t.Errorf("report %+v", report)
		}
		for _, f := range report {
			if f.Name == "" || f.Detail == "" {
				t.Errorf("a finding without a name or a detail: %+v", f)
			}
			switch f.Status {
			case skerry.FindingOK:
			case skerry.FindingWarn, skerry.FindingFail:
				if f.Remedy == "" {
					t.Errorf("finding %s is %s and has no remedy", f.Name, f.Status)
				}
			default:
				t.Errorf("finding %s has the status %q", f.Name, f.Status)
			}
		}
	})

	t.Run("open finds a live sandbox from anywhere", func(t *testing.T) {
		b := s.session(t)
		b.sh("export K=kept; cd /tmp").want(0)
		other, err := s.again(t).Open(b.ctx, b.ref)
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		c := *b
		c.Sandbox = other
		c.sh("echo $K; pwd").wantOut("kept\n/tmp\n")
	})

	t.Run("open of one that never was is not found", func(t *testing.T) {
		_, err := s.Open(s.context(t), skerry.Ref{Kind: skerry.SessionKind, Org: s.org, Name: s.name("never")})
		wantKind(t, "open", err, skerry.NotFound)
	})

	t.Run("open tells kinds and orgs apart", func(t *testing.T) {
		b := s.session(t)
		for _, ref := range []skerry.Ref{
			{Kind: skerry.RunKind, Org: s.org, Name: b.ref.Name},
			{Kind: skerry.SessionKind, Org: s.org + "-other", Name: b.ref.Name},
		} {
			_, err := s.Open(b.ctx, ref)
			wantKind(t, "open", err, skerry.NotFound)
		}
	})

	t.Run("list gives live sandboxes, oldest first", func(t *testing.T) {
		a, b, c := s.session(t), s.run(t), s.session(t)
		infos, err := s.again(t).List(a.ctx, skerry.Filter{Org: s.org})
		if err != nil {
			t.Fatal(err)
		}
		at := map[skerry.Ref]int{}
		for i, info := range infos {
			if info.Backend != s.Name() || info.Created.IsZero() || info.Expires.Before(info.Created) {
				t.Errorf("info %+v", info)
			}
			at[info.Ref] = i + 1
		}
		if ia, ib, ic := at[a.ref], at[b.ref], at[c.ref]; ia == 0 || ib == 0 || ic == 0 || ia > ib || ib > ic {
			t.Errorf("made in the order %v, %v, %v; listed %v", a.ref, b.ref, c.ref, infos)
		}
	})

	t.Run("list keeps to its filter", func(t *testing.T) {
		a, b := s.session(t), s.run(t)
		for _, filter := range []skerry.Filter{
			{Kind: skerry.SessionKind}, {Kind: skerry.RunKind}, {Org: s.org}, {Org: s.org + "-none"}, {Kind: skerry.RunKind, Org: s.org}, {},
		} {
			infos, err := s.List(a.ctx, filter)
			if err != nil {
				t.Fatal(err)
			}
			seen := map[skerry.Ref]bool{}
			for _, info := range infos {
				seen[info.Ref] = true
				if !filter.Matches(info.Ref) {
					t.Errorf("filter %+v gave %+v", filter, info.Ref)
				}
			}
			for _, ref := range []skerry.Ref{a.ref, b.ref} {
				if filter.Matches(ref) != seen[ref] {
					t.Errorf("filter %+v, sandbox %v: listed %v", filter, ref, seen[ref])
				}
			}
		}
	})

	t.Run("delete ends everything in a sandbox before it returns", func(t *testing.T) {
		b := s.session(t)
		c := b.start(script("sleep 1000 & echo begun; sleep 1001"))
		ended := make(chan error, 1)
		begun := make(chan struct{})
		go func() {
			first := true
			ended <- c.Output(b.ctx, skerry.Offsets{}, func(skerry.Chunk) error {
				if first {
					close(begun)
					first = false
				}
				return nil
			})
		}()
		<-begun
		if err := s.Delete(b.ctx, b.ref, skerry.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		select {
		case <-ended:
		case <-b.ctx.Done():
			t.Fatal("its output did not end")
		}
		if exit, err := c.Wait(b.ctx); err == nil && exit.Outcome == skerry.Exited {
			t.Errorf("a command of a deleted sandbox is said to have %s", exitText(exit)) // unknown is never success
		}
		if _, err := b.Start(b.ctx, skerry.CommandSpec{ID: "late", Argv: []string{"true"}}); err == nil {
			t.Error("a command was started in a deleted sandbox")
		}
		_, err := s.Open(b.ctx, b.ref)
		wantKind(t, "open after delete", err, skerry.NotFound)
		infos, err := s.List(b.ctx, skerry.Filter{Org: s.org})
		if err != nil {
			t.Fatal(err)
		}
		for _, info := range infos {
			if info.Ref == b.ref {
				t.Error("it is still listed")
			}
		}
	})

	t.Run("delete of what does not exist is not found", func(t *testing.T) {
		b := s.session(t)
		if err := s.Delete(b.ctx, b.ref, skerry.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		wantKind(t, "second delete", s.Delete(b.ctx, b.ref, skerry.DeleteOptions{}), skerry.NotFound)
	})

	t.Run("a deleted name can be used again, and is fresh", func(t *testing.T) {
		b := s.session(t)
		b.sh("echo old > old; export OLD=1").want(0)
		if err := s.Delete(b.ctx, b.ref, skerry.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		c := s.session(t, func(spec *skerry.SandboxSpec) { spec.Ref = b.ref })
		c.sh("ls; echo \"[$OLD]\"").wantOut("[]\n")
	})
}
