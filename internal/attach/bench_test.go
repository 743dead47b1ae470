//go:build unix

package attach

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"

	"google.golang.org/grpc"

	"github.com/skerry-run/skerry"
	pb "github.com/skerry-run/skerry/internal/initproto"
)

// socketPair is a connected pair of unix sockets, as the local backend has it.
func socketPair() (a, b net.Conn, err error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		return nil, nil, err
	}
	var conns [2]net.Conn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "pair")
		conns[i], err = net.FileConn(f)
		f.Close()
		if err != nil {
			return nil, nil, err
		}
	}
	return conns[0], conns[1], nil
}

// oneConn is a listener that has one connection to give.
type oneConn struct {
	c    chan net.Conn
	once sync.Once
}

func (l *oneConn) Accept() (net.Conn, error) {
	c, ok := <-l.c
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (l *oneConn) Close() error   { l.once.Do(func() { close(l.c) }); return nil }
func (l *oneConn) Addr() net.Addr { return &net.UnixAddr{} }

// serveSocket serves f on a unix socket with the settings of the real init.
func serveSocket(b testing.TB, f *fakeInit) func(context.Context) (net.Conn, error) {
	return func(context.Context) (net.Conn, error) {
		ours, theirs, err := socketPair()
		if err != nil {
			return nil, err
		}
		lis := &oneConn{c: make(chan net.Conn, 1)}
		lis.c <- theirs
		server := grpc.NewServer(grpc.MaxRecvMsgSize(pb.MaxMessageBytes), grpc.InitialWindowSize(4<<20), grpc.InitialConnWindowSize(4<<20),
			grpc.WriteBufferSize(256<<10), grpc.ReadBufferSize(64<<10))
		pb.RegisterInitServer(server, &session{fakeInit: f})
		var wg sync.WaitGroup
		wg.Go(func() { _ = server.Serve(lis) })
		b.Cleanup(func() { server.Stop(); wg.Wait() })
		return ours, nil
	}
}

func BenchmarkOutput(b *testing.B) {
	for _, size := range []int{pb.ChunkBytes, 32 << 10} {
		b.Run(fmt.Sprintf("chunk=%dKiB", size>>10), func(b *testing.B) {
			const total = 64 << 20
			f := newFake()
			data := make([]byte, size)
			f.output = func(_ *pb.OutputRequest, stream outputStream) error {
				for at := int64(0); at < total; at += int64(size) {
					if err := stream.Send(&pb.OutputReply{Stream: 1, Offset: at, Data: data}); err != nil {
						return err
					}
				}
				return stream.Send(&pb.OutputReply{Exit: &pb.Exit{Outcome: "exited", HasExitCode: true, StdoutBytes: total}})
			}
			f.start = func(r *pb.StartReply) { r.Info.Exit = nil }
			s := attached(b, f, func(c *Config) { c.Dial = serveSocket(b, f) })
			b.SetBytes(total)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				c, err := s.Start(b.Context(), skerry.CommandSpec{ID: fmt.Sprint(i), Argv: []string{"yes"}})
				if err != nil {
					b.Fatal(err)
				}
				if err := c.Output(b.Context(), skerry.Offsets{}, func(skerry.Chunk) error { return nil }); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkCommand is the way of a short command through the stream: what a
// session's command costs on top of running it.
func BenchmarkCommand(b *testing.B) {
	f := newFake()
	s := attached(b, f, func(c *Config) { c.Dial = serveSocket(b, f) })
	for i := 0; b.Loop(); i++ {
		c, err := s.Start(b.Context(), skerry.CommandSpec{ID: fmt.Sprint(i), Argv: []string{"true"}})
		if err != nil {
			b.Fatal(err)
		}
		if err := c.Output(b.Context(), skerry.Offsets{}, func(skerry.Chunk) error { return nil }); err != nil {
			b.Fatal(err)
		}
		if _, err := c.Wait(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
