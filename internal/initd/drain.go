//go:build linux

package initd

import (
	"context"
	"time"

	"github.com/skerry-run/skerry"
	pb "github.com/skerry-run/skerry/internal/initproto"
)

// drainCheck is how late the end of what Drain waits for is noticed.
const drainCheck = 5 * time.Millisecond

// Drain waits for the other clients to take what they came for.
func (s *service) Drain(ctx context.Context, r *pb.DrainRequest) (*pb.Empty, error) {
	patience, err := durationOf("patience", r.PatienceMs)
	if err != nil {
		return nil, err
	}
	tick := time.NewTicker(drainCheck)
	defer tick.Stop()
	taken, since := s.taken.Load(), time.Now()
	for {
		if now := s.taken.Load(); now != taken {
			taken, since = now, time.Now()
		}
		if s.isAlone() || time.Since(since) >= patience {
			return &pb.Empty{}, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, skerry.Errorf(skerry.Unavailable, "drain", "%w", ctx.Err())
		}
	}
}

// isAlone says whether who asks is the only client.
func (s *Server) isAlone() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clients <= 1
}
