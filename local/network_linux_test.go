package local

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/skerry-run/skerry"
	"github.com/skerry-run/skerry/internal/hostnet"
)

// world is what a sandbox's machine sees of the rest: a namespace with
// addresses of every sort, and listeners that are known to live.
type world struct{ port int }

// Addresses in the world. Nothing outside of the test's own namespaces has
// them here.
var (
	public    = []string{"93.184.216.34", "45.0.0.2", "1.1.1.1"}
	forbidden = []string{"10.9.9.9", "172.16.5.5", "192.168.7.7", "169.254.169.254", "168.63.129.16", "100.100.100.200", "100.64.1.1", "198.19.200.9", "192.0.2.77", "198.51.100.5", "203.0.113.9"}
)

// newWorld makes the calling goroutine's thread a machine with one uplink to
// the world, for as long as the test runs. The goroutine must do all of the
// test's work.
func newWorld(t *testing.T) world {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("making network namespaces needs root")
	}
	if err := hostnet.Available(true); err != nil {
		cannot(t, err)
	}
	runtime.LockOSThread() // never unlocked: the thread keeps its namespace, and is thrown away with it
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		cannot(t, err)
	}
	ready, stop := make(chan int), make(chan struct{})
	t.Cleanup(func() { close(stop) })
	port := make(chan int)
	connected := make(chan struct{})
	go func() { // the world
		runtime.LockOSThread()
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			t.Error(err)
		}
		ready <- unix.Gettid()
		<-connected
		must(t, "ip", "link", "set", "lo", "up")
		must(t, "ip", "addr", "add", "45.0.0.2/24", "dev", "up0")
		must(t, "ip", "link", "set", "up0", "up")
		must(t, "ip", "route", "add", "198.18.0.0/15", "via", "45.0.0.1")
		addrs := append(append([]string{}, public...), forbidden...)
		for _, r := range hostnet.Resolvers() {
			addrs = append(addrs, r.String())
		}
		for _, a := range addrs {
			if a != "45.0.0.2" {
				must(t, "ip", "addr", "add", a+"/32", "dev", "lo")
			}
		}
		l, err := net.Listen("tcp4", "0.0.0.0:0")
		if err != nil {
			t.Error(err)
		}
		dns, err := net.Listen("tcp4", "0.0.0.0:53")
		if err != nil {
			t.Error(err)
		}
		listeners := []net.Listener{l, dns}
		if hasIPv6() {
			listeners = append(listeners, beWorld6(t, l.Addr().(*net.TCPAddr).Port))
		}
		for _, l := range listeners {
			go serve(l)
			defer l.Close()
		}
		port <- l.Addr().(*net.TCPAddr).Port
		<-stop
	}()
	tid := <-ready
	// A new namespace may take this over from the machine.
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("0\n"), 0); err != nil {
		t.Fatal(err)
	}
	must(t, "ip", "link", "set", "lo", "up")
	must(t, "ip", "link", "add", "up0", "type", "veth", "peer", "name", "up0", "netns", fmt.Sprint(tid))
	must(t, "ip", "addr", "add", "45.0.0.1/24", "dev", "up0")
	must(t, "ip", "link", "set", "up0", "up")
	must(t, "ip", "route", "add", "default", "via", "45.0.0.2")
	if hasIPv6() {
		beMachine6(t)
	}
	connected <- struct{}{}
	w := world{port: <-port}
	for _, a := range append(append([]string{}, public...), forbidden...) {
		answers(t, fmt.Sprintf("%s:%d", a, w.port))
	}
	return w
}

// answers is the control: what must be closed to a sandbox is open to the
// machine.
func answers(t *testing.T, addr string) {
	t.Helper()
	for tries := 0; ; tries++ {
		c, err := net.DialTimeout("tcp", addr, 5*time.Second)
		if err == nil {
			c.Close()
			return
		}
		if tries == 20 {
			t.Fatalf("the listener at %s is not up: %v", addr, err)
		}
		time.Sleep(20 * time.Millisecond) // the link comes up
	}
}

func serve(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		c.Write([]byte("world"))
		c.Close()
	}
}

func must(t *testing.T, argv ...string) {
	t.Helper()
	if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
		t.Errorf("%v: %v: %s", argv, err, out)
	}
}

// reached runs a program in a sandbox that tries every address, and gives those
// from which it had an answer. On a busy machine a packet may be late: while
// one of want is missing it tries again, up to three times.
func reached(t *testing.T, b *Backend, network skerry.Network, targets, want []string) map[string]bool {
	t.Helper()
	got := map[string]bool{}
	for range 3 {
		reachedOnce(t, b, network, targets, got)
		if !slices.ContainsFunc(want, func(a string) bool { return !got[a] }) {
			break
		}
	}
	return got
}

func reachedOnce(t *testing.T, b *Backend, network skerry.Network, targets []string, got map[string]bool) {
	t.Helper()
	list, _ := json.Marshal(targets)
	r := sh(t, b, "", func(s *skerry.RunSpec) {
		s.Sandbox.Network = network
		s.Command.Argv = []string{"python3", "-c", reachProgram, string(list)}
	})
	if r.Outcome != skerry.Exited || *r.ExitCode != 0 {
		t.Fatalf("outcome %s, reason %q, stderr %q", r.Outcome, r.Reason, r.Stderr)
	}
	for a := range strings.FieldsSeq(r.Stdout) {
		got[a] = true
	}
}

func (w world) at(addrs ...string) []string {
	out := make([]string, len(addrs))
	for i, a := range addrs {
		out[i] = fmt.Sprintf("%s:%d", a, w.port)
	}
	return out
}

// listenHere serves on an address of the machine itself.
func listenHere(t *testing.T, addr string) string {
	t.Helper()
	l, err := net.Listen("tcp4", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go serve(l)
	return l.Addr().String()
}

func TestInternetReachesOnlyTheInternet(t *testing.T) {
	w := newWorld(t)
	b := newBackend(t)
	own := listenHere(t, "0.0.0.0:0")
	_, ownPort, _ := net.SplitHostPort(own)
	targets := w.at(append(append([]string{}, public...), forbidden...)...)
	mine := []string{"45.0.0.1:" + ownPort, "127.0.0.1:" + ownPort}
	for i := range 8 { // its gateway, wherever in the pool it is, is the machine
		host, _ := (hostnet.Plan{Subnet: i}).Addresses()
		mine = append(mine, host.Addr().String()+":"+ownPort)
	}
	var resolvers []string
	for _, r := range hostnet.Resolvers() {
		resolvers = append(resolvers, r.String()+":53")
	}
	open := append(w.at(public...), resolvers...)
	got := reached(t, b, skerry.Network{Mode: skerry.NetworkInternet}, append(append(targets, mine...), resolvers...), open)
	for _, a := range open {
		if !got[a] {
			t.Errorf("%s can't be reached", a)
		}
	}
	for _, a := range append(w.at(forbidden...), mine...) {
		if got[a] {
			t.Errorf("%s can be reached", a)
		}
	}
	noNetworkLeft(t)
	wantNothingLeft(t, b)
}

func TestAllowReachesOnlyWhatItLists(t *testing.T) {
	w := newWorld(t)
	b := newBackend(t)
	own := listenHere(t, "0.0.0.0:0")
	_, ownPort, _ := net.SplitHostPort(own)
	allow := func(rules ...string) skerry.Network {
		n, err := skerry.ParseNetwork("allow=" + strings.Join(rules, ","))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	all := append(w.at(append(append([]string{}, public...), forbidden...)...), "45.0.0.1:"+ownPort, "45.0.0.2:53")
	for name, c := range map[string]struct {
		network skerry.Network
		want    []string
	}{
		"one port of one private address":  {allow(fmt.Sprintf("10.9.9.9:%d", w.port)), w.at("10.9.9.9")},
		"another port":                     {allow("10.9.9.9:1"), nil},
		"a range":                          {allow("192.168.0.0/16", "[fd00::/8]:443"), w.at("192.168.7.7")},
		"the machine itself is not opened": {allow("45.0.0.0/24"), append(w.at("45.0.0.2"), "45.0.0.2:53")},
	} {
		got := reached(t, b, c.network, all, c.want)
		for _, a := range c.want {
			if !got[a] {
				t.Errorf("%s: %s can't be reached", name, a)
			}
			delete(got, a)
		}
		for a := range got {
			t.Errorf("%s: %s can be reached", name, a)
		}
	}
	noNetworkLeft(t)
}

// Nothing comes in: neither from the machine nor from beyond it.
func TestNothingComesInFromOutside(t *testing.T) {
	newWorld(t)
	b := newBackend(t)
	ref := session("in")
	s := mustCreate(t, b, skerry.SandboxSpec{Ref: ref, Network: skerry.Network{Mode: skerry.NetworkInternet}})
	if w := strings.Join(s.Info().Warnings, "\n"); !strings.Contains(w, "ip_forward") {
		t.Errorf("turning on forwarding is not told: %q", w)
	}
	ctx := within(t, time.Minute)
	if _, err := s.Start(ctx, skerry.CommandSpec{ID: "listen", Argv: []string{"python3", "-c", "import socket\ns=socket.create_server(('0.0.0.0',7777))\nopen('/tmp/up','w')\nwhile True: s.accept()[0].send(b'in')"}}); err != nil {
		t.Fatal(err)
	}
	if out := script(t, s, "while [ ! -e /tmp/up ]; do sleep 0.02; done; python3 -c \"import socket; print(socket.create_connection(('127.0.0.1',7777)).recv(2))\"; cat /proc/net/if_inet6 | wc -l"); out != "b'in'\n0\n" {
		t.Errorf("inside: %q", out)
	}
	r, _, err := b.dirs.Find(ref.Key())
	if err != nil {
		t.Fatal(err)
	}
	_, inside := (hostnet.Plan{Subnet: r.Subnet}).Addresses()
	if c, err := net.DialTimeout("tcp4", netip.AddrPortFrom(inside.Addr(), 7777).String(), time.Second); err == nil {
		c.Close()
		t.Error("the machine reaches into the sandbox")
	}
	// The supervisor dies: the next start removes rules and interface.
	if err := r.Supervisor.Signal(unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	fd, ok := r.Supervisor.Open()
	if ok {
		unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 10000)
		unix.Close(fd)
	}
	if err := b.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	noNetworkLeft(t)
	wantNothingLeft(t, b)
}

// Two sandboxes with a network can't reach each other.
func TestNeighboursAreClosed(t *testing.T) {
	newWorld(t)
	b := newBackend(t)
	n := skerry.Network{Mode: skerry.NetworkInternet}
	one := mustCreate(t, b, skerry.SandboxSpec{Ref: session("one"), Network: n})
	two := mustCreate(t, b, skerry.SandboxSpec{Ref: session("two"), Network: n})
	if _, err := one.Start(within(t, time.Minute), skerry.CommandSpec{ID: "l", Argv: []string{"python3", "-m", "http.server", "7777"}}); err != nil {
		t.Fatal(err)
	}
	r, _, err := b.dirs.Find(session("one").Key())
	if err != nil {
		t.Fatal(err)
	}
	_, inside := (hostnet.Plan{Subnet: r.Subnet}).Addresses()
	script(t, one, "until python3 -c \"import socket; socket.create_connection(('127.0.0.1',7777))\" 2>/dev/null; do :; done")
	if out := script(t, two, fmt.Sprintf("python3 -c \"import socket; socket.create_connection(('%s',7777),2); print('OPEN')\" 2>/dev/null", inside.Addr())); out != "" {
		t.Errorf("a neighbour can be reached: %q", out)
	}
}

// Without the programs, or the rights, a network is refused, by name and with
// what to install.
func TestANetworkThatCannotBeHadIsRefused(t *testing.T) {
	b := newBackend(t)
	err := hostnet.Available(os.Geteuid() == 0)
	if err == nil {
		t.Skip("everything is there")
	}
	r := sh(t, b, "true", func(s *skerry.RunSpec) { s.Sandbox.Network = skerry.Network{Mode: skerry.NetworkInternet} })
	if r.Outcome != skerry.Refused || r.Hint == "" {
		t.Errorf("%s %q %q", r.Outcome, r.Reason, r.Hint)
	}
}

// noNetworkLeft looks at the machine that the calling thread is.
func noNetworkLeft(t *testing.T) {
	t.Helper()
	for _, argv := range [][]string{{"ip", "-o", "link"}, {"nft", "list", "tables"}} {
		out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(out)) {
			if strings.Contains(line, " sk") || strings.Contains(line, "skerry_") {
				t.Errorf("left: %s", line)
			}
		}
	}
}

// As an ordinary user pasta carries the packets, and the same policy holds. The
// device that it needs is given to it in a mount namespace of the test's own.
func TestInternetAsAnOrdinaryUser(t *testing.T) {
	uid := ordinaryUser(t)
	w := newWorld(t)
	if hostnet.Available(true) != nil || hasProgram("pasta", "nsenter", "setpriv") != nil {
		cannot(t, hasProgram("pasta", "nsenter", "setpriv"))
	}
	path, err := theInit()
	if err != nil {
		t.Fatal(err)
	}
	_, dir := asUser(t, uid)
	own := listenHere(t, "0.0.0.0:0")
	_, ownPort, _ := net.SplitHostPort(own)
	closedToAll := append(w.at(forbidden...), "45.0.0.1:"+ownPort, "127.0.0.1:"+ownPort)
	targets := append(w.at(public...), closedToAll...)
	list, _ := json.Marshal(targets)
	cmd := exec.Command("unshare", "-m", "sh", "-c", `mknod "$1/tun" c 10 200 && chmod 0666 "$1/tun" && mount --bind "$1/tun" /dev/net/tun && exec setpriv --reuid "$2" --regid "$2" --clear-groups "$1/local.test"`, "sh", dir, fmt.Sprint(uid))
	cmd.Env = append(os.Environ(), childMode+"=reach", childState+"="+dir+"/s", "SKERRY_TEST_INIT="+path, "SKERRY_TEST_TARGETS="+string(list), "HOME="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	got := map[string]bool{}
	for a := range strings.FieldsSeq(string(out)) {
		got[a] = true
	}
	if got["unavailable"] {
		t.Skip(string(out))
	}
	for _, a := range w.at(public...) {
		if !got[a] {
			t.Errorf("%s can't be reached", a)
		}
	}
	for _, a := range closedToAll {
		if got[a] {
			t.Errorf("%s can be reached", a)
		}
	}
}

const reachProgram = `
import socket, threading, json, sys
def go(t):
    a, p = t.rsplit(':', 1)
    a = a.strip('[]')
    try:
        c = socket.create_connection((a, int(p)), 3)
        c.settimeout(3)
        if c.recv(5) == b'world': got.append(t)
    except OSError: pass
got = []
ts = [threading.Thread(target=go, args=(t,)) for t in json.loads(sys.argv[1])]
[t.start() for t in ts]; [t.join() for t in ts]
print(' '.join(got))  # not by the threads: their lines would run into each other
`

// beReacher is run in a client process: it prints what a sandbox reaches.
func beReacher() {
	b, err := New(Config{StateDir: os.Getenv(childState), Init: os.Getenv("SKERRY_TEST_INIT")})
	if err != nil {
		fmt.Println("unavailable", err)
		os.Exit(1)
	}
	r := skerry.Run(context.Background(), b, skerry.RunSpec{
		Sandbox: skerry.SandboxSpec{Ref: skerry.Ref{Name: "reach"}, Network: skerry.Network{Mode: skerry.NetworkInternet}},
		Command: skerry.CommandSpec{Argv: []string{"python3", "-c", reachProgram, os.Getenv("SKERRY_TEST_TARGETS")}},
	})
	if r.Outcome != skerry.Exited || *r.ExitCode != 0 {
		fmt.Println(r.Outcome, r.Reason, r.Hint, r.Stderr)
		os.Exit(1)
	}
	fmt.Print(r.Stdout)
	os.Exit(0)
}

// ordinaryUser gives the id of some user who is not root.
func ordinaryUser(t *testing.T) int {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("becoming another user needs root")
	}
	return ordinaryID
}

func hasProgram(names ...string) error {
	for _, n := range names {
		if _, err := exec.LookPath(n); err != nil {
			return err
		}
	}
	return nil
}
