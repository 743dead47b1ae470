//go:build linux

package initd

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/experimental"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	pb "github.com/skerry-run/skerry/internal/initproto"
)

const (
	// maxStreams bounds the calls at once on one connection.
	maxStreams = 1024
	// windowBytes lets bulk output flow without waiting for the other end.
	windowBytes = 4 << 20
	writeBytes  = 256 << 10
	// socketBytes takes a whole write, so that it is one call and one wake.
	socketBytes = 512 << 10
	// maxClients bounds connections: each costs a few goroutines.
	maxClients = 64
)

// newGRPC makes the gRPC server of s.
func newGRPC(s *Server, files pb.InitServer) *grpc.Server {
	g := grpc.NewServer(
		grpc.Creds(connCreds{}),
		grpc.MaxRecvMsgSize(pb.MaxMessageBytes),
		grpc.MaxSendMsgSize(pb.MaxMessageBytes),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.InitialWindowSize(windowBytes),
		grpc.InitialConnWindowSize(windowBytes),
		grpc.WriteBufferSize(writeBytes),
		grpc.ReadBufferSize(64<<10),
		experimental.BufferPool(buffers),
		grpc.ForceServerCodecV2(pb.NewCodec(buffers)),
		// A client may ask as often as it likes whether the stream lives.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}),
		grpc.UnaryInterceptor(func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			if err := authorize(ctx, info.FullMethod); err != nil {
				return nil, pb.ToStatus(err)
			}
			reply, err := next(ctx, req)
			return reply, toStatus(err)
		}),
		grpc.StreamInterceptor(func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
			if err := authorize(stream.Context(), info.FullMethod); err != nil {
				return pb.ToStatus(err)
			}
			return toStatus(next(srv, stream))
		}),
	)
	pb.RegisterInitServer(g, files)
	return g
}

// toStatus keeps what is a status already.
func toStatus(err error) error {
	if _, ok := status.FromError(err); ok {
		return err
	}
	return pb.ToStatus(err)
}

// clientConn is one accepted connection and what is known of who holds it.
type clientConn struct {
	net.Conn
	session *clientSession
	once    sync.Once
	closed  func()
	taken   *atomic.Int64
}

func (c *clientConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.taken.Add(int64(n))
	return n, err
}

func (c *clientConn) Close() error {
	c.once.Do(c.closed)
	return c.Conn.Close()
}

// clientSession is the state of the handshake of one connection.
type clientSession struct {
	mu       sync.Mutex
	hello    bool
	proved   bool
	expected []byte // the proof that is wanted
}

// connCreds is no encryption, the stream is private to its two ends: it brings
// the connection's state to the calls.
type connCreds struct{}

type connInfo struct {
	credentials.CommonAuthInfo
	session *clientSession
}

func (connInfo) AuthType() string { return "skerry" }

func (connCreds) ServerHandshake(c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	cc, ok := c.(*clientConn)
	if !ok {
		return nil, nil, errors.New("connection from nowhere")
	}
	return cc, connInfo{session: cc.session}, nil
}

func (connCreds) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("a server's credentials")
}
func (connCreds) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "skerry"}
}
func (c connCreds) Clone() credentials.TransportCredentials { return c }
func (connCreds) OverrideServerName(string) error           { return nil }

func sessionOf(ctx context.Context) *clientSession {
	if p, ok := peer.FromContext(ctx); ok {
		if i, ok := p.AuthInfo.(connInfo); ok {
			return i.session
		}
	}
	return nil
}

// gate is the listener that accepted connections are put into.
type gate struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newGate() *gate { return &gate{conns: make(chan net.Conn), done: make(chan struct{})} }

func (g *gate) Accept() (net.Conn, error) {
	select {
	case c := <-g.conns:
		return c, nil
	case <-g.done:
		return nil, io.EOF
	}
}

func (g *gate) Close() error {
	g.once.Do(func() { close(g.done) })
	return nil
}

func (g *gate) Addr() net.Addr { return &net.UnixAddr{Name: "skerry-init", Net: "unix"} }

// admit serves c; proved says that it needs no key.
func (s *Server) admit(g *gate, c net.Conn, proved bool) {
	s.mu.Lock()
	if s.clients >= maxClients || s.ending != "" {
		s.mu.Unlock()
		c.Close()
		return
	}
	s.clients++
	s.life.busy()
	s.mu.Unlock()
	if u, ok := c.(*net.UnixConn); ok {
		_ = u.SetWriteBuffer(socketBytes) // less is only slower
	}
	cc := &clientConn{Conn: c, session: &clientSession{proved: proved}, closed: s.clientGone, taken: &s.taken}
	select {
	case g.conns <- cc:
	case <-g.done:
		cc.Close()
	}
}

func (s *Server) clientGone() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clients--
	s.restLocked()
}
