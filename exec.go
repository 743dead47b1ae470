package skerry

import (
	"context"
	"io"
	"strings"
	"time"
)

// ExecSpec is what is asked of Exec.
type ExecSpec struct {
	Command CommandSpec // Timeout 0 is no limit of its own
	Stdin   io.Reader   // nil is no input; read until its end or the program's

	// Output and InlineBytes are as in RunSpec.
	Output      func(Chunk) error
	InlineBytes int
}

// Exec runs one command in a sandbox that exists, and waits for its end. It
// always gives a Result: what kept us from running it, or from knowing how it
// ended, is in Outcome, Reason and Hint. When ctx ends the command is
// cancelled; the sandbox stays.
//
// A command that exists already, with the same id and spec, is followed from
// its beginning instead of being run again.
func Exec(ctx context.Context, s Sandbox, spec ExecSpec) Result {
	spec.Command = spec.Command.OrDefaults()
	if spec.Stdin != nil {
		spec.Command.Stdin = StdinStream
	}
	info := s.Info()
	r := &runner{
		spec: RunSpec{Command: spec.Command, Stdin: spec.Stdin, Output: spec.Output, InlineBytes: spec.InlineBytes},
		result: Result{
			ID: spec.Command.ID, Org: info.OrgOrDefault(), Backend: info.Backend,
			Phases: map[string]int64{}, Files: []Artifact{}, Warnings: []string{},
		},
	}
	if info.Kind == SessionKind {
		r.result.Session = info.Name
	}
	r.result.Warnings = append(r.result.Warnings, info.Warnings...)
	r.out, r.err = NewTail(spec.InlineBytes), NewTail(spec.InlineBytes)
	r.finish(ctx, r.exec(ctx, s))
	return r.result
}

func (r *runner) exec(ctx context.Context, s Sandbox) error {
	if err := r.spec.Command.Validate(); err != nil {
		return refused(err)
	}
	t := time.Now()
	defer r.phase("run", t)
	command, err := s.Start(ctx, r.spec.Command)
	if err != nil {
		return startError(err)
	}
	// Asked after the start: the first command of a session that was made anew
	// tells of it, and no other.
	if info := s.Info(); info.Recreated {
		r.result.Recreated = true
		r.warn("lost with the session's old sandbox: %s", strings.Join(info.Lost, ", "))
	}
	exit, err := r.follow(ctx, command)
	if err != nil {
		return err
	}
	r.result.setExit(exit)
	return nil
}

// Detach makes the sandbox of a run, starts its program and returns without
// waiting for it. The sandbox lives until its TTL, or until its Retention has
// passed since the program ended, whichever comes first; with a Retention of 0,
// until its TTL or Delete. Open and Command(RunCommandID) find it again. An error has an Outcome, and leaves nothing behind.
func Detach(ctx context.Context, b Backend, spec RunSpec) (SandboxInfo, error) {
	spec.Sandbox.Detached = true
	r := newRunner(b, spec)
	var info SandboxInfo
	err := r.detach(ctx, b, &info)
	return info, err
}

func (r *runner) detach(ctx context.Context, b Backend, info *SandboxInfo) (err error) {
	if r.spec.Stdin != nil {
		return refused(Errorf(Invalid, "detach", "a run that nobody waits for can't read the caller's input").WithHint("send the input as a file of the run"))
	}
	sandbox, attached, err := r.provision(ctx, b)
	if err != nil {
		return err
	}
	*info = sandbox.Info()
	if attached {
		return sandbox.Close() // the same run is there already
	}
	defer func() {
		if err == nil {
			err = sandbox.Close()
			return
		}
		r.spec.Sandbox.Retention = 0
		_ = r.cleanup(ctx, b, sandbox) // err is the cause; the TTL ends what could not be removed
	}()
	if err := r.upload(ctx, sandbox.Files()); err != nil {
		return err
	}
	_, err = sandbox.Start(ctx, r.spec.Command)
	return startError(err)
}

// Collect fetches the artifacts of a run that Detach started. Of spec only
// Artifact, ArtifactBytes and ArtifactsBytes are used. What was left out is in
// warnings.
func Collect(ctx context.Context, s Sandbox, spec RunSpec) (artifacts []Artifact, warnings []string, err error) {
	r := &runner{spec: spec, result: Result{Files: []Artifact{}, Phases: map[string]int64{}}}
	err = r.collect(ctx, s.Files())
	return r.result.Files, r.result.Warnings, err
}

// ResultOf gives the Result of a command that has ended, with the part of its
// output that the two tails kept; a nil one kept nothing.
func ResultOf(info SandboxInfo, id string, exit Exit, stdout, stderr *Tail) Result {
	r := Result{
		ID: id, Org: info.OrgOrDefault(), Backend: info.Backend,
		Phases: map[string]int64{}, Files: []Artifact{}, Warnings: []string{},
	}
	if info.Kind == SessionKind {
		r.Session = info.Name
	}
	r.setExit(exit)
	if stdout == nil {
		stdout = NewTail(0)
	}
	if stderr == nil {
		stderr = NewTail(0)
	}
	r.Stdout, r.StdoutEncoding, r.Truncated.StdoutOmittedBytes = stdout.Text()
	r.Stderr, r.StderrEncoding, r.Truncated.StderrOmittedBytes = stderr.Text()
	return r
}
