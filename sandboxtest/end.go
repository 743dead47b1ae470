package sandboxtest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/skerry-run/skerry"
)

// Signals by their POSIX numbers, whatever system the test runs on.
const (
	sigAbrt = 6
	sigKill = 9
	sigUsr1 = 10 // on Linux
	sigSegv = 11
	sigTerm = 15
)

func testEnd(t *testing.T, s *suite) {
	b := s.session(t)

	t.Run("the exit code is the program's own", func(t *testing.T) { // B036
		b := b.on(t)
		for _, code := range []int{0, 1, 2, 3, 9, 124, 125, 126, 127, 128, 130, 137, 143, 255} {
			b.do(argv("bash", "-c", "exit "+itoa(code))).want(code)
			b.sh("exit " + itoa(code)).want(code)
		}
	})

	t.Run("is never guessed from text", func(t *testing.T) { // B035
		d := b.on(t).do(argv("bash", "-c", "echo 'timed out after 3s' >&2; echo out; exit 1")).want(1)
		if d.out != "out\n" || d.err != "timed out after 3s\n" {
			t.Errorf("stdout %q, stderr %q", d.out, d.err)
		}
	})

	t.Run("by a signal that was not ours is signaled", func(t *testing.T) { // B037
		b := b.on(t)
		for _, sig := range []int{sigTerm, sigKill, sigSegv, sigAbrt} {
			for _, spec := range []skerry.CommandSpec{argv("bash", "-c", "echo before; kill -"+itoa(sig)+" $$"), script("echo before; kill -" + itoa(sig) + " $$")} {
				d := b.do(spec).wantOutcome(skerry.Signaled)
				if d.exit.Signal != sig || d.out != "before\n" {
					t.Errorf("%s: signal %d, stdout %q", shown(spec), d.exit.Signal, d.out)
				}
			}
		}
	})

	t.Run("signal reaches the program", func(t *testing.T) {
		b := b.on(t)
		c := b.start(argv("bash", "-c", "trap 'echo usr1; exit 6' USR1; echo ready; while :; do sleep 0.01; done"))
		var out strings.Builder
		err := c.Output(b.ctx, skerry.Offsets{}, func(chunk skerry.Chunk) error {
			out.Write(chunk.Data)
			if out.String() == "ready\n" {
				return c.Signal(b.ctx, sigUsr1, false)
			}
			return nil
		})
		if err != nil || out.String() != "ready\nusr1\n" {
			t.Errorf("output %q, error %v", out.String(), err)
		}
		b.finishOnly(c).want(6)
	})

	t.Run("signal to the tree reaches everything it started", func(t *testing.T) {
		b := b.on(t)
		c := b.start(argv("bash", "-c", "setsid sleep 4321 & (sleep 4321 & ); sleep 4321"))
		b.until("all three run", func() bool { return b.processes("sleep 4321") == "3" })
		if err := c.Signal(b.ctx, sigKill, true); err != nil {
			t.Fatal(err)
		}
		b.finishOnly(c).wantOutcome(skerry.Signaled)
		b.until("none is left", func() bool { return b.processes("sleep 4321") == "0" })
	})

	t.Run("signal to a program that has ended is no error", func(t *testing.T) { // B062
		b := b.on(t)
		c := b.start(argv("true"))
		b.wait(c)
		for _, tree := range []bool{false, true} {
			if err := c.Signal(b.ctx, sigTerm, tree); err != nil {
				t.Error(err)
			}
		}
		if err := c.Cancel(b.ctx, "too late"); err != nil {
			t.Error(err)
		}
		b.finishOnly(c).want(0)
	})

	t.Run("signal refuses what is none", func(t *testing.T) {
		b := b.on(t)
		c := b.start(argv("sleep", "1000"))
		for _, n := range []int{-1, 0, 65, 1 << 20} {
			wantKind(t, "signal "+itoa(n), c.Signal(b.ctx, n, false), skerry.Invalid)
		}
		if err := c.Cancel(b.ctx, "enough"); err != nil {
			t.Error(err)
		}
	})

	t.Run("cancel ends the program and everything it started", func(t *testing.T) {
		b := b.on(t)
		spec := argv("bash", "-c", "echo begun; setsid sleep 4322 & (trap '' TERM; sleep 4322 & wait) & sleep 4322")
		spec.Grace = 500 * time.Millisecond
		c := b.start(spec)
		b.until("all run", func() bool { return b.processes("sleep 4322") == "3" })
		if err := c.Cancel(b.ctx, "no longer wanted"); err != nil {
			t.Fatal(err)
		}
		d := b.finish(c, "the cancelled command").wantOutcome(skerry.Cancelled)
		if d.out != "begun\n" || !strings.Contains(d.exit.Reason, "no longer wanted") {
			t.Errorf("stdout %q, reason %q", d.out, d.exit.Reason)
		}
		if n := b.processes("sleep 4322"); n != "0" {
			t.Errorf("%s processes are left", n)
		}
	})

	t.Run("cancel lets the program clean up within its grace", func(t *testing.T) {
		b := b.on(t)
		c := b.start(argv("bash", "-c", "trap 'echo cleaned; exit 0' TERM; touch trap-set; while :; do sleep 0.01; done"))
		b.until("it runs", func() bool { return b.hasFile("trap-set") })
		if err := c.Cancel(b.ctx, "stop"); err != nil {
			t.Fatal(err)
		}
		if d := b.finish(c, "the cancelled command").wantOutcome(skerry.Cancelled); d.out != "cleaned\n" {
			t.Errorf("stdout %q", d.out)
		}
	})

	t.Run("a timeout is a timeout and names its limit", func(t *testing.T) { // B069, B073, B076
		b := b.on(t)
		for _, spec := range []skerry.CommandSpec{argv("bash", "-c", "echo begun; sleep 1000; echo never"), script("echo begun; sleep 1000; echo never")} {
			spec.Timeout = time.Second
			d := b.do(spec).wantOutcome(skerry.Timeout)
			if d.out != "begun\n" || d.exit.Limit != skerry.CommandLimit || !strings.Contains(d.exit.Reason, "1s") {
				t.Errorf("stdout %q, limit %q, reason %q", d.out, d.exit.Limit, d.exit.Reason)
			}
			if d.exit.Duration < time.Second {
				t.Errorf("it ended after %v", d.exit.Duration)
			}
		}
	})

	t.Run("a program that ignores TERM is killed after the grace", func(t *testing.T) {
		b := b.on(t)
		spec := argv("bash", "-c", "trap '' TERM; echo begun; while :; do sleep 0.05; done")
		spec.Timeout, spec.Grace = 500*time.Millisecond, 500*time.Millisecond
		d := b.do(spec).wantOutcome(skerry.Timeout)
		if d.out != "begun\n" || d.exit.Duration < time.Second {
			t.Errorf("stdout %q after %v", d.out, d.exit.Duration)
		}
	})

	t.Run("an exit code after our TERM is still a timeout", func(t *testing.T) {
		b := b.on(t)
		spec := argv("bash", "-c", "trap 'echo bye; exit 0' TERM; while :; do sleep 0.01; done")
		spec.Timeout = 500 * time.Millisecond
		if d := b.do(spec).wantOutcome(skerry.Timeout); d.out != "bye\n" {
			t.Errorf("stdout %q", d.out)
		}
	})

	t.Run("no timeout is no limit", func(t *testing.T) { // B075
		b := b.on(t)
		spec := argv("bash", "-c", "sleep 2; echo done")
		spec.Background = true
		b.do(spec).wantOut("done\n")
	})

	t.Run("wait ends with its context, and the program goes on", func(t *testing.T) {
		b := b.on(t)
		c := b.start(script("until test -e go-wait; do sleep 0.01; done; echo went"))
		ctx, cancel := context.WithTimeout(b.ctx, 50*time.Millisecond)
		defer cancel()
		if exit, err := c.Wait(ctx); err == nil {
			t.Errorf("wait gave %s", exitText(exit))
		}
		b.write("go-wait", "")
		b.finish(c, "the command").wantOut("went\n")
	})

	t.Run("wait can be called again and gives the same", func(t *testing.T) {
		b := b.on(t)
		c := b.start(argv("bash", "-c", "exit 7"))
		first, second := b.wait(c), b.wait(c)
		if *first.ExitCode != 7 || *second.ExitCode != 7 || first.Duration != second.Duration {
			t.Errorf("%+v, then %+v", first, second)
		}
	})
}
