//go:build linux

package supervise

import (
	"context"
	"os"

	"github.com/skerry-run/skerry"
	"github.com/skerry-run/skerry/internal/boxes"
	"github.com/skerry-run/skerry/internal/hostnet"
)

// chooseSubnet settles which addresses a sandbox of root's has. It is called
// while nobody else can choose.
func chooseSubnet(r *boxes.Record, uid int, others []boxes.Record) error {
	if modeOf(r.Network) == skerry.NetworkDeny || os.Geteuid() != 0 {
		return nil
	}
	taken := map[int]bool{}
	for _, o := range others {
		if modeOf(o.Network) != skerry.NetworkDeny {
			taken[o.Subnet] = true
		}
	}
	n, err := hostnet.FreeSubnet(context.Background(), uid%hostnet.Subnets, taken)
	if err != nil {
		return err
	}
	r.Subnet = n
	return nil
}

// makeNetwork connects the sandbox's network namespace, which bwrap has made,
// while bwrap waits to start the init. What fails here refuses the sandbox:
// the host's network is never used instead.
func (s *supervisor) makeNetwork() error {
	r := &s.box.Record
	if err := hostnet.Available(os.Geteuid() == 0); err != nil {
		return err
	}
	<-s.launch.childSet
	s.launch.mu.Lock()
	child := s.launch.child
	s.launch.mu.Unlock()
	if child == 0 {
		return s.afterExit(skerry.Errorf(skerry.Internal, op, "bwrap did not say which process it made"))
	}
	key := s.order.Dirs.NetworkKey(r.Key)
	plan := hostnet.Plan{Key: key, PID: child, Subnet: r.Subnet, Policy: r.Network, Resolvers: hostnet.Resolvers()}
	ctx := context.Background() // each program that is run is bounded
	if os.Geteuid() != 0 {
		plan.Own = hostnet.OwnAddresses()
		pasta, err := hostnet.UpPasta(ctx, plan)
		if err != nil {
			return networkError(err)
		}
		s.remove = append(s.remove, func() error { pasta.Stop(); return nil })
	} else {
		// From here on, whatever Up has done, there may be something to undo.
		s.remove = append(s.remove, func() error { return hostnet.Remove(ctx, key) })
		notes, err := hostnet.Up(ctx, plan)
		if err != nil {
			return networkError(err)
		}
		r.Warnings = append(r.Warnings, notes...)
	}
	r.Warnings = append(r.Warnings, plan.Warnings()...)
	return s.box.Update()
}

func networkError(err error) error {
	return skerry.Errorf(skerry.Denied, op, "network: %w", err).
		WithHint("skerry doctor checks what a network needs; --network deny needs nothing").WithOutcome(skerry.Refused)
}
