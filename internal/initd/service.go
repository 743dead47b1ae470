//go:build linux

package initd

import (
	"context"
	"errors"
	"io"
	"syscall"

	"google.golang.org/grpc"

	"github.com/skerry-run/skerry"
	pb "github.com/skerry-run/skerry/internal/initproto"
)

// service answers the protocol. What it returns as errors becomes a status in
// the interceptors.
type service struct {
	unimplemented
	fileService
	*Server
}

// unimplemented lies one level deeper than the methods that are there.
type unimplemented struct{ pb.UnimplementedInitServer }

func (s *service) Start(ctx context.Context, r *pb.StartRequest) (*pb.StartReply, error) {
	spec, err := specOf(r)
	if err != nil {
		return nil, err
	}
	c, attached, err := s.start(ctx, spec, s.digestOf(spec))
	if err != nil {
		return nil, err
	}
	return &pb.StartReply{Attached: attached, Info: infoMessage(c.info())}, nil
}

func (s *service) Output(r *pb.OutputRequest, stream grpc.ServerStreamingServer[pb.OutputReply]) error {
	c, err := s.find("output", r.Id)
	if err != nil {
		return err
	}
	from := [2]int64{r.StdoutOffset, r.StderrOffset}
	for i, off := range from {
		if off < 0 || off > c.out[i].size() {
			return skerry.Errorf(skerry.Invalid, "output", "offset %d of %v is beyond its end", off, skerry.Stream(i+1))
		}
	}
	return c.deliver(stream.Context(), from, stream.SendMsg)
}

func (s *service) Stdin(stream grpc.ClientStreamingServer[pb.StdinRequest, pb.StdinReply]) error {
	const op = "stdin"
	ctx := stream.Context()
	var c *command
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if c == nil {
			if c, err = s.find(op, m.Id); err != nil {
				return err
			}
			if c.stdin == nil {
				return skerry.Errorf(skerry.Invalid, op, "command %q was started without input", c.id)
			}
		} else if m.Id != "" {
			return skerry.Errorf(skerry.Invalid, op, "only the first message names the command")
		}
		if len(m.Data) > pb.ChunkBytes {
			return skerry.Errorf(skerry.Invalid, op, "%d bytes in one message, at most %d", len(m.Data), pb.ChunkBytes)
		}
		if len(m.Data) > 0 {
			if err := c.stdin.write(ctx, m.Offset, m.Data); err != nil {
				return err
			}
		}
		if m.Eof {
			if err := c.stdin.end(ctx); err != nil {
				return err
			}
		}
		if _, closed := c.stdin.state(); closed {
			break // nobody reads any more: the client need not send the rest
		}
	}
	if c == nil {
		return skerry.Errorf(skerry.Invalid, op, "the stream named no command")
	}
	off, closed := c.stdin.state()
	return stream.SendAndClose(&pb.StdinReply{Offset: off, Closed: closed})
}

func (s *service) StdinOffset(_ context.Context, r *pb.CommandRef) (*pb.StdinReply, error) {
	c, err := s.find("stdin", r.Id)
	if err != nil {
		return nil, err
	}
	if c.stdin == nil {
		return nil, skerry.Errorf(skerry.Invalid, "stdin", "command %q was started without input", c.id)
	}
	off, closed := c.stdin.state()
	return &pb.StdinReply{Offset: off, Closed: closed}, nil
}

func (s *service) Wait(ctx context.Context, r *pb.CommandRef) (*pb.Exit, error) {
	c, err := s.find("wait", r.Id)
	if err != nil {
		return nil, err
	}
	e, err := c.wait(ctx)
	if err != nil {
		return nil, err
	}
	return exitMessage(e), nil
}

// maxSignal is the last of Linux.
const maxSignal = 64

func (s *service) Signal(_ context.Context, r *pb.SignalRequest) (*pb.Empty, error) {
	const op = "signal"
	if r.Signal < 1 || r.Signal > maxSignal {
		return nil, skerry.Errorf(skerry.Invalid, op, "%d is not a signal", r.Signal)
	}
	c, err := s.find(op, r.Id)
	if err != nil {
		return nil, err
	}
	c.signal(syscall.Signal(r.Signal), r.Tree)
	return &pb.Empty{}, nil
}

func (s *service) Cancel(ctx context.Context, r *pb.CancelRequest) (*pb.Exit, error) {
	c, err := s.find("cancel", r.Id)
	if err != nil {
		return nil, err
	}
	reason := r.Reason
	const maxReason = 1 << 10
	if len(reason) > maxReason {
		return nil, skerry.Errorf(skerry.Invalid, "cancel", "the reason has %d bytes, at most %d", len(reason), maxReason)
	}
	if reason == "" {
		reason = "cancelled by the caller"
	}
	c.end(stopReason{outcome: skerry.Cancelled, reason: reason})
	e, err := c.wait(ctx)
	if err != nil {
		return nil, err
	}
	return exitMessage(e), nil
}

func (s *service) Resize(_ context.Context, r *pb.ResizeRequest) (*pb.Empty, error) {
	const op = "resize"
	c, err := s.find(op, r.Id)
	if err != nil {
		return nil, err
	}
	size, err := sizeOf(r.Size)
	if err != nil {
		return nil, err
	}
	if c.tty == nil {
		return nil, skerry.Errorf(skerry.Invalid, op, "command %q has no terminal", c.id)
	}
	if c.ended() {
		return &pb.Empty{}, nil
	}
	if err := resizeTerminal(c.tty, size); err != nil && !c.ended() {
		return nil, skerry.Errorf(skerry.Internal, op, "%w", err)
	}
	return &pb.Empty{}, nil
}

func (s *service) Commands(context.Context, *pb.Empty) (*pb.CommandsReply, error) {
	r := &pb.CommandsReply{}
	for _, c := range s.list() {
		r.Commands = append(r.Commands, infoMessage(c.info()))
	}
	return r, nil
}

func (s *service) Command(_ context.Context, r *pb.CommandRef) (*pb.CommandInfo, error) {
	c, err := s.find("command", r.Id)
	if err != nil {
		return nil, err
	}
	return infoMessage(c.info()), nil
}

func (s *service) ReadUsage(context.Context, *pb.Empty) (*pb.Usage, error) {
	return usageMessage(s.usage.read().now()), nil
}

func (s *service) Shutdown(ctx context.Context, _ *pb.Empty) (*pb.Empty, error) {
	s.stop("shutdown")
	select {
	case <-s.emptied:
	case <-ctx.Done():
	}
	return &pb.Empty{}, nil
}
