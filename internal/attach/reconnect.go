package attach

import (
	"context"
	"errors"
	"time"

	"github.com/skerry-run/skerry"
	pb "github.com/skerry-run/skerry/internal/initproto"
)

// errSilent is why a stream whose other end says nothing is given up.
var errSilent = errors.New("the init did not answer in time")

// maxViolations is how many answers that break the protocol a handle bears
// before it speaks to the init no more.
const maxViolations = 5

// retry calls f with a stream that stands, again after each break, until f
// succeeds, fails by the init's word, or the budget is used up. f's error is
// gRPC's, or an *ownError or *skerry.Error that ends it. f must be safe to
// repeat.
func (s *Sandbox) retry(ctx context.Context, op string, f func(context.Context, *link) error) error {
	for {
		broke, err := s.once(ctx, op, f)
		if !broke {
			return err
		}
	}
}

// once calls f with a stream that stands. broke says that the stream ended
// first, so that it is unknown what became of the call; err is set all the
// same.
func (s *Sandbox) once(ctx context.Context, op string, f func(context.Context, *link) error) (broke bool, err error) {
	l, err := s.link(ctx, op)
	if err != nil {
		return false, err
	}
	err = f(ctx, l)
	if err == nil {
		s.budget.answered()
		return false, nil
	}
	if own, ok := errors.AsType[*ownError](err); ok {
		return false, own.err
	}
	if ours, ok := errors.AsType[*skerry.Error](err); ok {
		return false, s.distrust(ours)
	}
	if fromInit(err) {
		s.budget.answered()
		return false, pb.FromStatus(op, err)
	}
	if ctx.Err() != nil {
		return false, contextError(ctx, op)
	}
	if pastDeadline(ctx, err) {
		return false, skerry.Errorf(skerry.Unavailable, op, "%w", context.DeadlineExceeded)
	}
	if garbled(err) && !l.broken() {
		return false, s.distrust(violation(op, "%v", pb.FromStatus("", err)))
	}
	s.drop(l)
	err = pb.FromStatus(op, err)
	s.note(&attemptError{err: err, dialled: true})
	return true, err
}

// distrust counts err when it is a violation, and gives it back.
func (s *Sandbox) distrust(err error) error {
	if err == nil || !isViolation(err) {
		return err
	}
	if s.lies.Add(1) < maxViolations {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead == nil {
		s.dead = skerry.Errorf(skerry.Internal, "", "%s: the init broke the protocol %d times, the last time: %w", reasonHostile, maxViolations, err).
			WithOutcome(skerry.Lost).WithHint("delete the sandbox: what it says can't be trusted")
	}
	return err
}

// drop gives up l, so that the next call opens another stream.
func (s *Sandbox) drop(l *link) {
	s.mu.Lock()
	if s.current == l {
		s.current = nil
	}
	s.mu.Unlock()
	l.close()
}

// usable gives the stream that stands, nil when there is none, or the reason
// why there will be none.
func (s *Sandbox) usable(op string) (*link, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, skerry.Errorf(skerry.Unavailable, op, "the handle to the sandbox was closed")
	case s.dead != nil:
		return nil, withOp(op, s.dead)
	case s.current != nil && s.current.broken():
		return nil, nil
	}
	return s.current, nil
}

// link gives the stream that stands, or opens one. One caller at a time dials,
// with its own context; the others wait for what it finds.
func (s *Sandbox) link(ctx context.Context, op string) (*link, error) {
	if l, err := s.usable(op); l != nil || err != nil {
		return l, err
	}
	select {
	case s.dialing <- struct{}{}:
		defer func() { <-s.dialing }()
	case <-ctx.Done():
		return nil, contextError(ctx, op)
	case <-s.life.Done():
		return s.usable(op)
	}
	for {
		if l, err := s.usable(op); l != nil || err != nil {
			return l, err
		}
		wait, ok := s.budget.take()
		if !ok {
			return nil, s.exhausted(op)
		}
		if err := s.pause(ctx, op, wait); err != nil {
			return nil, err
		}
		l, dialled, err := s.open(ctx)
		if err == nil {
			if err := s.adopt(op, l); err != nil {
				return nil, err
			}
			return l, nil
		}
		if ctx.Err() != nil {
			return nil, contextError(ctx, op)
		}
		if final(err) {
			return nil, s.condemn(op, err)
		}
		s.note(&attemptError{err: err, dialled: dialled})
		if s.cfg.Lost != nil {
			if err := s.cfg.Lost(ctx); err != nil {
				return nil, withOp(op, err)
			}
		}
	}
}

// open dials and shakes hands. dialled says that there was a stream.
func (s *Sandbox) open(ctx context.Context) (l *link, dialled bool, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.cfg.HandshakeTimeout, errSilent)
	defer cancel()
	defer context.AfterFunc(s.life, cancel)()
	c, err := s.cfg.Dial(ctx)
	if err != nil {
		return nil, false, err
	}
	l, err = newLink(c)
	if err != nil {
		return nil, true, err
	}
	if err := s.handshake(ctx, l); err != nil {
		l.close()
		return nil, true, err
	}
	return l, true, nil
}

// adopt makes l the stream of s.
func (s *Sandbox) adopt(op string, l *link) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		l.close()
		_, err := s.usable(op)
		return err
	}
	old := s.current
	s.current = l
	l.keepAlive(s.cfg.KeepaliveInterval, s.cfg.KeepaliveTimeout)
	s.mu.Unlock()
	s.bootID, s.keySet = l.bootID, true
	if old != nil {
		old.close()
	}
	return nil
}

// pause waits before an attempt.
func (s *Sandbox) pause(ctx context.Context, op string, wait time.Duration) error {
	if wait <= 0 {
		return nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return contextError(ctx, op)
	case <-s.life.Done():
		_, err := s.usable(op)
		return err
	}
}

// attemptError is how a stream, or the attempt at one, ended.
type attemptError struct {
	err     error
	dialled bool // there was a stream
}

func (s *Sandbox) note(e *attemptError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = e
}

// exhausted is the error when no attempt is left. A stream that can be opened
// but never lasts is the work of something in the sandbox.
func (s *Sandbox) exhausted(op string) error {
	s.mu.Lock()
	last := s.last
	s.mu.Unlock()
	if last != nil && last.dialled {
		return skerry.Errorf(skerry.Unavailable, op, "%s: the stream to the init was opened %d times and broke each time, the last time: %w",
			reasonHostile, s.cfg.Reconnect.Attempts, last.err).WithOutcome(skerry.Lost).
			WithHint("something in the sandbox, or on the way to it, cuts the stream; delete the sandbox and make it anew")
	}
	err := errors.New("nothing is known")
	if last != nil {
		err = last.err
	}
	return skerry.Errorf(skerry.Unavailable, op, "%s: the sandbox could not be reached %d times, the last time: %w",
		reasonUnreachable, s.cfg.Reconnect.Attempts, err).WithOutcome(skerry.Lost).
		WithHint("look whether the sandbox still exists and whether its machine can be reached, then try again")
}

// final says whether err, of open, can't be healed by another attempt: the
// init's or the backend's own word.
func final(err error) bool {
	if fromInit(err) {
		return true
	}
	e, ok := errors.AsType[*skerry.Error](err)
	return ok && e.Kind != skerry.Unavailable && e.Kind != skerry.Busy || ok && e.Outcome == skerry.Lost
}

// condemn gives the error of a call that met another init than ours. No
// further stream is opened, unless the answer was only garbled.
func (s *Sandbox) condemn(op string, err error) error {
	if isViolation(err) {
		return s.distrust(withOp(op, err))
	}
	if fromInit(err) {
		return pb.FromStatus(op, err)
	}
	if isOtherInit(err) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.dead = err
	}
	return withOp(op, err)
}

// withOp gives err with op as its operation.
func withOp(op string, err error) error {
	e, ok := err.(*skerry.Error)
	if !ok {
		return skerry.Errorf(skerry.KindOf(err), op, "%w", err)
	}
	again := *e
	again.Op = op
	return &again
}

// onlyOnce calls f with a stream that stands and never again: what f does must
// not happen twice. doubt says what is not known when the stream broke.
func (s *Sandbox) onlyOnce(ctx context.Context, op, doubt string, f func(context.Context, *link) error) error {
	broke, err := s.once(ctx, op, f)
	if broke {
		return skerry.Errorf(skerry.Unavailable, op, "the stream broke, %s: %w", doubt, err).WithHint("look whether it was done, then try again")
	}
	return err
}
