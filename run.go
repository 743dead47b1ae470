package skerry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"time"
)

// RunCommandID is the id of the one command of a run.
const RunCommandID = "run"

// OutputDir is where a run's program leaves its artifacts, relative to the
// workspace.
const OutputDir = "output"

// RunSpec is what is asked of Run.
type RunSpec struct {
	Sandbox SandboxSpec // Kind is set by Run; Name is the run's id
	Command CommandSpec // ID is set by Run; Timeout 0 is DefaultRunTimeout

	Language string    // only reported
	Inputs   []Input   // written before the program starts
	Stdin    io.Reader // nil is no input; read until its end or the program's

	// Output, when set, gets what the program writes as it is written. It must
	// not keep chunk.Data. Its error cancels the run.
	Output func(Chunk) error
	// InlineBytes caps each stream in the Result; 0 is DefaultInlineOutputBytes.
	InlineBytes int

	// Artifact, when set, gives the place where an artifact goes, by its Path
	// and Size; Run closes it, also when fewer than Size bytes came. When nil
	// artifacts are only listed.
	Artifact func(Artifact) (io.WriteCloser, error)
	// ArtifactBytes and ArtifactsBytes bound one artifact and all of them; 0
	// is DefaultArtifactBytes and DefaultArtifactsBytes.
	ArtifactBytes, ArtifactsBytes int64
	InputsBytes                   int64 // 0 is DefaultInputsBytes
}

// Input is a file that a run starts with.
type Input struct {
	Path string // where it lands, relative to the workspace
	Mode uint32 // permission bits; 0 is 0644
	Size int64
	Open func() (io.ReadCloser, error)
}

const (
	cleanupGrace = 20 * time.Second // for what must happen although the caller has gone
	// outerMargin is how much later than the init's own limit ours comes: the
	// inner one always first, so that output and usage are kept.
	outerMargin = 10 * time.Second
)

// Run makes a fresh sandbox, runs one program in it, collects its artifacts and
// removes the sandbox. It always gives a Result: what kept us from running it,
// or from knowing how it ended, is in Outcome, Reason and Hint. When ctx ends,
// the program and the sandbox are ended too, and the outcome is Cancelled.
//
// With Sandbox.Remember a run may be asked for again: while the same request
// runs under the same id it is followed from its beginning instead of being run
// again, and only the caller that made it can end it; once it is gone its
// outcome is told for as long as it is remembered. The same id for another
// request is refused.
func Run(ctx context.Context, b Backend, spec RunSpec) Result {
	r := newRunner(b, spec)
	r.finish(ctx, r.run(ctx, b))
	return r.result
}

func newRunner(b Backend, spec RunSpec) *runner {
	spec.Sandbox.Kind = RunKind
	spec.Command = spec.Command.OrDefaults()
	spec.Command.ID = RunCommandID
	if spec.Command.Timeout == 0 {
		spec.Command.Timeout = DefaultRunTimeout
	}
	if spec.Sandbox.TTL == 0 {
		spec.Sandbox.TTL = spec.Command.Timeout + spec.Command.Grace + spec.Sandbox.Retention + DefaultStartTimeout
	}
	if spec.Stdin != nil {
		spec.Command.Stdin = StdinStream
	}
	r := &runner{spec: spec, result: Result{
		ID: spec.Sandbox.Name, Org: spec.Sandbox.OrgOrDefault(), Backend: b.Name(), Language: spec.Language,
		Phases: map[string]int64{}, Files: []Artifact{}, Warnings: []string{},
	}}
	r.out, r.err = NewTail(spec.InlineBytes), NewTail(spec.InlineBytes)
	return r
}

// finish fills in what err decides, and the output.
func (r *runner) finish(ctx context.Context, err error) {
	if err != nil {
		r.result.SetError(err)
		if ended := EndedOf(err); ended != nil {
			r.result.Hint = ""
			r.result.setExit(*ended)
			r.warn("this run had ended before, and its sandbox is gone: output and artifacts are as far as they were read")
		}
		if ctx.Err() != nil && (r.result.Outcome == Lost || errors.Is(err, ctx.Err())) {
			r.result.Outcome, r.result.Reason = Cancelled, "stopped by the caller"
		}
	}
	r.result.Stdout, r.result.StdoutEncoding, r.result.Truncated.StdoutOmittedBytes = r.out.Text()
	r.result.Stderr, r.result.StderrEncoding, r.result.Truncated.StderrOmittedBytes = r.err.Text()
}

type runner struct {
	spec     RunSpec
	result   Result
	out, err *Tail
	exit     *Exit // once it is known
	joined   bool  // the command belongs to another caller, who alone may end it
}

// tell says that a phase begins.
func (r *runner) tell(phase, message string) {
	if r.spec.Sandbox.Progress != nil {
		r.spec.Sandbox.Progress(Event{Phase: phase, Message: message})
	}
}

func (r *runner) phase(name string, since time.Time) {
	r.result.Phases[name+"_ms"] = milliseconds(time.Since(since))
}

// provision validates the run and makes its sandbox, or opens the one in which
// the same request runs already (attached).
func (r *runner) provision(ctx context.Context, b Backend) (sandbox Sandbox, attached bool, err error) {
	if err := r.spec.Sandbox.Validate(); err != nil {
		return nil, false, refused(err)
	}
	if err := r.spec.Command.Validate(); err != nil {
		return nil, false, refused(err)
	}
	if err := r.checkInputs(); err != nil {
		return nil, false, refused(err)
	}
	t := time.Now()
	defer func() { r.phase("provision", t) }()
	if r.spec.Sandbox.Remember > 0 && r.spec.Sandbox.Digest == "" {
		if r.spec.Sandbox.Digest, err = r.digest(); err != nil {
			return nil, false, refused(err)
		}
	}
	sandbox, err = b.Create(ctx, r.spec.Sandbox)
	if IsSame(err) {
		sandbox, err = b.Open(ctx, r.spec.Sandbox.Ref)
		return sandbox, err == nil, err
	}
	if err != nil {
		return nil, false, neverStarted(ctx, err)
	}
	return sandbox, false, nil
}

func (r *runner) run(ctx context.Context, b Backend) (err error) {
	sandbox, attached, err := r.provision(ctx, b)
	if err != nil {
		return err
	}
	if attached {
		defer sandbox.Close() // it belongs to the caller that made it
		err := r.join(ctx, sandbox)
		if err != nil && ctx.Err() == nil {
			if _, gone := b.Open(ctx, r.spec.Sandbox.Ref); KindOf(gone) == Expired {
				return gone // with how it ended, where that is remembered
			}
		}
		return err
	}
	defer func() {
		t := time.Now()
		r.tell("cleanup", "removing the sandbox")
		if e := r.cleanup(ctx, b, sandbox); e != nil && err == nil {
			r.warn("the sandbox could not be removed: %v", e)
		}
		r.phase("cleanup", t)
	}()
	info := sandbox.Info()
	r.result.Cold = info.Cold
	for name, d := range info.Phases {
		r.result.Phases[name+"_ms"] = milliseconds(d)
	}
	r.result.Warnings = append(r.result.Warnings, info.Warnings...)
	if err := r.upload(ctx, sandbox.Files()); err != nil {
		return err
	}
	t := time.Now()
	command, err := sandbox.Start(ctx, r.spec.Command)
	if err != nil {
		return startError(err)
	}
	r.tell("run", "running the program")
	exit, err := r.follow(ctx, command)
	r.phase("run", t)
	if err != nil {
		return err
	}
	r.end(ctx, sandbox, exit)
	return nil
}

// end records how the command ended, and fetches its artifacts.
func (r *runner) end(ctx context.Context, s Sandbox, exit Exit) {
	r.exit = &exit
	r.result.setExit(exit)
	if ctx.Err() != nil {
		return // the caller has gone; nobody waits for artifacts
	}
	t := time.Now()
	r.tell("collect", "fetching artifacts")
	if err := r.collect(ctx, s.Files()); err != nil {
		// The program's end is known; artifacts that could not be fetched do
		// not change it.
		r.warn("artifacts are missing: %v", err)
	}
	r.phase("collect", t)
}

// cleanup removes the sandbox even when the caller has gone: an abandoned
// program would keep its memory until someone notices.
func (r *runner) cleanup(ctx context.Context, b Backend, s Sandbox) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupGrace)
	defer cancel()
	closeErr := s.Close()
	if r.spec.Sandbox.Retention > 0 {
		return closeErr
	}
	if err := b.Delete(ctx, r.spec.Sandbox.Ref, DeleteOptions{Ended: r.exit}); err != nil && KindOf(err) != NotFound {
		return err
	}
	return nil
}

func (r *runner) checkInputs() error {
	limit := r.spec.InputsBytes
	if limit == 0 {
		limit = DefaultInputsBytes
	}
	var total int64
	seen := map[string]bool{}
	for _, f := range r.spec.Command.Files {
		seen[path.Clean(f.Path)] = true
	}
	for _, in := range r.spec.Inputs {
		p := path.Clean(in.Path)
		if seen[p] {
			return Errorf(Invalid, "input files", "two files would land at %q", p).WithHint("give one of them another place with -f SRC:DEST")
		}
		seen[p] = true
		if total += in.Size; total > limit {
			return Errorf(Invalid, "input files", "they have more than the %d bytes that are allowed in all", limit)
		}
	}
	return nil
}

func (r *runner) upload(ctx context.Context, files Files) error {
	if len(r.spec.Inputs) == 0 {
		return nil
	}
	r.tell("upload", "sending input files")
	t := time.Now()
	defer r.phase("upload", t)
	for _, in := range r.spec.Inputs {
		if err := r.uploadOne(ctx, files, in); err != nil {
			return neverStarted(ctx, fmt.Errorf("input %q: %w", in.Path, err))
		}
	}
	return nil
}

func (r *runner) uploadOne(ctx context.Context, files Files, in Input) error {
	src, err := in.Open()
	if err != nil {
		return Errorf(Invalid, "", "%w", err)
	}
	defer src.Close()
	limited := &io.LimitedReader{R: src, N: in.Size}
	if _, err := files.Write(ctx, in.Path, limited, WriteOptions{Mode: in.Mode}); err != nil {
		return err
	}
	if limited.N > 0 {
		return Errorf(Invalid, "", "it shrank while it was sent: %d of %d bytes came", in.Size-limited.N, in.Size).
			WithHint("send it again once nobody writes to it")
	}
	return nil
}

// follow streams the command's output until it ends, and gives its end. When
// ctx ends first it cancels the command; when our own outer limit passes, the
// sandbox has lost its sense of time, and the command is ended from outside.
func (r *runner) follow(ctx context.Context, c Command) (Exit, error) {
	limit := r.spec.Command.Timeout + r.spec.Command.Grace + outerMargin
	late := errors.New("outer limit")
	outer, cancel := ctx, context.CancelFunc(func() {})
	if r.spec.Command.Timeout > 0 {
		outer, cancel = context.WithTimeoutCause(ctx, limit, late)
	}
	defer cancel()
	if r.spec.Stdin != nil {
		stop := r.feedStdin(outer, c)
		defer stop()
	}
	err := c.Output(outer, Offsets{}, func(chunk Chunk) error {
		switch chunk.Stream {
		case Stdout:
			r.out.Add(chunk)
		case Stderr:
			r.err.Add(chunk)
		}
		if r.spec.Output != nil {
			if err := r.spec.Output(chunk); err != nil {
				return &sinkError{err}
			}
		}
		return nil
	})
	if err == nil {
		return c.Wait(outer)
	}
	reason := "stopped by the caller"
	if sink, ok := errors.AsType[*sinkError](err); ok {
		reason = fmt.Sprintf("the reader of its output failed: %v", sink.err)
	} else if outer.Err() == nil {
		return Exit{}, err
	}
	if r.joined {
		return Exit{Outcome: Cancelled, Reason: reason + "; the run goes on for the caller that made it"}, nil
	}
	ending, done := context.WithTimeout(context.WithoutCancel(ctx), cleanupGrace)
	defer done()
	if err := c.Cancel(ending, reason); err != nil {
		if ctx.Err() != nil {
			return Exit{Outcome: Cancelled, Reason: reason + "; how the program ended is not known"}, nil
		}
		return Exit{}, err
	}
	exit, err := c.Wait(ending)
	if err == nil && ctx.Err() == nil && errors.Is(context.Cause(outer), late) && exit.Outcome == Cancelled {
		exit.Outcome, exit.Limit, exit.Reason = Timeout, CommandLimit, fmt.Sprintf("outer limit of %v: the sandbox did not keep its own limit", limit)
	}
	return exit, err
}

// sinkError tells an error of the caller's Output from one of the stream.
type sinkError struct{ err error }

func (e *sinkError) Error() string { return e.err.Error() }
func (e *sinkError) Unwrap() error { return e.err }

// feedStdin copies the caller's input to the program. The copy may hang in the
// caller's reader for as long as it likes; nobody waits for it.
func (r *runner) feedStdin(ctx context.Context, c Command) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		w, err := c.Stdin(ctx)
		if err != nil {
			return // the program has ended, or Output will report the broken stream
		}
		defer w.Close()
		_, _ = io.Copy(w, r.spec.Stdin) // a program may end before it has read all of it
	}()
	return cancel
}

func (r *runner) warn(format string, args ...any) {
	const most = 100
	if len(r.result.Warnings) < most {
		r.result.Warnings = append(r.result.Warnings, fmt.Sprintf(format, args...))
	}
}

func refused(err error) error {
	return &Error{Kind: KindOf(err), Err: err, Outcome: Refused, Hint: HintOf(err)}
}

// neverStarted completes an error of Create: whatever it was, user code did not
// run, so the outcome is never Lost.
func neverStarted(ctx context.Context, err error) error {
	switch kind := KindOf(err); {
	case OutcomeOf(err) != Lost:
		return err
	case ctx.Err() != nil:
		return &Error{Kind: kind, Err: err, Outcome: Cancelled}
	case kind == Invalid || kind == Denied || kind == Busy || kind == Expired:
		return refused(err)
	}
	return notStarted(err)
}

// startError completes an error of Start. One that says by its kind that
// nothing was started is no loss; any other may have come after the start.
func startError(err error) error {
	if err != nil && OutcomeOf(err) == Lost {
		switch KindOf(err) {
		case Invalid, Denied, NotFound, Conflict, Busy, Expired:
			return refused(err)
		}
	}
	return err
}

func notStarted(err error) error {
	return &Error{Kind: KindOf(err), Err: err, Outcome: StartFailed, Hint: HintOf(err)}
}
