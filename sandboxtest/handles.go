package sandboxtest

import (
	"io"
	"testing"
	"time"

	"github.com/skerry-run/skerry"
)

// testHandles has the small promises of specs and handles.
func testHandles(t *testing.T, s *suite) {
	t.Run("create tells what it waits for, and how long its steps took", func(t *testing.T) {
		var events []skerry.Event
		b := s.session(t, func(spec *skerry.SandboxSpec) {
			spec.Progress = func(e skerry.Event) { events = append(events, e) }
		})
		if len(events) == 0 {
			t.Error("Progress was not called")
		}
		for _, e := range events {
			if e.Phase == "" || e.Message == "" {
				t.Errorf("event %+v", e)
			}
		}
		phases := b.Info().Phases
		if _, ok := phases["provision"]; !ok {
			t.Errorf("phases %v", phases)
		}
		for name, d := range phases {
			if d < 0 {
				t.Errorf("phase %s took %v", name, d)
			}
		}
		other, err := s.Open(b.ctx, b.ref)
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		if phases := other.Info().Phases; len(phases) > 0 {
			t.Errorf("a handle that created nothing tells of phases %v", phases)
		}
	})

	t.Run("extend above the ceiling is refused and changes nothing", func(t *testing.T) {
		if s.opts.MaxTTL == 0 {
			t.Skip("the backend has no ceiling")
		}
		b := s.session(t)
		before := b.Info().Expires
		wantKind(t, "extend", b.Extend(b.ctx, s.opts.MaxTTL+time.Minute), skerry.Invalid)
		if after := b.Info().Expires; !after.Equal(before) {
			t.Errorf("it expires at %v, before at %v", after, before)
		}
		spec := s.spec(skerry.SessionKind, func(spec *skerry.SandboxSpec) { spec.TTL = s.opts.MaxTTL + time.Minute })
		sandbox, err := s.Create(b.ctx, spec)
		if err == nil {
			s.cleanup(t, sandbox, spec.Ref)
		}
		wantKind(t, "create", err, skerry.Invalid)
		if o := skerry.OutcomeOf(err); o != skerry.Refused {
			t.Errorf("outcome %s of %v", o, err)
		}
		if err := b.Extend(b.ctx, s.opts.MaxTTL/2); err != nil {
			t.Fatal(err)
		}
		if after := b.Info().Expires; !after.After(before) {
			t.Errorf("after an extension it expires at %v, before at %v", after, before)
		}
	})

	t.Run("stdin may be called once", func(t *testing.T) {
		b := s.session(t)
		spec := argv("cat")
		spec.Stdin = skerry.StdinStream
		c := b.start(spec)
		w, err := c.Stdin(b.ctx)
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Stdin(b.ctx)
		wantKind(t, "second Stdin", err, skerry.Conflict)
		if _, err := io.WriteString(w, "whole"); err != nil { // the first one is as good as before
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		b.finish(c, "cat").wantOut("whole")
	})

	t.Run("background changes the listing and nothing else", func(t *testing.T) {
		b := s.session(t)
		listed := map[string]bool{}
		for _, background := range []bool{false, true} {
			spec := argv("bash", "-c", "echo out; echo err >&2; exit 3")
			spec.ID, spec.Background = s.name("command"), background
			d := b.do(spec).want(3)
			if d.out != "out\n" || d.err != "err\n" {
				t.Errorf("background %v: stdout %q, stderr %q", background, d.out, d.err)
			}
			limited := argv("sleep", "1000")
			limited.Timeout, limited.Background = 300*time.Millisecond, background
			b.do(limited).wantOutcome(skerry.Timeout)
			listed[spec.ID] = background
		}
		infos, err := b.Commands(b.ctx)
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, info := range infos {
			if want, ok := listed[info.ID]; ok {
				found++
				if info.Background != want {
					t.Errorf("command %s: background %v, want %v", info.ID, info.Background, want)
				}
			}
		}
		if found != len(listed) {
			t.Errorf("%d of %d commands are listed", found, len(listed))
		}
	})

	t.Run("a command's variables win over the session's, the sandbox's and the base", func(t *testing.T) {
		b := s.session(t, func(spec *skerry.SandboxSpec) {
			spec.Env = map[string]string{"TMPDIR": "/workspace", "LANG": "C", "V": "sandbox"}
		})
		const show = `echo "$TMPDIR $LANG $V $LOGNAME"`
		both := []skerry.CommandSpec{argv("bash", "-c", show), script(show)}
		for _, spec := range both {
			b.do(spec).wantOut("/workspace C sandbox skerry\n")
		}
		b.sh("export V=session").want(0)
		for _, spec := range both {
			b.do(spec).wantOut("/workspace C session skerry\n")
			spec.Env = map[string]string{"LANG": "POSIX", "V": "command", "LOGNAME": "me"}
			b.do(spec).wantOut("/workspace POSIX command me\n")
		}
		b.sh(show).wantOut("/workspace C session skerry\n") // it was for one command
	})

	t.Run("another command under a taken id is refused, the same one is followed", func(t *testing.T) {
		b := s.session(t)
		first := script("echo first; exit 4")
		first.ID = s.name("taken")
		if r := skerry.Exec(b.ctx, b, skerry.ExecSpec{Command: first}); r.Outcome != skerry.Exited {
			t.Fatalf("outcome %s (%s)", r.Outcome, r.Reason)
		}
		other := script("echo other")
		other.ID = first.ID
		if r := skerry.Exec(b.ctx, b, skerry.ExecSpec{Command: other}); r.Outcome != skerry.Refused || r.ExitCode != nil || r.Stdout != "" || r.Reason == "" {
			t.Errorf("another command: %s (%s), stdout %q", r.Outcome, r.Reason, r.Stdout)
		}
		_, err := b.Start(b.ctx, other)
		wantKind(t, "start", err, skerry.Conflict)
		if r := skerry.Exec(b.ctx, b, skerry.ExecSpec{Command: first}); r.Outcome != skerry.Exited || r.ExitCode == nil || *r.ExitCode != 4 || r.Stdout != "first\n" {
			t.Errorf("the same command: %s (%s), stdout %q", r.Outcome, r.Reason, r.Stdout)
		}
	})
}
