package sandboxtest

import (
	"sync"
	"testing"

	"github.com/skerry-run/skerry"
)

func testConcurrent(t *testing.T, s *suite) {
	t.Run("commands of one session run side by side", func(t *testing.T) { // B143
		b := s.session(t)
		// Each waits for the other, so both must run.
		one := b.start(script("touch one; until test -e two; do sleep 0.01; done; echo one"))
		two := b.start(script("touch two; until test -e one; do sleep 0.01; done; echo two"))
		b.finish(one, "one").wantOut("one\n")
		b.finish(two, "two").wantOut("two\n")
	})

	t.Run("each starts from the state published when it starts, and the last to end wins", func(t *testing.T) {
		b := s.session(t)
		b.sh("export S=start; cd /tmp").want(0)
		slow := b.start(script("echo $S; export S=slow OWN=1; cd /workspace; until test -e /tmp/go; do sleep 0.01; done"))
		b.until("the slow one set its own", func() bool { return len(b.peek(slow)) > 0 })
		b.sh("echo $S; pwd; export S=quick").wantOut("start\n/tmp\n")
		b.sh("echo $S; pwd").wantOut("quick\n/tmp\n")
		b.write("/tmp/go", "")
		b.finish(slow, "the slow one").wantOut("start\n")
		b.sh("echo $S $OWN; pwd").wantOut("slow 1\n/workspace\n") // whole, not a mixture
	})

	t.Run("many at once keep their outputs apart", func(t *testing.T) { // B016
		b := s.session(t, func(spec *skerry.SandboxSpec) { spec.Limits.PIDs = 1024 })
		var wg sync.WaitGroup
		for i := range 30 {
			wg.Go(func() {
				spec := script("for i in 1 2 3; do echo line-" + itoa(i) + "; done; exit " + itoa(i))
				spec.ID = s.name("many")
				c, err := b.Start(b.ctx, spec)
				if err != nil {
					t.Errorf("start %d: %v", i, err)
					return
				}
				var out []byte
				err = c.Output(b.ctx, skerry.Offsets{}, func(chunk skerry.Chunk) error {
					out = append(out, chunk.Data...)
					return nil
				})
				line := "line-" + itoa(i) + "\n"
				exit, waitErr := c.Wait(b.ctx)
				if err != nil || waitErr != nil || string(out) != line+line+line || exit.ExitCode == nil || *exit.ExitCode != i {
					t.Errorf("command %d: output %q, exit %s, errors %v, %v", i, out, exitText(exit), err, waitErr)
				}
			})
		}
		wg.Wait()
	})

	t.Run("many sandboxes at once", func(t *testing.T) {
		const n = 8
		boxes := make([]*box, n)
		for i := range boxes {
			boxes[i] = s.session(t)
		}
		var wg sync.WaitGroup
		for i, b := range boxes {
			wg.Go(func() {
				for j := range 5 {
					c, err := b.Start(b.ctx, skerry.CommandSpec{ID: itoa(j), Script: "echo x >> f; wc -l < f; echo $PWD"})
					if err != nil {
						t.Errorf("sandbox %d: %v", i, err)
						return
					}
					var out []byte
					err = c.Output(b.ctx, skerry.Offsets{}, func(chunk skerry.Chunk) error {
						out = append(out, chunk.Data...)
						return nil
					})
					if want := itoa(j+1) + "\n/workspace\n"; err != nil || string(out) != want {
						t.Errorf("sandbox %d: output %q, want %q, error %v", i, out, want, err)
					}
				}
			})
		}
		wg.Wait()
	})
}

// peek gives what a running command has written so far, as Commands tells it.
func (b *box) peek(c skerry.Command) string {
	b.t.Helper()
	infos, err := b.Commands(b.ctx)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, info := range infos {
		if info.ID == c.ID() && info.Stdout > 0 {
			return itoa(int(info.Stdout))
		}
	}
	return ""
}
