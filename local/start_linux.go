package local

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/skerry-run/skerry"
	"github.com/skerry-run/skerry/internal/attach"
	"github.com/skerry-run/skerry/internal/boxes"
)

// supervisor is a process that this one started.
type supervisor struct {
	process  *os.Process
	lifeline *os.File   // its end ends the sandbox; nil once the sandbox is independent
	reading  sync.Mutex // of replies, once the sandbox is made
	replies  *bufio.Reader
	replyEnd *os.File // its end is the end of the sandbox, before that of the process; nil once the sandbox is independent
}

// start runs a supervisor and attaches to the init that it brings up. When it
// fails, or ctx ends, nothing is left.
func (b *Backend) start(ctx context.Context, spec skerry.SandboxSpec, record boxes.Record) (_ skerry.Sandbox, err error) {
	began := time.Now()
	sup, err := b.spawn(spec, record)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			sup.replyEnd.Close()
			sup.abandon()
		}
	}()
	stop := context.AfterFunc(ctx, func() { sup.replyEnd.SetReadDeadline(time.Now()) })
	defer stop()
	made, err := sup.read()
	if err != nil {
		return nil, startError(ctx, err)
	}
	if made == nil {
		return nil, startError(ctx, errors.New("the supervisor ended without a word"))
	}
	sandbox, err := b.attachNew(ctx, sup, *made, time.Since(began))
	if err != nil {
		return nil, startError(ctx, err)
	}
	if record.Ref.Kind == skerry.SessionKind || spec.Detached {
		if err := sup.letGo(); err != nil {
			sandbox.Close()
			return nil, startError(ctx, err)
		}
		sup.replyEnd.Close()
		sup.replyEnd = nil
	}
	b.mu.Lock()
	b.children[record.Key+record.SandboxUID] = sup
	b.mu.Unlock()
	return sandbox, nil
}

// startError gives an error its kind when it has none, and says which limit
// passed when one did. Nothing ran.
func startError(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); errors.Is(cause, errStartTimeout) {
		return skerry.Errorf(skerry.Unavailable, opCreate, "the sandbox did not start in time: %w", err).
			WithHint("skerry doctor checks what sandboxes need").WithOutcome(skerry.StartFailed)
	} else if cause != nil {
		return skerry.Errorf(skerry.Unavailable, opCreate, "%w", cause).WithOutcome(skerry.StartFailed)
	}
	if e, ok := errors.AsType[*skerry.Error](err); ok && e.Outcome != "" {
		return err
	}
	return skerry.Errorf(skerry.KindOf(err), opCreate, "%w", err).WithHint("%s", skerry.HintOf(err)).WithOutcome(skerry.StartFailed)
}

// spawn starts the supervisor's process. It inherits four descriptors and
// nothing else: no environment, no terminal, no working directory.
func (b *Backend) spawn(spec skerry.SandboxSpec, record boxes.Record) (*supervisor, error) {
	fail := func(err error) (*supervisor, error) {
		return nil, skerry.Errorf(skerry.Internal, opCreate, "%w", err).WithOutcome(skerry.StartFailed)
	}
	filter, err := b.seccomp()
	if err != nil {
		return fail(err)
	}
	initCopy, err := b.dirs.InitCopy(b.config.Init)
	if err != nil {
		return fail(err)
	}
	order, err := json.Marshal(boxes.Order{Dirs: b.dirs, Record: record, Bwrap: b.config.Bwrap, Init: initCopy, Env: spec.Env, Latest: record.Created.Add(b.config.MaxTTL)})
	if err != nil {
		return fail(err)
	}
	var opened []*os.File
	closeAll := func() {
		for _, f := range opened {
			f.Close()
		}
	}
	defer func() { closeAll() }()
	inMemory := func(name string, data []byte) (*os.File, error) {
		fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
		if err != nil {
			return nil, fmt.Errorf("make memfd: %w", err)
		}
		f := os.NewFile(uintptr(fd), name)
		opened = append(opened, f)
		_, err = f.WriteAt(data, 0)
		return f, err
	}
	orderFile, err := inMemory("order", order)
	if err != nil {
		return fail(err)
	}
	filterFile, err := inMemory("seccomp", filter)
	if err != nil {
		return fail(err)
	}
	replyR, replyW, err := os.Pipe()
	if err != nil {
		return fail(err)
	}
	opened = append(opened, replyW)
	lifeR, lifeW, err := os.Pipe()
	if err != nil {
		replyR.Close()
		return fail(err)
	}
	opened = append(opened, lifeR)
	cmd := exec.Command(b.config.Init, "supervise")
	cmd.Env = []string{}
	cmd.Dir = "/"
	cmd.ExtraFiles = []*os.File{orderFile, replyW, filterFile, lifeR} // boxes.OrderFD and on
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		replyR.Close()
		lifeW.Close()
		return fail(fmt.Errorf("start %s: %w", b.config.Init, err))
	}
	return &supervisor{process: cmd.Process, lifeline: lifeW, replies: bufio.NewReader(io.LimitReader(replyR, 4*boxes.MaxReply)), replyEnd: replyR}, nil
}

// read gives the next reply: a record, or the error that it tells of; nil and
// nil when there is no more.
func (s *supervisor) read() (*boxes.Record, error) {
	line, err := s.replies.ReadBytes('\n')
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var m boxes.Reply
	if err := json.Unmarshal(line, &m); err != nil {
		return nil, fmt.Errorf("reply of the supervisor: %w", err)
	}
	if e := m.Error; e != nil {
		out := skerry.Errorf(skerry.Kind(e.Kind), "", "%s", e.Text).WithOutcome(skerry.Outcome(e.Outcome))
		out.Hint = e.Hint
		return nil, out
	}
	return m.Record, nil
}

// attachNew attaches to an init that is coming up. If the supervisor tells of
// a failure instead, that is the error.
func (b *Backend) attachNew(ctx context.Context, sup *supervisor, record boxes.Record, provision time.Duration) (*sandbox, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	told := make(chan error, 1)
	go func() {
		_, err := sup.read()
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			cancel(err)
		}
		told <- err
	}()
	began := time.Now()
	s, err := b.attach(ctx, record)
	patience := time.Now() // ends the watch
	if err != nil && ctx.Err() == nil {
		// The supervisor knows better why there is no init, and is about to
		// say so.
		patience = patience.Add(lastWords)
	}
	sup.replyEnd.SetReadDeadline(patience)
	if word := <-told; word != nil && !errors.Is(word, os.ErrDeadlineExceeded) {
		if err == nil {
			s.Close()
		}
		return nil, word
	}
	if err != nil {
		return nil, err
	}
	s.phases = map[string]time.Duration{"provision": provision, "attach": time.Since(began)}
	return s, nil
}

// lastWords is how long a supervisor may take to say why its sandbox failed:
// it removes everything first.
const lastWords = 15 * time.Second

// letGo makes the sandbox independent of this process.
func (s *supervisor) letGo() error {
	_, err := s.lifeline.Write([]byte{boxes.KeepByte})
	s.lifeline.Close()
	s.lifeline = nil
	return err
}

// removed waits until the supervisor has removed everything. Its own end, which
// takes as long again, is not waited for.
func (s *supervisor) removed(ctx context.Context) error {
	s.reading.Lock()
	defer s.reading.Unlock()
	s.replyEnd.SetReadDeadline(time.Now().Add(deleteLimit))
	stop := context.AfterFunc(ctx, func() { s.replyEnd.SetReadDeadline(time.Now()) })
	defer stop()
	_, err := io.Copy(io.Discard, s.replies)
	switch {
	case errors.Is(err, os.ErrClosed): // it was reaped meanwhile
		return nil
	case err != nil && ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return fmt.Errorf("it has not ended within %v: %w", deleteLimit, err)
	}
	return nil
}

// abandon ends a sandbox that is not wanted and waits until it is gone.
func (s *supervisor) abandon() {
	if s.lifeline != nil {
		s.lifeline.Close()
	}
	_ = s.process.Signal(unix.SIGTERM) // when it was let go already
	if fd, err := unix.PidfdOpen(s.process.Pid, 0); err == nil {
		if !boxes.WaitPidfd(fd, deleteLimit) {
			_ = s.process.Kill() // what it leaves is swept at the next start
		}
		unix.Close(fd)
	}
	_, _ = s.process.Wait()
}

// reap forgets supervisors of this process that have ended. Nobody waits for
// them in the background, so that a Backend needs no Close.
func (b *Backend) reap() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for key, s := range b.children {
		var status unix.WaitStatus
		pid, err := unix.Wait4(s.process.Pid, &status, unix.WNOHANG, nil)
		if err == nil && pid == 0 {
			continue
		}
		_ = s.process.Release()
		if s.lifeline != nil {
			s.lifeline.Close()
		}
		if s.replyEnd != nil {
			s.replyEnd.Close()
		}
		delete(b.children, key)
	}
}

// attach makes a handle of a live sandbox.
func (b *Backend) attach(ctx context.Context, r boxes.Record) (*sandbox, error) {
	a, err := attach.New(ctx, attach.Config{
		Dial:       func(ctx context.Context) (net.Conn, error) { return dial(ctx, b.dirs.Socket(r.Key)) },
		SandboxUID: r.SandboxUID,
		Info:       r.Info(),
		Lost: func(context.Context) error {
			_, err := b.find("reach sandbox", r.Ref)
			return b.diedOfMemory(r, err)
		},
	})
	if err != nil {
		return nil, err
	}
	return &sandbox{Sandbox: a, backend: b, supervisor: r.Supervisor, anew: b.madeAnew(r)}, nil
}

// dial reaches a socket whose path may be longer than a socket's address.
func dial(ctx context.Context, path string) (net.Conn, error) {
	dir, err := unix.Open(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(dir)
	var d net.Dialer
	return d.DialContext(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d/%s", dir, filepath.Base(path)))
}

// sandbox keeps the backend's ceiling, and tells how long Create took.
type sandbox struct {
	*attach.Sandbox
	backend    *Backend
	supervisor boxes.Process
	phases     map[string]time.Duration
	anew       *madeAnew
}

// missingHint is for a program that is not there: a local sandbox has no image.
const missingHint = "install it on this machine, whose programs local sandboxes run, or check the PATH"

// Info adds what Create took.
func (s *sandbox) Info() skerry.SandboxInfo {
	i := s.Sandbox.Info()
	i.Phases = s.phases
	i.Recreated = s.anew.untold()
	i.Cold = s.phases != nil // made by this handle
	return i
}

// Start also settles whether this is the command that tells that the session
// was made anew.
func (s *sandbox) Start(ctx context.Context, spec skerry.CommandSpec) (skerry.Command, error) {
	if spec.Missing == "" && len(spec.Argv) > 0 {
		spec.Missing = missingHint
	}
	c, err := s.Sandbox.Start(ctx, spec)
	if err == nil {
		s.anew.started()
	}
	return c, err
}

// Extend refuses what is above the backend's ceiling, which counts from the
// sandbox's creation. That is when its supervisor started: the time of day in
// the record is no measure once the machine's clock has been set.
func (s *sandbox) Extend(ctx context.Context, ttl time.Duration) error {
	if err := s.backend.checkTTL("extend sandbox", s.supervisor.Age()+ttl); err != nil {
		return err
	}
	return s.Sandbox.Extend(ctx, ttl)
}
