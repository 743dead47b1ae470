package sandboxtest

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/skerry-run/skerry"
)

func testRun(t *testing.T, s *suite) {
	spec := func(cmd skerry.CommandSpec) skerry.RunSpec {
		return skerry.RunSpec{Sandbox: s.spec(skerry.RunKind), Command: cmd, Language: "any"}
	}
	bash := func(code string) skerry.CommandSpec { return argv("bash", "-c", code) }
	run := func(t *testing.T, spec skerry.RunSpec) skerry.Result {
		t.Helper()
		r := skerry.Run(s.context(t), s.Backend, spec)
		s.wantGone(t, spec.Sandbox.Ref)
		return r
	}

	t.Run("gives the whole result", func(t *testing.T) {
		rs := spec(bash("echo out; echo err >&2; exit 3"))
		r := run(t, rs)
		if r.Outcome != skerry.Exited || r.ExitCode == nil || *r.ExitCode != 3 || r.Stdout != "out\n" || r.Stderr != "err\n" {
			t.Errorf("result %+v", r)
		}
		if r.ID != rs.Sandbox.Name || r.Org != s.org || r.Backend != s.Name() || r.Language != "any" || r.DurationMS < 1 || r.Files == nil || r.Warnings == nil || !r.Cold {
			t.Errorf("result %+v", r)
		}
		for _, phase := range []string{"provision_ms", "run_ms", "collect_ms", "cleanup_ms"} {
			if _, ok := r.Phases[phase]; !ok {
				t.Errorf("no phase %s in %v", phase, r.Phases)
			}
		}
	})

	t.Run("a timeout keeps partial output", func(t *testing.T) { // B077
		cmd := bash("echo begin; sleep 1000; echo never")
		cmd.Timeout = time.Second
		r := run(t, spec(cmd))
		if r.Outcome != skerry.Timeout || r.Limit != skerry.CommandLimit || r.ExitCode != nil || r.Stdout != "begin\n" || !strings.Contains(r.Reason, "1s") {
			t.Errorf("result %+v", r)
		}
	})

	t.Run("what an unbuffered program printed before the limit is there", func(t *testing.T) { // B059
		b := s.run(t)
		b.needProgram("python3")
		cmd := argv("python3", "-u", "-c", "import time\nprint('early')\ntime.sleep(1000)")
		cmd.Timeout = 2 * time.Second
		if r := run(t, spec(cmd)); r.Outcome != skerry.Timeout || r.Stdout != "early\n" {
			t.Errorf("result %+v", r)
		}
	})

	t.Run("a cancelled caller ends it", func(t *testing.T) {
		ctx, cancel := context.WithCancel(s.context(t))
		rs := spec(bash("echo begun; sleep 1000"))
		rs.Output = func(skerry.Chunk) error { cancel(); return nil }
		r := skerry.Run(ctx, s.Backend, rs)
		if r.Outcome != skerry.Cancelled || r.ExitCode != nil || r.Stdout != "begun\n" {
			t.Errorf("result %+v", r)
		}
		s.wantGone(t, rs.Sandbox.Ref)
	})

	t.Run("a caller that had gone before it began gets cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(s.context(t))
		cancel()
		rs := spec(bash("true"))
		if r := skerry.Run(ctx, s.Backend, rs); r.Outcome != skerry.Cancelled {
			t.Errorf("result %+v", r)
		}
		s.wantGone(t, rs.Sandbox.Ref)
	})

	t.Run("an error of the reader cancels it", func(t *testing.T) {
		rs := spec(bash("echo begun; sleep 1000"))
		rs.Output = func(skerry.Chunk) error { return errors.New("the pipe broke") }
		if r := run(t, rs); r.Outcome != skerry.Cancelled || !strings.Contains(r.Reason, "the pipe broke") {
			t.Errorf("result %+v", r)
		}
	})

	t.Run("nothing of it survives, not even what holds its pipes", func(t *testing.T) { // B067, X2
		r := run(t, spec(bash("setsid sleep 1000 & sleep 1000 & echo done")))
		if r.Outcome != skerry.Exited || *r.ExitCode != 0 || r.Stdout != "done\n" {
			t.Errorf("result %+v", r)
		}
	})

	t.Run("a missing interpreter is start_failed with its hint", func(t *testing.T) {
		cmd := argv("no-such-interpreter", "x")
		cmd.Missing = "apt-get install no-such-interpreter"
		r := run(t, spec(cmd))
		if r.Outcome != skerry.StartFailed || r.ExitCode != nil || !strings.Contains(r.Hint, cmd.Missing) || !strings.Contains(r.Reason, "no-such-interpreter") {
			t.Errorf("result %+v", r)
		}
	})

	t.Run("what is invalid is refused and nothing is made", func(t *testing.T) {
		noKind := spec(bash("true"))
		noKind.Sandbox.Name = ""
		network := spec(bash("true"))
		network.Sandbox.Network.Mode = "sometimes"
		negative := spec(bash("true"))
		negative.Command.Timeout = -time.Second
		twice := spec(bash("true"))
		twice.Inputs = []skerry.Input{input("a", "1"), input("./a", "2")}
		outside := spec(bash("true"))
		outside.Inputs = []skerry.Input{input("../a", "1")}
		tooMuch := spec(bash("true"))
		tooMuch.Inputs, tooMuch.InputsBytes = []skerry.Input{input("a", "12345")}, 4
		for name, rs := range map[string]skerry.RunSpec{"no command": spec(skerry.CommandSpec{}), "no name": noKind, "network": network, "timeout": negative, "two inputs at one place": twice, "an input outside": outside, "too many bytes": tooMuch} {
			r := skerry.Run(s.context(t), s.Backend, rs)
			if r.Outcome != skerry.Refused || r.ExitCode != nil || r.Reason == "" {
				t.Errorf("%s: outcome %s, reason %q", name, r.Outcome, r.Reason)
			}
			if rs.Sandbox.Name != "" {
				s.wantGone(t, rs.Sandbox.Ref)
			}
		}
	})

	t.Run("inputs are there when it begins", func(t *testing.T) {
		rs := spec(bash("cat 'a b.txt' sub/-x; stat -c %a tool; wc -c < big; pwd"))
		tool := input("tool", "x")
		tool.Mode = 0o755
		rs.Inputs = []skerry.Input{input("a b.txt", "one\n"), input("sub/-x", "two\n"), tool, input("big", string(noise(3_000_000)))}
		if r := run(t, rs); r.Stdout != "one\ntwo\n755\n3000000\n/workspace\n" {
			t.Errorf("result %+v", r)
		}
	})

	t.Run("stdin is read to its end, or to the program's", func(t *testing.T) { // B001, B003
		for code, want := range map[string]string{"wc -c": "5000000\n", "head -c 3": "xxx"} {
			rs := spec(bash(code))
			rs.Stdin = strings.NewReader(strings.Repeat("x", 5_000_000))
			if r := run(t, rs); r.Outcome != skerry.Exited || r.Stdout != want {
				t.Errorf("%s: result %+v", code, r)
			}
		}
		if r := run(t, spec(bash("cat; echo rc=$?"))); r.Stdout != "rc=0\n" {
			t.Errorf("without stdin: result %+v", r)
		}
		rs := spec(bash("echo done"))
		hanging, w := io.Pipe() // a caller's reader may hang for ever
		defer w.Close()
		rs.Stdin = hanging
		if r := run(t, rs); r.Outcome != skerry.Exited || r.Stdout != "done\n" {
			t.Errorf("with a stdin that hangs: result %+v", r)
		}
	})

	t.Run("an id that runs already is followed, not run again", func(t *testing.T) {
		s.need(t, Remember)
		rs := spec(bash("echo begun; until test -e /workspace/go; do sleep 0.01; done; echo ended; echo ran >> /workspace/count; cat /workspace/count"))
		rs.Sandbox.Remember = time.Minute
		ctx := s.context(t)
		results := make(chan skerry.Result, 2)
		// follow starts the run, or joins it, and returns when its first output
		// has come: that is from the beginning for both.
		follow := func() {
			t.Helper()
			begun := make(chan struct{})
			mine := rs
			mine.Output = func(skerry.Chunk) error {
				select {
				case <-begun:
				default:
					close(begun)
				}
				return nil
			}
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				results <- skerry.Run(ctx, s.Backend, mine)
			}()
			select {
			case <-begun:
			case <-ended:
				t.Fatalf("it ended before it wrote anything: %+v", <-results)
			}
		}
		follow()
		follow()
		sandbox, err := s.Open(ctx, rs.Sandbox.Ref)
		if err != nil {
			t.Fatal(err)
		}
		defer sandbox.Close()
		if _, err := sandbox.Files().Write(ctx, "go", strings.NewReader(""), skerry.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		whole := 0
		for range 2 {
			r := <-results
			switch {
			case r.Outcome == skerry.Exited && r.Stdout == "begun\nended\nran\n":
				whole++
			case strings.Count(r.Stdout, "ran") > 1:
				t.Errorf("it ran twice: %+v", r)
			case r.Outcome == skerry.Exited && len(r.Warnings) == 0:
				t.Errorf("output is missing without a word: %+v", r)
			}
		}
		if whole == 0 {
			t.Error("nobody learnt how it ended")
		}
		s.wantGone(t, rs.Sandbox.Ref)
	})

	t.Run("the same id with another command is a conflict", func(t *testing.T) {
		b := s.run(t)
		first := argv("sleep", "1000")
		first.ID = skerry.RunCommandID
		b.start(first)
		rs := spec(bash("echo other"))
		rs.Sandbox.Ref = b.ref
		if r := skerry.Run(b.ctx, s.Backend, rs); r.Outcome == skerry.Exited || r.Stdout != "" {
			t.Errorf("result %+v", r)
		}
		if _, err := b.Command(b.ctx, skerry.RunCommandID); err != nil {
			t.Errorf("the first one is gone: %v", err)
		}
	})

	t.Run("retention keeps it readable", func(t *testing.T) {
		rs := spec(bash("echo kept; exit 4"))
		rs.Sandbox.Retention = time.Minute
		s.cleanup(t, nil, rs.Sandbox.Ref)
		ctx := s.context(t)
		if r := skerry.Run(ctx, s.Backend, rs); r.Outcome != skerry.Exited {
			t.Fatalf("result %+v", r)
		}
		sandbox, err := s.Open(ctx, rs.Sandbox.Ref)
		if err != nil {
			t.Fatal(err)
		}
		defer sandbox.Close()
		c, err := sandbox.Command(ctx, skerry.RunCommandID)
		if err != nil {
			t.Fatal(err)
		}
		b := &box{Sandbox: sandbox, t: t, ctx: ctx, suite: s, ref: rs.Sandbox.Ref}
		if d := b.finish(c, "the kept run").want(4); d.out != "kept\n" {
			t.Errorf("stdout %q", d.out)
		}
	})

	t.Run("many in a row are all whole", func(t *testing.T) { // B049, B055
		for i := range 20 {
			if r := run(t, spec(argv("printf", "x"+itoa(i)))); r.Stdout != "x"+itoa(i) || r.Outcome != skerry.Exited {
				t.Errorf("result %+v", r)
			}
		}
	})
}

// wantGone checks that a run left no sandbox.
func (s *suite) wantGone(t *testing.T, ref skerry.Ref) {
	t.Helper()
	infos, err := s.List(s.context(t), skerry.Filter{Kind: ref.Kind, Org: ref.Org})
	if err != nil {
		t.Fatal(err)
	}
	for _, info := range infos {
		if info.Ref == ref {
			t.Errorf("the sandbox of %q is still there", ref.Name)
		}
	}
}

func input(path, text string) skerry.Input {
	return skerry.Input{Path: path, Size: int64(len(text)), Open: func() (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(text)), nil
	}}
}
