package skerry

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"mime"
	"net/http"
	"path"
	"strings"
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
// A run that exists already, with the same id and the same command, is followed
// from its beginning instead of being run again.
func Run(ctx context.Context, b Backend, spec RunSpec) Result {
	r := newRunner(b, spec)
	r.finish(ctx, r.run(ctx, b))
	return r.result
}

func newRunner(b Backend, spec RunSpec) *runner {
	spec.Sandbox.Kind = RunKind
	spec.Command.ID = RunCommandID
	if spec.Command.Timeout == 0 {
		spec.Command.Timeout = DefaultRunTimeout
	}
	if spec.Command.Grace == 0 {
		spec.Command.Grace = DefaultKillGrace
	}
	if spec.Sandbox.TTL == 0 {
		spec.Sandbox.TTL = spec.Command.Timeout + spec.Command.Grace + spec.Sandbox.Retention + DefaultStartTimeout
	}
	if spec.Stdin != nil {
		spec.Command.Stdin = StdinStream
	}
	r := &runner{spec: spec, began: time.Now(), result: Result{
		ID: spec.Sandbox.Name, Org: spec.Sandbox.OrgOrDefault(), Backend: b.Name(), Language: spec.Language,
		Phases: map[string]int64{}, Cold: true, Files: []Artifact{}, Warnings: []string{},
	}}
	r.out, r.err = NewTail(spec.InlineBytes), NewTail(spec.InlineBytes)
	return r
}

// finish fills in what err decides, and the output.
func (r *runner) finish(ctx context.Context, err error) {
	if err != nil {
		r.result.SetError(err)
		if ctx.Err() != nil && (r.result.Outcome == Lost || errors.Is(err, ctx.Err())) {
			r.result.Outcome, r.result.Reason = Cancelled, "stopped by the caller"
		}
	}
	r.result.Stdout, r.result.StdoutEncoding, r.result.Truncated.StdoutOmittedBytes = r.out.Text()
	r.result.Stderr, r.result.StderrEncoding, r.result.Truncated.StderrOmittedBytes = r.err.Text()
}

type runner struct {
	spec     RunSpec
	began    time.Time
	result   Result
	out, err *Tail
}

func (r *runner) phase(name string, since time.Time) {
	r.result.Phases[name+"_ms"] = milliseconds(time.Since(since))
}

// provision validates the run and makes its sandbox, or opens the one that the
// same run has already (attached).
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
	sandbox, err = b.Create(ctx, r.spec.Sandbox)
	if KindOf(err) == Conflict {
		sandbox, err = b.Open(ctx, r.spec.Sandbox.Ref)
		attached = err == nil
	} else if err != nil {
		err = neverStarted(ctx, err)
	}
	return sandbox, attached, err
}

func (r *runner) run(ctx context.Context, b Backend) (err error) {
	sandbox, attached, err := r.provision(ctx, b)
	if err != nil {
		return err
	}
	defer func() {
		t := time.Now()
		if e := r.cleanup(ctx, b, sandbox, attached && KindOf(err) == Conflict); e != nil && err == nil {
			r.result.Warnings = append(r.result.Warnings, fmt.Sprintf("the sandbox could not be removed: %v", e))
		}
		r.phase("cleanup", t)
	}()
	info := sandbox.Info()
	for name, d := range info.Phases {
		r.result.Phases[name+"_ms"] = milliseconds(d)
	}
	r.result.Warnings = append(r.result.Warnings, info.Warnings...)
	if !attached {
		if err := r.upload(ctx, sandbox.Files()); err != nil {
			return err
		}
	}
	t := time.Now()
	command, err := sandbox.Start(ctx, r.spec.Command)
	if err != nil {
		return err
	}
	exit, err := r.follow(ctx, command)
	r.phase("run", t)
	if err != nil {
		return err
	}
	r.result.setExit(exit)
	if ctx.Err() != nil {
		return nil // the caller has gone; nobody waits for artifacts
	}
	t = time.Now()
	err = r.collect(ctx, sandbox.Files())
	r.phase("collect", t)
	if err != nil {
		// The program's end is known; artifacts that could not be fetched do
		// not change it.
		r.result.Warnings = append(r.result.Warnings, fmt.Sprintf("artifacts are missing: %v", err))
	}
	return nil
}

// cleanup removes the sandbox even when the caller has gone: an abandoned
// program would keep its memory until someone notices.
func (r *runner) cleanup(ctx context.Context, b Backend, s Sandbox, foreign bool) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupGrace)
	defer cancel()
	closeErr := s.Close()
	if foreign || r.spec.Sandbox.Retention > 0 {
		return closeErr
	}
	if err := b.Delete(ctx, r.spec.Sandbox.Ref, DeleteOptions{}); err != nil && KindOf(err) != NotFound {
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
	_, err = files.Write(ctx, in.Path, io.LimitReader(src, in.Size), WriteOptions{Mode: in.Mode})
	return err
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
		exit.Outcome, exit.Reason = Timeout, fmt.Sprintf("outer limit of %v: the sandbox did not keep its own limit", limit)
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

func (r *runner) collect(ctx context.Context, files Files) error {
	one, all := r.spec.ArtifactBytes, r.spec.ArtifactsBytes
	if one == 0 {
		one = DefaultArtifactBytes
	}
	if all == 0 {
		all = DefaultArtifactsBytes
	}
	entries, err := files.List(ctx, OutputDir, ListOptions{Recursive: true, Limit: MaxArtifactCount})
	if KindOf(err) == NotFound {
		return nil
	}
	if err != nil {
		return err
	}
	var total int64
	for _, e := range entries {
		name := path.Join(OutputDir, e.Path)
		switch {
		case e.Type == Directory:
			continue
		case e.Type != RegularFile:
			r.warn("%s was left out: it is a %s, only regular files are artifacts", name, e.Type)
			continue
		case e.Size > one:
			r.warn("%s was left out: %d bytes, an artifact may have %d", name, e.Size, one)
			continue
		case total+e.Size > all:
			r.warn("%s was left out: the artifacts may have %d bytes in all", name, all)
			continue
		}
		a, err := r.fetch(ctx, files, name, e.Size)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		total += a.Size
		r.result.Files = append(r.result.Files, a)
	}
	return nil
}

// fetch reads one artifact; limit is the size it had when it was listed, more
// than that is not read.
func (r *runner) fetch(ctx context.Context, files Files, name string, limit int64) (a Artifact, err error) {
	a = Artifact{Path: name, Size: limit}
	sum := &sniffer{hash: sha256.New()}
	var w io.Writer = sum
	if r.spec.Artifact != nil {
		dst, err := r.spec.Artifact(a)
		if err != nil {
			return a, err
		}
		defer func() {
			if e := dst.Close(); err == nil {
				err = e
			}
		}()
		w = io.MultiWriter(sum, dst)
	}
	if _, err := files.Read(ctx, name, 0, limit, w); err != nil {
		return a, err
	}
	a.Size, a.SHA256, a.MIME = sum.size, hex.EncodeToString(sum.hash.Sum(nil)), mimeType(name, sum.start)
	return a, nil
}

func (r *runner) warn(format string, args ...any) {
	const most = 100
	if len(r.result.Warnings) < most {
		r.result.Warnings = append(r.result.Warnings, fmt.Sprintf(format, args...))
	}
}

// sniffer hashes and counts, and keeps the start for the MIME type.
type sniffer struct {
	hash  hash.Hash
	size  int64
	start []byte
}

func (s *sniffer) Write(p []byte) (int, error) {
	const enough = 512 // http.DetectContentType looks at no more
	if room := enough - len(s.start); room > 0 {
		s.start = append(s.start, p[:min(room, len(p))]...)
	}
	s.size += int64(len(p))
	return s.hash.Write(p)
}

func mimeType(name string, start []byte) string {
	if t := mime.TypeByExtension(strings.ToLower(path.Ext(name))); t != "" {
		return t
	}
	return http.DetectContentType(start)
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

func notStarted(err error) error {
	return &Error{Kind: KindOf(err), Err: err, Outcome: StartFailed, Hint: HintOf(err)}
}
