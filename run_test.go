package skerry_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skerry-run/skerry"
)

// faulty is a fake backend: it has the faults that no real one can be made to
// have on demand. Its embedded interfaces are nil; a call that a test does not
// expect panics.
type faulty struct {
	skerry.Backend
	create    error
	start     error
	output    error // what Output returns once its chunk was delivered; nil waits for the end
	neverEnds bool
	deleteErr error

	deleted, cancelled int
}

type faultySandbox struct {
	skerry.Sandbox
	b *faulty
}

type faultyCommand struct {
	skerry.Command
	b *faulty
}

type noFiles struct{ skerry.Files }

func (b *faulty) Name() string { return "faulty" }
func (b *faulty) Create(ctx context.Context, _ skerry.SandboxSpec) (skerry.Sandbox, error) {
	if b.create != nil {
		return nil, b.create
	}
	return &faultySandbox{b: b}, ctx.Err()
}
func (b *faulty) Delete(context.Context, skerry.Ref, skerry.DeleteOptions) error {
	b.deleted++
	return b.deleteErr
}
func (s *faultySandbox) Info() skerry.SandboxInfo { return skerry.SandboxInfo{} }
func (s *faultySandbox) Close() error             { return nil }
func (s *faultySandbox) Files() skerry.Files      { return noFiles{} }
func (s *faultySandbox) Start(context.Context, skerry.CommandSpec) (skerry.Command, error) {
	if s.b.start != nil {
		return nil, s.b.start
	}
	return &faultyCommand{b: s.b}, nil
}
func (c *faultyCommand) Output(ctx context.Context, _ skerry.Offsets, fn func(skerry.Chunk) error) error {
	if err := fn(skerry.Chunk{Stream: skerry.Stdout, Data: []byte("begun\n")}); err != nil {
		return err
	}
	if c.b.neverEnds {
		<-ctx.Done()
		return ctx.Err()
	}
	return c.b.output
}
func (c *faultyCommand) Cancel(context.Context, string) error {
	c.b.cancelled++
	return nil
}
func (c *faultyCommand) Wait(context.Context) (skerry.Exit, error) {
	if c.b.cancelled > 0 {
		return skerry.Exit{Outcome: skerry.Cancelled, Reason: "stopped"}, nil
	}
	return skerry.Exit{Outcome: skerry.Exited, ExitCode: new(0)}, nil
}
func (noFiles) List(context.Context, string, skerry.ListOptions) ([]skerry.FileInfo, error) {
	return nil, skerry.Errorf(skerry.NotFound, "list", "nothing there")
}

func spec() skerry.RunSpec {
	return skerry.RunSpec{
		Sandbox: skerry.SandboxSpec{Ref: skerry.Ref{Name: "r1"}},
		Command: skerry.CommandSpec{Argv: []string{"true"}, Timeout: time.Minute},
	}
}

func TestWhatKeepsARunFromStartingIsItsOutcome(t *testing.T) {
	for name, tt := range map[string]struct {
		b    faulty
		want skerry.Outcome
	}{
		"refused by policy":   {faulty{create: skerry.Errorf(skerry.Denied, "create", "no").WithOutcome(skerry.Refused)}, skerry.Refused},
		"no such image":       {faulty{create: skerry.Errorf(skerry.Invalid, "create", "no").WithOutcome(skerry.StartFailed)}, skerry.StartFailed},
		"no interpreter":      {faulty{start: skerry.Errorf(skerry.Invalid, "start", "no").WithOutcome(skerry.StartFailed)}, skerry.StartFailed},
		"a bad request":       {faulty{create: skerry.Errorf(skerry.Invalid, "create", "no")}, skerry.Refused},
		"a broken backend":    {faulty{create: errors.New("what was that")}, skerry.StartFailed},
		"a start unanswered":  {faulty{start: skerry.Errorf(skerry.Unavailable, "start", "no answer")}, skerry.Lost},
		"a stream that broke": {faulty{output: errors.New("broken pipe")}, skerry.Lost},
	} {
		r := skerry.Run(t.Context(), &tt.b, spec())
		if r.Outcome != tt.want || r.ExitCode != nil || r.Reason == "" {
			t.Errorf("%s: outcome %s, exit code %v, reason %q; want %s, no code, a reason", name, r.Outcome, r.ExitCode, r.Reason, tt.want)
		}
		if made := tt.b.create == nil; made && tt.b.deleted != 1 {
			t.Errorf("%s: Delete was called %d times, want once", name, tt.b.deleted)
		}
	}
}

func TestASandboxThatKeepsNoLimitIsEndedFromOutside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &faulty{neverEnds: true}
		began := time.Now()
		r := skerry.Run(t.Context(), b, spec())
		if r.Outcome != skerry.Timeout || !strings.Contains(r.Reason, "outer limit") {
			t.Errorf("outcome %s, reason %q; want timeout by the outer limit", r.Outcome, r.Reason)
		}
		if r.Stdout != "begun\n" {
			t.Errorf("stdout %q, want what came before the limit", r.Stdout)
		}
		if took := time.Since(began); took < time.Minute || took > 90*time.Second {
			t.Errorf("ended after %v, want after the limit of 1m and a margin", took)
		}
	})
}

func TestACallerWhoLeavesCancelsTheRun(t *testing.T) {
	b := &faulty{neverEnds: true}
	ctx, cancel := context.WithCancel(t.Context())
	s := spec()
	s.Output = func(skerry.Chunk) error { cancel(); return nil }
	r := skerry.Run(ctx, b, s)
	if r.Outcome != skerry.Cancelled || b.cancelled != 1 || b.deleted != 1 {
		t.Errorf("outcome %s, %d cancels, %d deletes; want cancelled, 1, 1", r.Outcome, b.cancelled, b.deleted)
	}
}

func TestAReaderThatFailsCancelsTheRun(t *testing.T) {
	b := &faulty{}
	s := spec()
	s.Output = func(skerry.Chunk) error { return io.ErrClosedPipe }
	r := skerry.Run(t.Context(), b, s)
	if r.Outcome != skerry.Cancelled || b.cancelled != 1 {
		t.Errorf("outcome %s (%s), %d cancels; want cancelled, 1", r.Outcome, r.Reason, b.cancelled)
	}
}

func TestASandboxThatCanNotBeRemovedIsAWarning(t *testing.T) {
	b := &faulty{deleteErr: errors.New("disk on fire")}
	r := skerry.Run(t.Context(), b, spec())
	if r.Outcome != skerry.Exited || len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "disk on fire") {
		t.Errorf("outcome %s, warnings %q; want exited and one warning that names the cause", r.Outcome, r.Warnings)
	}
}

func TestTwoInputsAtOnePlaceAreRefusedBeforeAnythingIsMade(t *testing.T) {
	b := &faulty{create: errors.New("must not be called")}
	s := spec()
	s.Inputs = []skerry.Input{{Path: "a/x.txt"}, {Path: "a/./x.txt"}}
	if r := skerry.Run(t.Context(), b, s); r.Outcome != skerry.Refused {
		t.Errorf("outcome %s (%s), want refused", r.Outcome, r.Reason)
	}
}

// filesOf is a sandbox's files: writing reads everything, and output/a is
// shorter than the listing says.
type filesOf struct{ skerry.Files }

func (filesOf) Write(_ context.Context, _ string, r io.Reader, _ skerry.WriteOptions) (skerry.FileInfo, error) {
	_, err := io.Copy(io.Discard, r)
	return skerry.FileInfo{}, err
}
func (filesOf) List(context.Context, string, skerry.ListOptions) ([]skerry.FileInfo, error) {
	return []skerry.FileInfo{{Path: "a", Type: skerry.RegularFile, Size: 5}, {Path: "b", Type: skerry.RegularFile, Size: 3}}, nil
}
func (filesOf) Read(_ context.Context, _ string, _, _ int64, w io.Writer) (skerry.FileInfo, error) {
	_, err := io.WriteString(w, "abc")
	return skerry.FileInfo{}, err
}

type withFiles struct{ *faulty }

func (b withFiles) Create(ctx context.Context, s skerry.SandboxSpec) (skerry.Sandbox, error) {
	sandbox, err := b.faulty.Create(ctx, s)
	return sandboxWithFiles{sandbox}, err
}

type sandboxWithFiles struct{ skerry.Sandbox }

func (sandboxWithFiles) Files() skerry.Files { return filesOf{} }

func TestAnInputThatShrinksWhileItIsSentIsAnError(t *testing.T) {
	s := spec()
	s.Inputs = []skerry.Input{{Path: "a", Size: 4, Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("abc")), nil }}}
	r := skerry.Run(t.Context(), withFiles{&faulty{}}, s)
	if r.Outcome != skerry.Refused || !strings.Contains(r.Reason, "3 of 4 bytes") || r.Hint == "" {
		t.Errorf("outcome %s (%s, hint %q), want refused with the counts and a hint", r.Outcome, r.Reason, r.Hint)
	}
}

func TestAnArtifactThatShrinksWhileItIsReadIsLeftOutWithAWarning(t *testing.T) {
	r := skerry.Run(t.Context(), withFiles{&faulty{}}, spec())
	if len(r.Files) != 1 || r.Files[0].Path != "output/b" || len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "output/a was left out: it changed while it was read: 3 of 5 bytes") {
		t.Errorf("files %v, warnings %q; want output/b and a warning about output/a", r.Files, r.Warnings)
	}
}

func TestPhasesOfARunAreToldAsTheyBegin(t *testing.T) {
	s := spec()
	var phases []string
	s.Sandbox.Progress = func(e skerry.Event) { phases = append(phases, e.Phase) }
	s.Inputs = []skerry.Input{{Path: "a", Size: 3, Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("abc")), nil }}}
	skerry.Run(t.Context(), withFiles{&faulty{}}, s)
	if got := strings.Join(phases, " "); got != "upload run collect cleanup" {
		t.Errorf("told %q", got)
	}
}
