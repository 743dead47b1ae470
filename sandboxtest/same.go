package sandboxtest

import (
	"bytes"
	"context"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/skerry-run/skerry"
)

// testSameRun asks again for a run that has an id of the caller's choice.
func testSameRun(t *testing.T, s *suite) {
	spec := func(id, script string, input string) skerry.RunSpec {
		return skerry.RunSpec{
			Sandbox: skerry.SandboxSpec{Ref: skerry.Ref{Name: id}, Remember: time.Minute},
			Command: skerry.CommandSpec{Argv: []string{"bash", "-c", script}},
			Inputs: []skerry.Input{{Path: "in.txt", Size: int64(len(input)), Open: func() (io.ReadCloser, error) {
				return io.NopCloser(bytes.NewReader([]byte(input))), nil
			}}},
		}
	}

	t.Run("the same request while it runs is followed, not run again", func(t *testing.T) {
		run := spec(s.name("same"), "cat in.txt; sleep 1; date +%s%N; exit 3", "input ")
		var results [3]skerry.Result
		var wg sync.WaitGroup
		for i := range results {
			wg.Go(func() { results[i] = skerry.Run(t.Context(), s.Backend, run) })
		}
		wg.Wait()
		for i, r := range results {
			if r.Outcome != skerry.Exited || r.ExitCode == nil || *r.ExitCode != 3 {
				t.Errorf("caller %d: outcome %s (%s), exit code %v; want exited 3 for all", i, r.Outcome, r.Reason, r.ExitCode)
			}
		}
		again := skerry.Run(t.Context(), s.Backend, run)
		if again.Outcome != skerry.Exited || again.ExitCode == nil || *again.ExitCode != 3 || len(again.Warnings) == 0 {
			t.Errorf("asked again when it was over: outcome %s (%s), exit code %v, warnings %q; want its exit code and a warning that its output is gone", again.Outcome, again.Reason, again.ExitCode, again.Warnings)
		}
	})

	t.Run("the same id for another request is refused", func(t *testing.T) {
		first := spec(s.name("other"), "sleep 2", "one")
		done := make(chan skerry.Result, 1)
		started := make(chan struct{})
		var once sync.Once
		first.Command.Argv[2] = "echo up; sleep 2"
		first.Output = func(skerry.Chunk) error { once.Do(func() { close(started) }); return nil }
		go func() { done <- skerry.Run(t.Context(), s.Backend, first) }()
		select {
		case <-started:
		case r := <-done:
			t.Fatalf("the first run ended early: %s (%s)", r.Outcome, r.Reason)
		}
		other := spec(first.Sandbox.Name, first.Command.Argv[2], "two") // only an input differs
		if r := skerry.Run(t.Context(), s.Backend, other); r.Outcome != skerry.Refused {
			t.Errorf("while the first runs: outcome %s (%s), want refused", r.Outcome, r.Reason)
		}
		if r := <-done; r.Outcome != skerry.Exited {
			t.Errorf("the first run: outcome %s (%s), want exited", r.Outcome, r.Reason)
		}
		if r := skerry.Run(t.Context(), s.Backend, other); r.Outcome != skerry.Refused {
			t.Errorf("when the first is over: outcome %s (%s), want refused", r.Outcome, r.Reason)
		}
	})

	t.Run("a follower who leaves does not end the run", func(t *testing.T) {
		run := spec(s.name("leave"), "echo up; sleep 2; echo end", "x")
		maker := make(chan skerry.Result, 1)
		started := make(chan struct{})
		var once sync.Once
		making := run
		making.Output = func(skerry.Chunk) error { once.Do(func() { close(started) }); return nil }
		go func() { maker <- skerry.Run(t.Context(), s.Backend, making) }()
		select {
		case <-started:
		case r := <-maker:
			t.Fatalf("the run ended early: %s (%s)", r.Outcome, r.Reason)
		}
		ctx, cancel := context.WithCancel(t.Context())
		run.Output = func(skerry.Chunk) error { cancel(); return nil }
		if r := skerry.Run(ctx, s.Backend, run); r.Outcome != skerry.Cancelled {
			t.Errorf("the follower: outcome %s (%s), want cancelled", r.Outcome, r.Reason)
		}
		if r := <-maker; r.Outcome != skerry.Exited || r.Stdout != "up\nend\n" {
			t.Errorf("the maker: outcome %s (%s), stdout %q; want exited with all of its output", r.Outcome, r.Reason, r.Stdout)
		}
	})

	t.Run("an artifact that can't be read costs no other", func(t *testing.T) {
		r := skerry.Run(t.Context(), s.Backend, skerry.RunSpec{
			Sandbox: skerry.SandboxSpec{Ref: skerry.Ref{Name: s.name("unreadable")}},
			Command: skerry.CommandSpec{Argv: []string{"bash", "-c",
				"mkdir -p output/d output/e; for f in a b c d/x e/y; do echo $f > output/$f; done; chmod 0 output/b output/d"}},
		})
		var got []string
		for _, a := range r.Files {
			got = append(got, a.Path)
		}
		if len(got) != 3 || len(r.Warnings) < 2 {
			t.Errorf("artifacts %q, warnings %q; want a, c and e/y, and a warning for each of the others", got, r.Warnings)
		}
	})
}
