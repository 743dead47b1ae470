package attach

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/skerry-run/skerry"
	pb "github.com/skerry-run/skerry/internal/initproto"
)

// Sandbox is a handle to a sandbox at the other end of a stream. Close ends it.
type Sandbox struct {
	cfg    Config
	budget *budget

	life context.Context // ends with Close, and with it what runs between calls
	end  context.CancelFunc
	work sync.WaitGroup
	lies atomic.Int32 // answers that broke the protocol

	dialing chan struct{} // holds one token: who has it may open a stream
	// Of who holds the token:
	bootID string // of the init that was met first
	keySet bool   // the init has the key

	mu      sync.Mutex
	closed  bool
	current *link
	last    *attemptError // how the last stream, or attempt at one, ended
	dead    error         // why no stream will ever be opened again
	info    skerry.SandboxInfo
}

var _ skerry.Sandbox = (*Sandbox)(nil)

// New dials, and returns when the init has answered and proved who it is.
func New(ctx context.Context, cfg Config) (*Sandbox, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg = cfg.orDefaults()
	s := &Sandbox{
		cfg:     cfg,
		budget:  newBudget(cfg.Reconnect),
		dialing: make(chan struct{}, 1),
		info:    cfg.Info,
	}
	s.life, s.end = context.WithCancel(context.WithoutCancel(ctx))
	if _, err := s.link(ctx, "attach"); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Info tells what was known when the handle was made, with the deadline that
// Extend set.
func (s *Sandbox) Info() skerry.SandboxInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.info
}

// Start starts a command or attaches to the one that has its id.
func (s *Sandbox) Start(ctx context.Context, spec skerry.CommandSpec) (skerry.Command, error) {
	const op = "start command"
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	c := &command{sandbox: s, id: spec.ID, earliest: time.Now()}
	request := startRequest(spec)
	if n := proto.Size(request); n > pb.MaxMessageBytes {
		return nil, skerry.Errorf(skerry.Invalid, op, "all of the command has %d bytes, at most %d", n, pb.MaxMessageBytes).
			WithHint("write large parts with Files.Write first")
	}
	var reply *pb.StartReply
	err := s.retry(ctx, op, func(ctx context.Context, l *link) (err error) {
		reply, err = l.client.Start(ctx, request)
		return err
	})
	if err != nil {
		return nil, err
	}
	if reply.Attached {
		c.earliest = time.Time{}
	}
	if _, err := c.learn(op, reply.Info); err != nil {
		return nil, s.distrust(err)
	}
	return c, nil
}

// Command finds a command again by its id.
func (s *Sandbox) Command(ctx context.Context, id string) (skerry.Command, error) {
	const op = "find command"
	if err := skerry.ValidateName("command id", id); err != nil {
		return nil, err
	}
	c := &command{sandbox: s, id: id}
	var reply *pb.CommandInfo
	err := s.retry(ctx, op, func(ctx context.Context, l *link) (err error) {
		reply, err = l.client.Command(ctx, &pb.CommandRef{Id: id})
		return err
	})
	if err != nil {
		return nil, err
	}
	if _, err := c.learn(op, reply); err != nil {
		return nil, s.distrust(err)
	}
	return c, nil
}

// Commands lists the commands that the sandbox still keeps, oldest first.
func (s *Sandbox) Commands(ctx context.Context) ([]skerry.CommandInfo, error) {
	const op = "list commands"
	var reply *pb.CommandsReply
	err := s.retry(ctx, op, func(ctx context.Context, l *link) (err error) {
		reply, err = l.client.Commands(ctx, &pb.Empty{})
		return err
	})
	if err != nil {
		return nil, err
	}
	infos := make([]skerry.CommandInfo, 0, len(reply.Commands))
	for _, c := range reply.Commands {
		info, err := commandInfo(op, c, time.Time{})
		if err != nil {
			return nil, s.distrust(err)
		}
		infos = append(infos, info)
	}
	return infos, nil
}

// Files gives the sandbox's files.
func (s *Sandbox) Files() skerry.Files { return files{s} }

// Usage reads the sandbox's counters.
func (s *Sandbox) Usage(ctx context.Context) (skerry.Usage, error) {
	const op = "read usage"
	var reply *pb.Usage
	err := s.retry(ctx, op, func(ctx context.Context, l *link) (err error) {
		reply, err = l.client.ReadUsage(ctx, &pb.Empty{})
		return err
	})
	if err != nil {
		return skerry.Usage{}, err
	}
	u, err := usage(op, reply)
	return u, s.distrust(err)
}

// remainingSlack is how much more than was asked the init may answer: it
// rounds, and so do we.
const remainingSlack = time.Second

// Extend sets the time to live from now.
func (s *Sandbox) Extend(ctx context.Context, ttl time.Duration) error {
	const op = "extend sandbox"
	if ttl <= 0 || ttl > skerry.MaxDuration {
		return skerry.Errorf(skerry.Invalid, op, "time to live of %v is not between 0 and %v", ttl, skerry.MaxDuration)
	}
	var reply *pb.ExtendReply
	err := s.retry(ctx, op, func(ctx context.Context, l *link) (err error) {
		reply, err = l.client.Extend(ctx, &pb.ExtendRequest{TtlMs: milliseconds(ttl)})
		return err
	})
	if err != nil {
		return err
	}
	if reply.RemainingMs < 0 || reply.RemainingMs > milliseconds(ttl+remainingSlack) {
		return s.distrust(violation(op, "it was asked for %v to live and answered %d ms", ttl, reply.RemainingMs))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.info.Expires = time.Now().Add(time.Duration(reply.RemainingMs) * time.Millisecond)
	return nil
}

// Drain returns when no other client is attached, or when none of them has taken
// a byte for as long as patience, which is at most skerry.MaxDuration.
func (s *Sandbox) Drain(ctx context.Context, patience time.Duration) error {
	const op = "wait for other clients"
	return s.retry(ctx, op, func(ctx context.Context, l *link) error {
		_, err := l.client.Drain(ctx, &pb.DrainRequest{PatienceMs: milliseconds(patience)})
		return err
	})
}

// Shutdown ends every command and then the init. It returns nil when the init
// said so, or when Config.Lost knows that the sandbox is gone.
func (s *Sandbox) Shutdown(ctx context.Context) error {
	const op = "shut down sandbox"
	err := s.retry(ctx, op, func(ctx context.Context, l *link) error {
		_, err := l.client.Shutdown(ctx, &pb.Empty{})
		return err
	})
	switch skerry.KindOf(err) {
	case skerry.NotFound, skerry.Expired:
		return nil
	}
	return err
}

// spawn runs f, which ends with life, in a goroutine that Close waits for. It
// says false when s was closed before.
func (s *Sandbox) spawn(f func(life context.Context)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.work.Go(func() { f(s.life) })
	return true
}

// Close detaches: it ends the streams of this handle and waits for what runs on
// its behalf. The sandbox goes on.
func (s *Sandbox) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	s.end()
	l := s.current
	s.current = nil
	s.mu.Unlock()
	if l != nil {
		l.close()
	}
	s.work.Wait()
	return nil
}
