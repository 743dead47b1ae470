package attach

import (
	"context"
	"errors"
	"io"
	"math"
	"time"

	"google.golang.org/grpc"

	"github.com/skerry-run/skerry"
	pb "github.com/skerry-run/skerry/internal/initproto"
)

// messageSlack is what a message of a stream may have around its data.
const messageSlack = 4 << 10

// endGrace is how long the init may take to end a stream after its last
// message.
const endGrace = 5 * time.Second

// Output calls fn with what the program wrote until it has ended and all was
// delivered. It holds one chunk at a time: while fn runs nothing is read, so
// that a slow fn holds the program back.
func (c *command) Output(ctx context.Context, from skerry.Offsets, fn func(skerry.Chunk) error) error {
	const op = "read output"
	if from.Stdout < 0 || from.Stderr < 0 {
		return skerry.Errorf(skerry.Invalid, op, "offsets %d and %d: none can be negative", from.Stdout, from.Stderr)
	}
	o := &output{command: c, next: from, fn: fn}
	return c.sandbox.retry(ctx, op, o.attempt)
}

// output is one call of Output, across streams.
type output struct {
	command *command
	next    skerry.Offsets // of the bytes to come
	fn      func(skerry.Chunk) error
}

// attempt reads from the offsets reached until the end, or until the stream
// breaks.
func (o *output) attempt(ctx context.Context, l *link) error {
	const op = "read output"
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := l.client.Output(ctx, &pb.OutputRequest{
		Id: o.command.id, StdoutOffset: o.next.Stdout, StderrOffset: o.next.Stderr,
	}, grpc.MaxCallRecvMsgSize(pb.ChunkBytes+messageSlack), grpc.ForceCodecV2(newOutputCodec()))
	if err != nil {
		return err
	}
	reply := new(pb.OutputReply)
	for {
		if err := stream.RecvMsg(reply); err != nil {
			if errors.Is(err, io.EOF) {
				return violation(op, "the output ended without the command's end")
			}
			return err
		}
		if reply.Exit != nil {
			if err := o.finish(op, reply); err != nil {
				return err
			}
			defer time.AfterFunc(endGrace, cancel).Stop()
			return ended(op, stream.RecvMsg(reply))
		}
		if err := o.deliver(op, reply); err != nil {
			return err
		}
	}
}

// deliver checks a piece and hands it on.
func (o *output) deliver(op string, r *pb.OutputReply) error {
	var next *int64
	switch skerry.Stream(r.Stream) {
	case skerry.Stdout:
		next = &o.next.Stdout
	case skerry.Stderr:
		next = &o.next.Stderr
	default:
		return violation(op, "output of a stream %d", r.Stream)
	}
	n := int64(len(r.Data))
	switch {
	case n == 0 && r.Omitted == 0:
		return violation(op, "a piece of output with nothing in it")
	case n > pb.ChunkBytes:
		return violation(op, "a piece of %d bytes, at most %d", n, pb.ChunkBytes)
	case r.Omitted < 0 || r.Offset < 0 || r.Offset > math.MaxInt64-n:
		return violation(op, "a piece at offset %d with %d bytes omitted", r.Offset, r.Omitted)
	case r.Offset-r.Omitted != *next:
		return violation(op, "a piece of %v at offset %d with %d bytes omitted before it, expected at %d", skerry.Stream(r.Stream), r.Offset, r.Omitted, *next)
	}
	err := o.fn(skerry.Chunk{Stream: skerry.Stream(r.Stream), Offset: r.Offset, Data: r.Data, Omitted: r.Omitted})
	if err != nil {
		return &ownError{err}
	}
	*next = r.Offset + n
	o.command.sandbox.budget.delivered(len(r.Data))
	return nil
}

// finish checks the last message: nothing may be missing.
func (o *output) finish(op string, r *pb.OutputReply) error {
	if r.Stream != 0 || r.Offset != 0 || r.Omitted != 0 || len(r.Data) != 0 {
		return violation(op, "the command's end came together with output")
	}
	e, err := exit(op, r.Exit, o.command.earliest)
	if err != nil {
		return err
	}
	if o.next.Stdout < e.StdoutBytes || o.next.Stderr < e.StderrBytes {
		return violation(op, "the output ended at %d and %d bytes, of %d and %d", o.next.Stdout, o.next.Stderr, e.StdoutBytes, e.StderrBytes)
	}
	return o.command.ended(op, e)
}

// ended judges what came after the last message of a stream: only its end may.
// A break there does no harm, all has arrived.
func ended(op string, err error) error {
	if err == nil {
		return violation(op, "there was more after the last message")
	}
	return nil
}
