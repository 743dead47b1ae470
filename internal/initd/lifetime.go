//go:build linux

package initd

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/skerry-run/skerry"
	"github.com/skerry-run/skerry/internal/control"
	pb "github.com/skerry-run/skerry/internal/initproto"
)

// lifetime is when the sandbox ends by itself: at its time to live, and when
// nothing runs and nobody is attached for its idle time, which for a run is its
// retention. The server's lock guards it.
type lifetime struct {
	ttl     *time.Timer
	length  time.Duration // the time to live that holds; 0 is none
	expires time.Time     // with a monotonic reading
	idle    *time.Timer
	tidy    *time.Timer // gives memory back when nothing has run for a while
}

// busy says that somebody needs the sandbox.
func (l *lifetime) busy() {
	if l.tidy != nil {
		l.tidy.Stop()
		l.tidy = nil
	}
	if l.idle != nil {
		l.idle.Stop()
		l.idle = nil
	}
}

// beginLife starts the clocks.
func (s *Server) beginLife() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d := s.config.TTL(); d > 0 {
		s.setTTLLocked(d)
		if asked := s.config.TTLAskedMS; asked > 0 {
			s.life.length = time.Duration(asked) * time.Millisecond
		}
	}
	s.restLocked()
}

func (s *Server) setTTLLocked(d time.Duration) {
	if s.life.ttl != nil {
		s.life.ttl.Stop()
	}
	s.life.length, s.life.expires = d, time.Now().Add(d)
	s.life.ttl = time.AfterFunc(d, s.expire)
}

// tidyAfter is how long nothing must run before memory is given back.
const tidyAfter = 2 * time.Second

// restLocked starts the idle clock when nobody needs the sandbox.
func (s *Server) restLocked() {
	if s.running == 0 && s.life.tidy == nil {
		s.life.tidy = time.AfterFunc(tidyAfter, debug.FreeOSMemory)
	}
	idle := s.config.Idle()
	if !s.config.Session && len(s.order) == 0 { // a run that has not begun
		return
	}
	if idle == 0 || s.running > 0 || s.clients > 0 || s.life.idle != nil {
		return
	}
	var t *time.Timer
	t = time.AfterFunc(idle, func() {
		s.mu.Lock()
		still := s.life.idle == t && s.running == 0 && s.clients == 0
		s.mu.Unlock()
		if still {
			s.stop("idle")
		}
	})
	s.life.idle = t
}

// expire ends what runs, and then the sandbox, because its time is over.
func (s *Server) expire() {
	s.mu.Lock()
	if time.Until(s.life.expires) > 0 { // extended meanwhile
		s.mu.Unlock()
		return
	}
	length := s.life.length
	running := slices.Clone(s.order)
	s.mu.Unlock()
	why := stopReason{outcome: skerry.Timeout, limit: skerry.TTLLimit, reason: fmt.Sprintf("sandbox time to live of %v", length)}
	limit, cancel := context.WithTimeout(context.Background(), skerry.DefaultKillGrace+killPatience)
	defer cancel()
	for _, c := range running {
		if c.wasStarted(limit) {
			c.end(why)
		}
	}
	for _, c := range running {
		if c.wasStarted(limit) {
			_, _ = c.wait(limit)
		}
	}
	s.stop("ttl")
}

// Extend sets the time to live from now, or only tells it.
func (s *service) Extend(_ context.Context, r *pb.ExtendRequest) (*pb.ExtendReply, error) {
	if r.TtlMs < 0 || r.TtlMs > skerry.MaxDuration.Milliseconds() {
		return nil, skerry.Errorf(skerry.Invalid, "extend", "a time to live of %d ms is not between 0 and %v", r.TtlMs, skerry.MaxDuration)
	}
	remaining, expires, err := s.extend(time.Duration(r.TtlMs) * time.Millisecond)
	if err != nil {
		return nil, err
	}
	if r.TtlMs > 0 && s.line != nil {
		if err := s.line.tell(control.Message{Type: control.Expires, ExpiresUnixMS: expires.UnixMilli()}); err != nil {
			return nil, skerry.Errorf(skerry.Unavailable, "extend", "%w", err)
		}
	}
	return &pb.ExtendReply{RemainingMs: remaining}, nil
}

func (s *Server) extend(ttl time.Duration) (remainingMS int64, expires time.Time, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ending != "" {
		return 0, time.Time{}, skerry.Errorf(skerry.Expired, "extend", "the sandbox ends (%s)", s.ending)
	}
	if ttl > 0 {
		s.setTTLLocked(ttl)
	}
	if s.life.ttl == nil {
		return -1, time.Time{}, nil
	}
	return max(0, time.Until(s.life.expires).Milliseconds()), s.life.expires, nil
}
