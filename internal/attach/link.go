package attach

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/experimental"

	pb "github.com/skerry-run/skerry/internal/initproto"
)

// Sizes of one link. Static windows: gRPC's own estimate starts at 64 KiB and
// would cost a short-lived command several round trips.
const (
	streamWindow   = 4 << 20
	linkWindow     = 8 << 20
	ioBuffer       = 256 << 10
	maxHeaderBytes = 64 << 10
)

// A link is one dialled stream and the gRPC connection on it. It is never
// repaired: when it breaks, the sandbox makes another.
type link struct {
	conn   *watchedConn
	grpc   *grpc.ClientConn
	client pb.InitClient
	bootID string
	pinger chan struct{} // closed when the keepalive has ended; nil before it began
}

var errOneStream = errors.New("the stream is gone")

// newLink puts gRPC on c, and owns c from then on.
func newLink(c net.Conn) (*link, error) {
	l := &link{conn: watch(c)}
	var taken atomic.Bool
	pool := pb.NewBufferPool()
	cc, err := grpc.NewClient("passthrough:///init",
		grpc.WithTransportCredentials(insecure.NewCredentials()), // the stream is private by its origin, the init proves itself in Hello
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
			if taken.Swap(true) {
				return nil, errOneStream
			}
			return l.conn, nil
		}),
		grpc.WithNoProxy(),
		grpc.WithDisableServiceConfig(),
		grpc.WithDisableHealthCheck(),
		grpc.WithDisableRetry(), // what may be retried is decided here, call by call
		grpc.WithIdleTimeout(0),
		grpc.WithStaticStreamWindowSize(streamWindow),
		grpc.WithStaticConnWindowSize(linkWindow),
		grpc.WithReadBufferSize(ioBuffer),
		grpc.WithWriteBufferSize(ioBuffer),
		grpc.WithMaxHeaderListSize(maxHeaderBytes),
		experimental.WithBufferPool(pool),
		grpc.WithDefaultCallOptions(
			grpc.ForceCodecV2(pb.NewCodec(pool)),
			grpc.MaxCallRecvMsgSize(pb.MaxMessageBytes),
			grpc.MaxCallSendMsgSize(pb.MaxMessageBytes)),
	)
	if err != nil {
		c.Close()
		return nil, err
	}
	l.grpc, l.client = cc, pb.NewInitClient(cc)
	return l, nil
}

// close ends every call on l and waits for the keepalive.
func (l *link) close() {
	l.breakOff()
	_ = l.grpc.Close() // it can only say that it was closed before
	if l.pinger != nil {
		<-l.pinger
	}
}

// breakOff ends the stream without waiting for anything.
func (l *link) breakOff() { _ = l.conn.Close() }

// broken says whether the stream has ended.
func (l *link) broken() bool {
	select {
	case <-l.conn.gone:
		return true
	default:
		return false
	}
}

// dripBytes must arrive in the time of one keepalive answer for a stream that
// is busy, rather than stuck, to be waited for.
const dripBytes = 64 << 10

// keepAlive asks the init for an answer every interval until l ends. It is a
// call of the init's own and not a ping of HTTP/2, so that a stream whose other
// end is a proxy in front of a dead init is noticed too.
func (l *link) keepAlive(interval, timeout time.Duration) {
	l.pinger = make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer close(l.pinger)
		defer cancel()
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			select {
			case <-l.conn.gone:
				return
			case <-tick.C:
			}
			if !l.ping(ctx, timeout) {
				l.breakOff()
				return
			}
		}
	}()
}

// ping says whether the init answered in time. The answer may be late while
// enough else arrives.
func (l *link) ping(ctx context.Context, timeout time.Duration) bool {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answered := make(chan error, 1)
	go func() {
		_, err := l.client.Extend(ctx, &pb.ExtendRequest{}) // 0 changes nothing
		answered <- err
	}()
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	before := l.conn.received.Load()
	for {
		select {
		case err := <-answered:
			return err == nil || fromInit(err)
		case <-timer.C:
			now := l.conn.received.Load()
			if now-before >= dripBytes {
				before = now
				timer.Reset(timeout)
				continue
			}
			cancel()
			<-answered
			return false
		}
	}
}
