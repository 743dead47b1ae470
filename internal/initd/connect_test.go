//go:build linux

package initd

import (
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	pb "github.com/skerry-run/skerry/internal/initproto"
)

// stdio is the connection that a bridge's standard streams make.
type stdio struct {
	io.ReadCloser
	in io.WriteCloser
}

func (s stdio) Write(p []byte) (int, error)      { return s.in.Write(p) }
func (s stdio) Close() error                     { s.in.Close(); return s.ReadCloser.Close() }
func (stdio) LocalAddr() net.Addr                { return &net.UnixAddr{Name: "bridge"} }
func (stdio) RemoteAddr() net.Addr               { return &net.UnixAddr{Name: "bridge"} }
func (stdio) SetDeadline(time.Time) error        { return nil }
func (stdio) SetReadDeadline(t time.Time) error  { return nil }
func (stdio) SetWriteDeadline(t time.Time) error { return nil }

// connect starts a bridge in the sandbox from outside, as a container runtime
// does.
func (b *box) connect(name string) pb.InitClient {
	b.t.Helper()
	init, _ := b.initPIDs()
	cmd := exec.Command("nsenter", "-t", init, "-U", "-m", "-p", "-n", "-i", "-u", "--preserve-credentials", "--", "/run/skerry/init", "connect", name)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		b.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	conn, err := grpc.NewClient("passthrough:///bridge", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return stdio{out, in}, nil }))
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		conn.Close()
		in.Close()
		_ = cmd.Wait()
	})
	return pb.NewInitClient(conn)
}

func listening(name string) boxOption {
	return func(s *boxSetup) { s.serve = append(s.serve, "--listen", name) }
}

// Threat 3: the socket lets in who was started from outside, the key who was
// there first; user code is neither.
func TestTheBridgeAndItsKey(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("entering a sandbox from outside needs root")
	}
	if _, err := exec.LookPath("nsenter"); err != nil {
		t.Skip("nsenter is not installed")
	}
	b := newBox(t, Config{Session: true, SandboxUID: "uid-1"}, listening("skerry"))
	ctx := b.ctx()
	nonce := []byte(strings.Repeat("n", pb.NonceBytes))
	key := []byte(strings.Repeat("k", pb.KeyBytes))

	first := b.connect("skerry")
	if _, err := first.Commands(ctx, &pb.Empty{}); status.Code(err) != codes.Unauthenticated {
		t.Errorf("a call before the handshake gave %v", err)
	}
	hello, err := first.Hello(ctx, &pb.HelloRequest{Protocol: pb.Version, ClientNonce: nonce, SetKey: key})
	if err != nil {
		t.Fatal(err)
	}
	if !hello.Authenticated || hello.SandboxUid != "uid-1" || string(hello.Proof) != string(proof(key, "init", nonce, hello.InitNonce)) {
		t.Errorf("hello gave %v", hello)
	}
	if _, err := first.Start(ctx, argv("true")); err != nil {
		t.Errorf("the first client can't start: %v", err)
	}
	if _, err := first.Hello(ctx, &pb.HelloRequest{Protocol: pb.Version, ClientNonce: nonce}); err == nil {
		t.Error("a second hello on one connection was taken")
	}

	// A later client must know the key, and can't set another.
	second := b.connect("skerry")
	again, err := second.Hello(ctx, &pb.HelloRequest{Protocol: pb.Version, ClientNonce: nonce, SetKey: []byte(strings.Repeat("x", pb.KeyBytes))})
	if err != nil {
		t.Fatal(err)
	}
	if again.Authenticated || again.BootId != hello.BootId || string(again.Proof) != string(proof(key, "init", nonce, again.InitNonce)) {
		t.Errorf("the second hello gave %v", again)
	}
	if _, err := second.Prove(ctx, &pb.ProveRequest{Proof: proof([]byte(strings.Repeat("x", pb.KeyBytes)), "client", nonce, again.InitNonce)}); status.Code(err) != codes.Unauthenticated {
		t.Errorf("a wrong proof gave %v", err)
	}
	if _, err := second.Prove(ctx, &pb.ProveRequest{Proof: proof(key, "client", nonce, again.InitNonce)}); status.Code(err) != codes.Unauthenticated {
		t.Errorf("a second answer to one challenge gave %v", err)
	}
	third := b.connect("skerry")
	if again, err = third.Hello(ctx, &pb.HelloRequest{Protocol: pb.Version, ClientNonce: nonce}); err != nil {
		t.Fatal(err)
	}
	if _, err := third.Commands(ctx, &pb.Empty{}); status.Code(err) != codes.Unauthenticated {
		t.Errorf("a call before the proof gave %v", err)
	}
	if _, err := third.Prove(ctx, &pb.ProveRequest{Proof: proof(key, "client", nonce, again.InitNonce)}); err != nil {
		t.Fatal(err)
	}
	if _, err := third.Commands(ctx, &pb.Empty{}); err != nil {
		t.Errorf("after the proof: %v", err)
	}
	for name, r := range map[string]*pb.HelloRequest{
		"protocol": {Protocol: 99, ClientNonce: nonce},
		"nonce":    {Protocol: pb.Version, ClientNonce: nonce[:5]},
		"key":      {Protocol: pb.Version, ClientNonce: nonce, SetKey: key[:5]},
	} {
		if _, err := b.connect("skerry").Hello(ctx, r); err == nil {
			t.Errorf("a wrong %s was taken", name)
		}
	}

	// User code: its connection is closed before a byte is answered, by the
	// bridge and without it.
	got := b.run(argv("python3", "-c", `
import socket
s = socket.socket(socket.AF_UNIX); s.connect('\0skerry'); s.settimeout(10)
try:
    s.send(b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'); print(s.recv(100))
except OSError as e: print('refused')`))
	if got.stdout != "b''\n" && got.stdout != "refused\n" {
		t.Errorf("user code was answered: %v", got)
	}
	r := withInput(argv("/run/skerry/init", "connect", "skerry"))
	b.start(r)
	if got := b.follow(r.Id); got.stdout != "" {
		t.Errorf("user code was answered over the bridge: %v", got)
	}
	// A bridge does not talk to a socket of user code.
	fake := argv("python3", "-uc", "import socket, time\ns = socket.socket(socket.AF_UNIX); s.bind('\\0fake'); s.listen(); print('up'); time.sleep(600)")
	b.start(fake)
	b.waitForText(fake.Id, "up")
	if _, err := b.connect("fake").Hello(ctx, &pb.HelloRequest{Protocol: pb.Version, ClientNonce: nonce}); err == nil {
		t.Error("a bridge talked to a fake init")
	}
}
