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
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/skerry-run/skerry"
	"github.com/skerry-run/skerry/internal/attach"
	"github.com/skerry-run/skerry/internal/boxes"
	"github.com/skerry-run/skerry/internal/launch"
	"github.com/skerry-run/skerry/internal/sweep"
)

// supervisor is a process that this one started.
type supervisor struct {
	pid      int        // ours until it is reaped
	orders   *os.File   // takes its order; nil once it has one
	lifeline *os.File   // its end ends the sandbox; nil once the sandbox is independent
	reading  sync.Mutex // of replies, once the sandbox is made
	replies  *bufio.Reader
	replyEnd *os.File // its end is the end of the sandbox, before that of the process; nil once the sandbox is independent
}

// start has sup make the sandbox and attaches to the init that it brings up.
// When it fails, or ctx ends, nothing is left.
func (b *Backend) start(ctx context.Context, sup *supervisor, spec skerry.SandboxSpec, record boxes.Record) (_ skerry.Sandbox, err error) {
	began := time.Now()
	defer func() {
		if err != nil {
			sup.replyEnd.Close()
			sup.abandon()
		}
	}()
	orders := sup.orders
	stop := context.AfterFunc(ctx, func() {
		orders.SetWriteDeadline(time.Now())
		sup.replyEnd.SetReadDeadline(time.Now())
	})
	defer stop()
	if err := b.order(sup, spec, record); err != nil {
		return nil, startError(ctx, err)
	}
	// While the supervisor works:
	attach.Prepare()
	if _, err := sweep.All(b.dirs); err != nil {
		return nil, skerry.Errorf(skerry.Internal, opCreate, "clean up after dead sandboxes: %w", err).WithOutcome(skerry.StartFailed)
	}
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

// spawn starts a supervisor, which waits for its order. Without one it ends when
// this process does, or abandon is called.
func (b *Backend) spawn() (*supervisor, error) {
	p, err := launch.Take(b.config.Init)
	if err != nil {
		return nil, skerry.Errorf(skerry.Internal, opCreate, "%w", err).WithOutcome(skerry.StartFailed)
	}
	return &supervisor{
		pid: p.PID, orders: p.Orders, lifeline: p.Lifeline,
		replies: bufio.NewReader(io.LimitReader(p.Replies, 4*boxes.MaxReply)), replyEnd: p.Replies,
	}, nil
}

// order tells sup what to make.
func (b *Backend) order(sup *supervisor, spec skerry.SandboxSpec, record boxes.Record) error {
	initCopy, err := b.dirs.InitCopy(b.config.Init)
	if err != nil {
		return skerry.Errorf(skerry.Internal, opCreate, "%w", err).WithOutcome(skerry.StartFailed)
	}
	data, err := json.Marshal(boxes.Order{Dirs: b.dirs, Record: record, Bwrap: b.config.Bwrap, Init: initCopy, Env: spec.Env, Latest: record.Created.Add(b.config.MaxTTL)})
	if err != nil {
		return skerry.Errorf(skerry.Internal, opCreate, "%w", err).WithOutcome(skerry.StartFailed)
	}
	// One that has ended can't take it, and told why in its reply.
	_, err = sup.orders.Write(data)
	if e := sup.orders.Close(); err == nil {
		err = e
	}
	sup.orders = nil
	if err != nil && !errors.Is(err, unix.EPIPE) {
		return skerry.Errorf(skerry.Internal, opCreate, "tell the supervisor: %w", err).WithOutcome(skerry.StartFailed)
	}
	return nil
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
	if s.orders != nil {
		s.orders.Close()
	}
	if s.lifeline != nil {
		s.lifeline.Close()
	}
	_ = unix.Kill(s.pid, unix.SIGTERM) // when it was let go already
	if fd, err := unix.PidfdOpen(s.pid, 0); err == nil {
		if !boxes.WaitPidfd(fd, deleteLimit) {
			_ = unix.Kill(s.pid, unix.SIGKILL) // what it leaves is swept at the next start
		}
		unix.Close(fd)
	}
	_, _ = unix.Wait4(s.pid, nil, 0, nil)
}

// reap forgets supervisors of this process that have ended. Nobody waits for
// them in the background, so that a Backend needs no Close.
func (b *Backend) reap() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for key, s := range b.children {
		var status unix.WaitStatus
		pid, err := unix.Wait4(s.pid, &status, unix.WNOHANG, nil)
		if err == nil && pid == 0 {
			continue
		}
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
