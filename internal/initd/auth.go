//go:build linux

package initd

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"strings"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/skerry-run/skerry"
	pb "github.com/skerry-run/skerry/internal/initproto"
)

// Version is what the init calls itself; the linker may set it.
var Version = "devel"

// keyring holds the key of the sandbox, set once by the first client.
type keyring struct {
	mu  sync.Mutex
	key []byte
}

// authorize lets only the handshake through before it has succeeded.
func authorize(ctx context.Context, method string) error {
	c := sessionOf(ctx)
	if c == nil {
		return status.Error(codes.Unauthenticated, "the connection is not known")
	}
	if strings.HasSuffix(method, "/Hello") || strings.HasSuffix(method, "/Prove") {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.proved {
		return status.Error(codes.Unauthenticated, "the connection has not proved that it may use this sandbox")
	}
	return nil
}

func (s *service) Hello(ctx context.Context, r *pb.HelloRequest) (*pb.HelloReply, error) {
	const op = "hello"
	if r.Protocol != pb.Version {
		return nil, skerry.Errorf(skerry.Invalid, op, "protocol %d, this init speaks %d", r.Protocol, pb.Version).
			WithHint("use the skerry and the skerry-init of one release")
	}
	if len(r.ClientNonce) != pb.NonceBytes {
		return nil, skerry.Errorf(skerry.Invalid, op, "a nonce of %d bytes, want %d", len(r.ClientNonce), pb.NonceBytes)
	}
	if n := len(r.SetKey); n != 0 && n != pb.KeyBytes {
		return nil, skerry.Errorf(skerry.Invalid, op, "a key of %d bytes, want %d", n, pb.KeyBytes)
	}
	c := sessionOf(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hello {
		return nil, skerry.Errorf(skerry.Invalid, op, "said twice on one connection")
	}
	c.hello = true
	s.keys.mu.Lock()
	defer s.keys.mu.Unlock()
	if len(r.SetKey) > 0 && s.keys.key == nil {
		s.keys.key = append([]byte(nil), r.SetKey...)
		// Who sets the key is there before user code: the listener lets nobody
		// in who was started inside, and starting needs a key.
		c.proved = true
	}
	nonce := make([]byte, pb.NonceBytes)
	_, _ = rand.Read(nonce)
	reply := &pb.HelloReply{
		Protocol: pb.Version, Version: Version, InitNonce: nonce, SandboxUid: s.config.SandboxUID,
		BootId: s.bootID, Authenticated: c.proved, Session: s.config.Session,
	}
	if s.keys.key != nil {
		reply.Proof = proof(s.keys.key, "init", r.ClientNonce, nonce)
		c.expected = proof(s.keys.key, "client", r.ClientNonce, nonce)
	}
	return reply, nil
}

func (s *service) Prove(ctx context.Context, r *pb.ProveRequest) (*pb.ProveReply, error) {
	c := sessionOf(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	want := c.expected
	c.expected = nil // one answer for one challenge
	if want == nil || !hmac.Equal(want, r.Proof) {
		return nil, status.Error(codes.Unauthenticated, "the proof is wrong")
	}
	c.proved = true
	return &pb.ProveReply{}, nil
}

// proof is HMAC-SHA-256 over the role and both nonces.
func proof(key []byte, role string, clientNonce, initNonce []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(role))
	h.Write(clientNonce)
	h.Write(initNonce)
	return h.Sum(nil)
}
