package attach

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skerry-run/skerry"
	pb "github.com/skerry-run/skerry/internal/initproto"
)

// command is a handle to one program.
type command struct {
	sandbox  *Sandbox
	id       string
	earliest time.Time // it can't have started before, by our own clock; zero when not known

	stdinTaken atomic.Bool

	mu   sync.Mutex
	exit *skerry.Exit // once known
}

var _ skerry.Command = (*command)(nil)

func startRequest(spec skerry.CommandSpec) *pb.StartRequest {
	r := &pb.StartRequest{
		Id: spec.ID, Script: []byte(spec.Script), Dir: []byte(spec.Dir),
		Stdin: spec.Stdin == skerry.StdinStream, Merge: spec.Merge,
		TimeoutMs: milliseconds(spec.Timeout), GraceMs: milliseconds(spec.Grace),
		Background: spec.Background, Missing: strings.ToValidUTF8(spec.Missing, "\uFFFD"),
	}
	for _, a := range spec.Argv {
		r.Argv = append(r.Argv, []byte(a))
	}
	for k, v := range spec.Env {
		r.Env = append(r.Env, []byte(k+"="+v))
	}
	slices.SortFunc(r.Env, slices.Compare)
	if spec.TTY != nil {
		r.Tty = terminalSize(*spec.TTY)
	}
	for _, f := range spec.Files {
		r.Files = append(r.Files, &pb.StartFile{Path: []byte(f.Path), Data: f.Data, Mode: f.Mode})
	}
	return r
}

func terminalSize(s skerry.TerminalSize) *pb.TerminalSize {
	return &pb.TerminalSize{Cols: uint32(s.Cols), Rows: uint32(s.Rows)}
}

// milliseconds rounds up: 0 means no limit and must not come of a short one.
func milliseconds(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

// learn checks what the init says of c, and keeps its end.
func (c *command) learn(op string, reply *pb.CommandInfo) (skerry.CommandInfo, error) {
	info, err := commandInfo(op, reply, c.earliest)
	if err != nil {
		return info, err
	}
	if info.ID != c.id {
		return info, violation(op, "it was asked for one command and answered for another")
	}
	if info.Exit != nil {
		return info, c.ended(op, *info.Exit)
	}
	return info, nil
}

// ended keeps how c ended. A command ends once: another end is a violation.
func (c *command) ended(op string, e skerry.Exit) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.exit == nil {
		c.exit = &e
		return nil
	}
	if !sameEnd(*c.exit, e) {
		return violation(op, "the command ended as %s, now it is said to have ended as %s", c.exit.Outcome, e.Outcome)
	}
	return nil
}

// known gives c's end, when it is known.
func (c *command) known() (skerry.Exit, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.exit == nil {
		return skerry.Exit{}, false
	}
	e := *c.exit
	if e.ExitCode != nil {
		e.ExitCode = new(*e.ExitCode) // the caller's to change
	}
	e.Notices = slices.Clone(e.Notices)
	return e, true
}

// ID is the id that the caller chose.
func (c *command) ID() string { return c.id }

// Wait returns when the program has ended.
func (c *command) Wait(ctx context.Context) (skerry.Exit, error) {
	const op = "wait for command"
	return c.end(ctx, op, func(ctx context.Context, l *link) (*pb.Exit, error) {
		return l.client.Wait(ctx, &pb.CommandRef{Id: c.id})
	})
}

// end gives c's end: what is known, else what ask brings.
func (c *command) end(ctx context.Context, op string, ask func(context.Context, *link) (*pb.Exit, error)) (skerry.Exit, error) {
	if e, ok := c.known(); ok {
		return e, nil
	}
	err := c.sandbox.retry(ctx, op, func(ctx context.Context, l *link) error {
		reply, err := ask(ctx, l)
		if err != nil {
			return err
		}
		e, err := exit(op, reply, c.earliest)
		if err != nil {
			return err
		}
		return c.ended(op, e)
	})
	if err != nil {
		return skerry.Exit{}, err
	}
	e, _ := c.known()
	return e, nil
}

// maxReasonSent leaves room for what clean puts in the place of bytes.
const maxReasonSent = 300

// Cancel ends the program and everything it started.
func (c *command) Cancel(ctx context.Context, reason string) error {
	const op = "cancel command"
	_, err := c.end(ctx, op, func(ctx context.Context, l *link) (*pb.Exit, error) {
		return l.client.Cancel(ctx, &pb.CancelRequest{Id: c.id, Reason: clean(reason, maxReasonSent)})
	})
	return err
}

// Signal sends a signal. It is not sent again when the stream broke, because
// it might arrive twice.
func (c *command) Signal(ctx context.Context, signal int, tree bool) error {
	const op = "signal command"
	if signal < 1 || signal > maxSignal {
		return skerry.Errorf(skerry.Invalid, op, "there is no signal %d", signal)
	}
	return c.sandbox.onlyOnce(ctx, op, "the signal may have been sent or not", func(ctx context.Context, l *link) error {
		_, err := l.client.Signal(ctx, &pb.SignalRequest{Id: c.id, Signal: int32(signal), Tree: tree})
		return err
	})
}

// Resize sets the size of the program's terminal.
func (c *command) Resize(ctx context.Context, size skerry.TerminalSize) error {
	const op = "resize terminal"
	return c.sandbox.retry(ctx, op, func(ctx context.Context, l *link) error {
		_, err := l.client.Resize(ctx, &pb.ResizeRequest{Id: c.id, Size: terminalSize(size)})
		return err
	})
}
