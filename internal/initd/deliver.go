//go:build linux

package initd

import (
	"context"

	pb "github.com/skerry-run/skerry/internal/initproto"
)

// deliver sends what the command wrote from the offsets on, then its exit. A
// command that has ended may still have children that write: what they wrote
// until now is delivered, what comes later is not waited for. send gets an
// OutputPiece, and at the end an OutputReply.
func (c *command) deliver(ctx context.Context, from [2]int64, send func(any) error) error {
	var cursors [2]*cursor
	for i, s := range c.out {
		cursors[i] = s.attach(from[i])
		defer s.detach(cursors[i])
	}
	var limits [2]int64 // where delivery ends, once the command has ended
	ended := false
	for {
		if !ended && c.ended() {
			ended = true
			limits = [2]int64{c.out[0].size(), c.out[1].size()}
		}
		var changed [2]<-chan struct{}
		sent := false
		for i, s := range c.out {
			if ended && cursors[i].pos >= limits[i] {
				continue
			}
			p, next := s.read(cursors[i])
			if p.data == nil && p.omitted == 0 {
				changed[i] = next
				continue
			}
			sent = true
			err := send(&pb.OutputPiece{Stream: uint32(i + 1), Offset: p.offset, Data: p.data, Omitted: p.omitted})
			if p.data != nil {
				p.data.Free()
			}
			if err != nil {
				return err
			}
		}
		switch {
		case ended && cursors[0].pos >= limits[0] && cursors[1].pos >= limits[1]:
			return send(&pb.OutputReply{Exit: c.exitFor(cursors)})
		case sent || ended:
		default:
			select {
			case <-changed[0]:
			case <-changed[1]:
			case <-c.done:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}

// exitFor is the exit with the sizes that were delivered: children that were
// left running may have written more since.
func (c *command) exitFor(cursors [2]*cursor) *pb.Exit {
	e := *c.exit
	e.StdoutBytes = max(e.StdoutBytes, cursors[0].pos)
	e.StderrBytes = max(e.StderrBytes, cursors[1].pos)
	return exitMessage(e)
}
