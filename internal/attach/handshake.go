package attach

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/skerry-run/skerry"
	pb "github.com/skerry-run/skerry/internal/initproto"
)

const (
	maxVersionText = 64
	maxBootID      = 128
)

// handshake makes sure that the other end of l is the init of this sandbox,
// and proves to it who we are. A status error means that the stream broke, any
// other that the init is not the one.
func (s *Sandbox) handshake(ctx context.Context, l *link) error {
	const op = "attach"
	nonce := make([]byte, pb.NonceBytes)
	rand.Read(nonce) // never fails
	request := &pb.HelloRequest{Protocol: pb.Version, ClientNonce: nonce}
	if s.cfg.SetKey && !s.keySet {
		request.SetKey = s.cfg.Key // an init that has it already, because its answer got lost, just proves it
	}
	hello, err := l.client.Hello(ctx, request)
	if err != nil {
		return err
	}
	switch {
	case hello.Protocol != pb.Version:
		return otherInit(skerry.Invalid, "the init %q speaks protocol %d, this program speaks %d",
			clean(hello.Version, maxVersionText), hello.Protocol, pb.Version).
			WithHint("use skerry and skerry-init of the same release and make the sandbox anew")
	case len(hello.InitNonce) != pb.NonceBytes:
		return violation(op, "its nonce has %d bytes, not %d", len(hello.InitNonce), pb.NonceBytes)
	case hello.BootId == "" || len(hello.BootId) > maxBootID:
		return violation(op, "its boot id has %d bytes", len(hello.BootId))
	case s.cfg.SandboxUID != "" && hello.SandboxUid != s.cfg.SandboxUID:
		return otherInit(skerry.NotFound, "the sandbox is gone: another one, %q, has its place", clean(hello.SandboxUid, maxBootID))
	}
	if s.cfg.Key != nil {
		if !hmac.Equal(hello.Proof, mac(s.cfg.Key, "init", nonce, hello.InitNonce)) {
			return otherInit(skerry.Denied, "the init does not know the sandbox's key").
				WithHint("the sandbox was made by somebody else, or something in it pretends to be its init")
		}
	}
	if s.bootID != "" && hello.BootId != s.bootID {
		return otherInit(skerry.Unavailable, "the init was started anew: what ran in the sandbox is gone").
			WithHint("make the sandbox anew")
	}
	if !hello.Authenticated {
		if s.cfg.Key == nil {
			return skerry.Errorf(skerry.Denied, op, "the init asks for a key and there is none")
		}
		proof := mac(s.cfg.Key, "client", nonce, hello.InitNonce)
		if _, err := l.client.Prove(ctx, &pb.ProveRequest{Proof: proof}); err != nil {
			return err
		}
	}
	l.bootID = hello.BootId
	return nil
}

// otherInit makes the error about an init that is not, or no longer, ours.
func otherInit(kind skerry.Kind, format string, args ...any) *skerry.Error {
	return skerry.Errorf(kind, "attach", "%w", &otherInitError{fmt.Sprintf(format, args...)}).WithOutcome(skerry.Lost)
}

type otherInitError struct{ text string }

func (e *otherInitError) Error() string { return e.text }

func isOtherInit(err error) bool {
	_, ok := errors.AsType[*otherInitError](err)
	return ok
}

func mac(key []byte, who string, clientNonce, initNonce []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(who))
	h.Write(clientNonce)
	h.Write(initNonce)
	return h.Sum(nil)
}
