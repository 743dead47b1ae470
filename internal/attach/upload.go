package attach

import (
	"context"
	"errors"
	"hash"
	"io"

	"google.golang.org/grpc"

	"github.com/skerry-run/skerry"
	pb "github.com/skerry-run/skerry/internal/initproto"
)

// upload is a reader on its way to the init.
type upload struct {
	r     io.Reader
	hash  hash.Hash
	sent  int64
	begun bool // something was asked of r, which can't be had again
}

// upload calls f, again after a break while nothing was asked of up's reader.
func (s *Sandbox) upload(ctx context.Context, op string, up *upload, f func(context.Context, *link) error) error {
	for {
		broke, err := s.once(ctx, op, func(ctx context.Context, l *link) error {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel() // a stream that ends without commit changes nothing
			return f(ctx, l)
		})
		if broke && up.begun {
			return skerry.Errorf(skerry.Unavailable, op, "the stream broke after %d bytes, what was sent may be there or not: %w", up.sent, err).
				WithHint("send it again")
		}
		if !broke {
			return err
		}
	}
}

// send sends first, the reader in pieces, and last, and gives the answer.
func send[Request, Reply any](up *upload, stream grpc.ClientStreamingClient[Request, Reply], first *Request, piece func([]byte) *Request, last *Request) (*Reply, error) {
	if err := stream.Send(first); err != nil {
		return nil, answerTo(stream, err)
	}
	buf := make([]byte, pb.ChunkBytes)
	up.begun = true
	for {
		n, err := fill(up.r, buf)
		if n > 0 {
			up.hash.Write(buf[:n])
			if err := stream.Send(piece(buf[:n])); err != nil {
				return nil, answerTo(stream, err)
			}
			up.sent += int64(n)
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, &ownError{err}
		}
	}
	if err := stream.Send(last); err != nil {
		return nil, answerTo(stream, err)
	}
	return stream.CloseAndRecv()
}

// fill reads until buf is full or r ends. Unlike io.ReadFull it keeps r's own
// io.ErrUnexpectedEOF, of a file that was cut short, apart from r's end.
func fill(r io.Reader, buf []byte) (n int, err error) {
	for idle := 0; n < len(buf) && err == nil; {
		var k int
		k, err = r.Read(buf[n:])
		n += k
		if k > 0 {
			idle = 0
		} else if idle++; idle > 100 && err == nil {
			err = io.ErrNoProgress
		}
	}
	return n, err
}

// answerTo gives the reason why a stream takes no more: gRPC says only io.EOF.
func answerTo[Request, Reply any](stream grpc.ClientStreamingClient[Request, Reply], err error) error {
	if !errors.Is(err, io.EOF) {
		return err
	}
	if err := stream.RecvMsg(new(Reply)); err != nil {
		return err
	}
	return violation("", "it answered before the last message")
}
