package local

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/skerry-run/skerry"
	"github.com/skerry-run/skerry/internal/boxes"
	"github.com/skerry-run/skerry/internal/hostnet"
)

// User code opens its kept workspace to everybody and leaves a setuid program
// there. No other user of the machine comes to either: not while the session
// lives, nor later.
func TestOtherUsersOfTheMachineDoNotReachAVolume(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to be another user")
	}
	b := newBackend(t)
	ref := session("open")
	s := mustCreate(t, b, skerry.SandboxSpec{Ref: ref, Persistent: true})
	defer s.Close()
	script(t, s, "chmod 777 . ~; echo private > f; chmod 666 f; cp /bin/bash sx; chmod 6755 sx")
	workspace := filepath.Join(b.dirs.State, "volumes", ref.Key(), "workspace")
	look := func(when string) {
		t.Helper()
		cmd := exec.Command("/bin/bash", "-c", `cat "$1/f"; echo changed > "$1/f"; "$1/sx" -p -c id; touch "$1/g"`, "x", workspace)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 1001, Gid: 1001}}
		cmd.Env, cmd.Dir = []string{"PATH=/usr/bin:/bin"}, "/"
		out, _ := cmd.CombinedOutput()
		if strings.Contains(string(out), "private") || strings.Contains(string(out), "uid=") {
			t.Errorf("%s another user got: %s", when, out)
		}
		if data, err := os.ReadFile(filepath.Join(workspace, "f")); err != nil || string(data) != "private\n" {
			t.Errorf("%s the file is %q, %v", when, data, err)
		}
		if _, err := os.Lstat(filepath.Join(workspace, "g")); err == nil {
			t.Errorf("%s another user made a file", when)
		}
	}
	look("while it lives")
	if err := b.Delete(within(t, time.Minute), ref, skerry.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	look("after its end")
	again := mustCreate(t, b, skerry.SandboxSpec{Ref: ref, Persistent: true})
	defer again.Close()
	if got := script(t, again, "cat f"); got != "private\n" {
		t.Errorf("the session itself reads %q", got)
	}
}

// Data that waits in the sockets of a sandbox counts: without a limit of its
// own it is limited only by what the whole machine has for them.
func TestSocketBuffersAreLimited(t *testing.T) {
	b := newBackend(t)
	if os.Geteuid() != 0 {
		t.Skip("needs a memory control group")
	}
	const limit = 64 * skerry.MiB
	out := py(t, b, `
import socket, resource, time
resource.setrlimit(resource.RLIMIT_NOFILE, (1000, 16384))
l = socket.socket(); l.bind(('127.0.0.1', 0)); l.listen(100)
end, sent, keep, data = time.time() + 5, 0, [], b'x' * 65536
for i in range(80):
    c = socket.socket(); c.settimeout(0.1); c.connect(l.getsockname()); keep += [c, l.accept()[0]]
    try:
        while time.time() < end: sent += c.send(data)
    except OSError: pass
print(sent)
`, func(s *skerry.RunSpec) { s.Sandbox.Limits.MemoryBytes = limit })
	sent, err := strconv.ParseInt(strings.TrimSpace(out), 10, 64)
	if err != nil || sent < skerry.MiB {
		t.Fatalf("it sent %q", out)
	}
	t.Logf("%d MiB wait in sockets", sent/skerry.MiB)
	if sent > limit*5/4 { // the kernel lets a little more through
		t.Errorf("%d MiB wait in the sockets of a sandbox of %d MiB", sent/skerry.MiB, limit/skerry.MiB)
	}
}

// Two installations have a session of the same name: they share no user, and
// cleaning up after the one that died leaves the other alone.
func TestInstallationsLeaveEachOtherAlone(t *testing.T) {
	one, two := newBackend(t), newBackend(t)
	ref := session("same")
	mustCreate(t, one, skerry.SandboxSpec{Ref: ref}).Close()
	s := mustCreate(t, two, skerry.SandboxSpec{Ref: ref})
	defer s.Close()
	records := map[*Backend]boxes.Record{}
	for _, b := range []*Backend{one, two} {
		r, alive, err := b.dirs.Find(ref.Key())
		if err != nil || !alive {
			t.Fatal(alive, err)
		}
		records[b] = r
	}
	if os.Geteuid() == 0 && records[one].UID == records[two].UID {
		t.Errorf("both run as user %d", records[one].UID)
	}
	if err := records[one].Supervisor.Signal(unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(10 * time.Second); one.dirs.Exists(ref.Key()) && time.Now().Before(end); {
		if err := one.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if one.dirs.Exists(ref.Key()) {
		t.Fatal("the dead one was not swept")
	}
	if got := script(t, s, "echo lives"); got != "lives\n" {
		t.Errorf("the other one says %q", got)
	}
}

// Two installations have sandboxes of one name with a network each: neither
// takes the other's away.
func TestInstallationsHaveNetworksOfTheirOwn(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("as an ordinary user there is nothing on the host to share")
	}
	if err := hostnet.Available(true); err != nil {
		cannot(t, err)
	}
	one, two := newBackend(t), newBackend(t)
	spec := skerry.SandboxSpec{Ref: session("same"), Network: skerry.Network{Mode: skerry.NetworkInternet}}
	first := mustCreate(t, one, spec)
	defer first.Close()
	mustCreate(t, two, spec).Close()
	if err := two.Delete(within(t, time.Minute), spec.Ref, skerry.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	device := hostnet.Plan{Key: one.dirs.NetworkKey(spec.Ref.Key())}.HostName()
	if _, err := os.Stat("/sys/class/net/" + device); err != nil {
		t.Errorf("the first one has lost its network: %v", err)
	}
	if err := one.Delete(within(t, time.Minute), spec.Ref, skerry.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat("/sys/class/net/" + device); err == nil {
		t.Error("its network was left behind")
	}
}
