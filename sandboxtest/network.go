package sandboxtest

import (
	"fmt"
	"net"
	"sync/atomic"
	"testing"

	"github.com/skerry-run/skerry"
)

func testNetwork(t *testing.T, s *suite) {
	b := s.session(t)

	t.Run("its own loopback works", func(t *testing.T) {
		b := b.on(t)
		b.needProgram("python3")
		b.do(argv("python3", "-c", `
import socket, threading
for family, host in ((socket.AF_INET, "127.0.0.1"),):
    l = socket.socket(family); l.bind((host, 0)); l.listen()
    def serve():
        c, _ = l.accept(); c.sendall(b"hello"); c.close()
    th = threading.Thread(target=serve); th.start()
    c = socket.create_connection(l.getsockname()[:2], 5); print(c.recv(5).decode()); th.join()
`)).wantOut("hello\n")
	})

	t.Run("deny reaches nothing of the host", func(t *testing.T) {
		s.need(t, NetworkDeny)
		b := b.on(t)
		var reached atomic.Int64
		for _, address := range hostAddresses(t) {
			l, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
			if err != nil {
				continue // an address that can't be listened on can't be attacked either
			}
			defer l.Close()
			go func() {
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					reached.Add(1)
					c.Close()
				}
			}()
			// The listener lives: this process reaches it.
			c, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatalf("control: %v", err)
			}
			c.Close()
			host, port, _ := net.SplitHostPort(l.Addr().String())
			b.do(argv("bash", "-c", fmt.Sprintf("timeout 3 bash -c 'exec 3<>/dev/tcp/%s/%s' 2>/dev/null && echo open; true", host, port))).wantOut("")
		}
	})

	t.Run("deny reaches no address and resolves no name", func(t *testing.T) {
		s.need(t, NetworkDeny)
		b := b.on(t)
		for _, target := range []string{"169.254.169.254/80", "1.1.1.1/53", "8.8.8.8/53", "192.168.0.1/80", "10.0.0.1/443", "example.com/80"} {
			b.do(argv("bash", "-c", "timeout 3 bash -c 'exec 3<>/dev/tcp/"+target+"' 2>/dev/null && echo open; true")).wantOut("")
		}
	})

	t.Run("deny has no interface but loopback", func(t *testing.T) {
		s.need(t, NetworkDeny)
		b.on(t).do(argv("bash", "-c", "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '")).wantOut("lo\n")
	})

	t.Run("a mode that can't be enforced is refused, never weakened", func(t *testing.T) {
		ctx := s.context(t)
		spec := s.spec(skerry.SessionKind, func(spec *skerry.SandboxSpec) { spec.Network.Mode = skerry.NetworkInternet })
		sandbox, err := s.Create(ctx, spec)
		if err != nil {
			if kind := skerry.KindOf(err); kind != skerry.Denied && kind != skerry.Unavailable || skerry.OutcomeOf(err) != skerry.Refused || skerry.HintOf(err) == "" {
				t.Errorf("error %v of kind %s, outcome %s, hint %q", err, kind, skerry.OutcomeOf(err), skerry.HintOf(err))
			}
			return
		}
		s.cleanup(t, sandbox, spec.Ref)
		b := &box{Sandbox: sandbox, t: t, ctx: ctx, suite: s, ref: spec.Ref}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		_, port, _ := net.SplitHostPort(l.Addr().String())
		b.do(argv("bash", "-c", "timeout 3 bash -c 'exec 3<>/dev/tcp/127.0.0.1/"+port+"' 2>/dev/null && echo open; true")).wantOut("")
		b.do(argv("bash", "-c", "timeout 3 bash -c 'exec 3<>/dev/tcp/169.254.169.254/80' 2>/dev/null && echo open; true")).wantOut("")
	})
}

// hostAddresses gives the addresses of this machine.
func hostAddresses(t *testing.T) []string {
	t.Helper()
	list := []string{"127.0.0.1"}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLoopback() {
			list = append(list, n.IP.String())
		}
	}
	return list
}
