package sandboxtest

import (
	"testing"
	"time"

	"github.com/skerry-run/skerry"
)

func testSandbox(t *testing.T, s *suite) {
	t.Run("command finds a command by its id, running and ended", func(t *testing.T) {
		b := s.session(t)
		c := b.start(script("until test -e go; do sleep 0.01; done; echo went"))
		for range 2 {
			again, err := b.Command(b.ctx, c.ID())
			if err != nil {
				t.Fatal(err)
			}
			if again.ID() != c.ID() {
				t.Errorf("id %q, want %q", again.ID(), c.ID())
			}
			b.write("go", "")
			b.finish(again, "the command found again").wantOut("went\n")
		}
	})

	t.Run("command of an id that never was is not found", func(t *testing.T) {
		b := s.session(t)
		_, err := b.Command(b.ctx, "never")
		wantKind(t, "command", err, skerry.NotFound)
	})

	t.Run("commands lists what is kept, oldest first", func(t *testing.T) {
		b := s.session(t)
		first := b.do(argv("bash", "-c", "printf abc; printf de >&2; exit 3")).want(3)
		spec := argv("sleep", "1000")
		spec.ID, spec.Background = "in the background", true
		b.start(spec)
		infos, err := b.Commands(b.ctx)
		if err != nil {
			t.Fatal(err)
		}
		if len(infos) != 2 {
			t.Fatalf("%d commands: %+v", len(infos), infos)
		}
		a, c := infos[0], infos[1]
		if a.Exit == nil || a.Exit.ExitCode == nil || *a.Exit.ExitCode != 3 || a.Stdout != 3 || a.Stderr != 2 || a.Background {
			t.Errorf("the first is %+v, exit %v", a, first.exit)
		}
		if c.ID != spec.ID || c.Exit != nil || !c.Background || c.Started.Before(a.Started) {
			t.Errorf("the second is %+v", c)
		}
	})

	t.Run("usage reads the counters", func(t *testing.T) {
		s.need(t, CPUUsage)
		b := s.session(t)
		before, err := b.Usage(b.ctx)
		if err != nil {
			t.Fatal(err)
		}
		b.do(argv("bash", "-c", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done")).want(0)
		after, err := b.Usage(b.ctx)
		if err != nil {
			t.Fatal(err)
		}
		if after.CPUSeconds <= before.CPUSeconds || after.CPUSeconds > 600 {
			t.Errorf("cpu seconds %v, then %v", before.CPUSeconds, after.CPUSeconds)
		}
		s.need(t, MemoryUsage)
		if after.MemoryPeakBytes < 1*skerry.MiB || after.MemoryPeakBytes > 512*skerry.MiB || after.OOMEvents != 0 {
			t.Errorf("usage %+v", after)
		}
	})

	t.Run("a command's exit tells what it used", func(t *testing.T) {
		b := s.session(t)
		d := b.do(argv("bash", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done")).want(0)
		if d.exit.Usage.CPUSeconds <= 0 || d.exit.Duration <= 0 {
			t.Errorf("usage %+v, duration %v", d.exit.Usage, d.exit.Duration)
		}
	})

	t.Run("extend sets the time to live from now", func(t *testing.T) {
		b := s.session(t)
		for _, ttl := range []time.Duration{30 * time.Minute, 5 * time.Minute} {
			if err := b.Extend(b.ctx, ttl); err != nil {
				t.Fatal(err)
			}
			holds := func(info skerry.SandboxInfo) bool {
				left := time.Until(info.Expires)
				return left <= ttl+time.Second && left > ttl-time.Minute
			}
			if info := b.Info(); !holds(info) {
				t.Errorf("after an extension to %v this handle says that %v are left", ttl, time.Until(info.Expires))
			}
			// Others learn it a moment later.
			b.until("the list tells the new time", func() bool { return holds(listed(b)) })
		}
		for _, ttl := range []time.Duration{-time.Second, 1 << 62} {
			wantKind(t, "extend to "+ttl.String(), b.Extend(b.ctx, ttl), skerry.Invalid)
		}
	})

	t.Run("an extended sandbox outlives its first time to live", func(t *testing.T) {
		b := s.session(t, func(spec *skerry.SandboxSpec) { spec.TTL = 2 * time.Second })
		if err := b.Extend(b.ctx, 5*time.Minute); err != nil {
			t.Fatal(err)
		}
		b.sh("sleep 3; echo alive").wantOut("alive\n")
	})

	t.Run("close detaches: the sandbox and its commands go on", func(t *testing.T) {
		b := s.session(t)
		c := b.start(script("export A=1; until test -e go; do sleep 0.01; done; echo went"))
		ended := make(chan error, 1)
		go func() {
			ended <- c.Output(b.ctx, skerry.Offsets{}, func(skerry.Chunk) error { return nil })
		}()
		for range 2 { // a second Close does nothing
			if err := b.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if err := <-ended; err == nil {
			t.Error("the output of a closed handle ended as if the program had")
		}
		if _, err := b.Start(b.ctx, skerry.CommandSpec{ID: "x", Argv: []string{"true"}}); err == nil {
			t.Error("a closed handle started a command")
		}
		other, err := s.Open(b.ctx, b.ref)
		if err != nil {
			t.Fatal(err)
		}
		b.Sandbox = other
		defer other.Close()
		b.write("go", "")
		c, err = b.Command(b.ctx, c.ID())
		if err != nil {
			t.Fatal(err)
		}
		b.finish(c, "the command").wantOut("went\n")
		b.sh("echo $A").wantOut("1\n")
	})

	t.Run("a closed handle does not end another", func(t *testing.T) {
		b := s.session(t)
		other, err := s.Open(b.ctx, b.ref)
		if err != nil {
			t.Fatal(err)
		}
		other.Close()
		b.sh("echo still").wantOut("still\n")
	})
}

// listed gives what List says of a sandbox.
func listed(b *box) skerry.SandboxInfo {
	b.t.Helper()
	infos, err := b.suite.List(b.ctx, skerry.Filter{Org: b.ref.Org})
	if err != nil {
		b.t.Fatal(err)
	}
	for _, info := range infos {
		if info.Ref == b.ref {
			return info
		}
	}
	b.t.Fatalf("%v is not listed", b.ref)
	return skerry.SandboxInfo{}
}
