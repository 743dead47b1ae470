package local

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/skerry-run/skerry"
)

// py runs a Python program in a fresh run, which must exit with 0, and gives
// its output.
func py(t *testing.T, b *Backend, code string, change ...func(*skerry.RunSpec)) string {
	t.Helper()
	change = append(change, func(s *skerry.RunSpec) { s.Command.Argv = []string{"python3", "-c", code} })
	r := sh(t, b, "", change...)
	if r.Outcome != skerry.Exited || *r.ExitCode != 0 {
		t.Fatalf("outcome %s, code %v, reason %q, stderr %q", r.Outcome, r.ExitCode, r.Reason, r.Stderr)
	}
	return r.Stdout
}

// Threat 26: a sandbox that root starts must not have root's kernel uid.
func TestRootsUserIsNeverMapped(t *testing.T) {
	b := newBackend(t)
	ref := skerry.Ref{Kind: skerry.SessionKind, Name: "uid"}
	session, err := b.Create(within(t, time.Minute), skerry.SandboxSpec{Ref: ref})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Delete(t.Context(), ref, skerry.DeleteOptions{})
	defer session.Close()
	mark := fmt.Sprintf("300.%d", os.Getpid())
	if _, err := session.Start(t.Context(), skerry.CommandSpec{ID: "sleep", Argv: []string{"sleep", mark}}); err != nil {
		t.Fatal(err)
	}
	ids := idsOf(t, mark)
	if len(ids) != 1 {
		t.Fatalf("%d processes on the host carry the mark", len(ids))
	}
	for _, id := range ids[0] {
		if id == 0 || os.Geteuid() == 0 && id < 0x78000000 || os.Geteuid() != 0 && id != os.Geteuid() && id != os.Getegid() {
			t.Errorf("the kernel knows it by uids and gids %v", ids[0])
		}
	}
	out := py(t, b, `
import os
print(os.getuid(), os.getgid(), os.getgroups())
for p in ('/etc/shadow', '/etc/sudoers', '/root', '/var', '/home/tester', '/opt', '/srv', '/boot', '/sys/kernel', '/sys/fs/cgroup/release_agent'):
    if os.path.lexists(p): print('EXISTS', p)
import pwd
print(pwd.getpwuid(1000).pw_name, os.path.expanduser('~'))
print([l for l in open('/proc/self/status') if l.startswith(('CapEff', 'CapBnd', 'CapPrm', 'NoNewPrivs', 'Seccomp:'))])
`)
	if strings.Contains(out, "EXISTS") {
		t.Errorf("host files are there:\n%s", out)
	}
	if !strings.Contains(out, "skerry /home/skerry") {
		t.Errorf("no account of its own:\n%s", out)
	}
	for _, want := range []string{`CapEff:\t0000000000000000`, `CapPrm:\t0000000000000000`, `NoNewPrivs:\t1`, `Seccomp:\t2`} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in %s", want, out)
		}
	}
}

// idsOf gives the kernel's uids and gids of every process with mark as its
// last argument.
func idsOf(t *testing.T, mark string) [][]int {
	t.Helper()
	var out [][]int
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		cmdline, _ := os.ReadFile(f)
		if !strings.HasSuffix(string(cmdline), "\x00"+mark+"\x00") {
			continue
		}
		status, err := os.ReadFile(filepath.Join(filepath.Dir(f), "status"))
		if err != nil {
			t.Fatal(err)
		}
		var ids []int
		for line := range strings.Lines(string(status)) {
			if strings.HasPrefix(line, "Uid:") || strings.HasPrefix(line, "Gid:") {
				for _, n := range strings.Fields(line)[1:] {
					id, _ := strconv.Atoi(n)
					ids = append(ids, id)
				}
			}
		}
		out = append(out, ids)
	}
	return out
}

// Threats 26 and 27: what belongs to the kernel and the system can't be
// written.
func TestTheSystemCannotBeWritten(t *testing.T) {
	b := newBackend(t)
	out := py(t, b, `
import os, glob
tries = ['/x', '/dev/x', '/etc/x', '/usr/x', '/usr/bin/x', '/run/x', '/run/skerry/x', '/run/skerry/init', '/sys/x', '/sys/fs/cgroup/x',
  '/proc/sysrq-trigger', '/proc/sys/kernel/hostname', '/proc/sys/kernel/core_pattern', '/proc/sys/vm/drop_caches',
  '/proc/sys/net/ipv4/ip_forward', '/proc/sys/user/max_user_namespaces', '/proc/sys/kernel/domainname', '/home/x', '/etc/passwd', '/etc/resolv.conf']
tries += glob.glob('/sys/fs/cgroup/*') + glob.glob('/sys/fs/cgroup/*/*')
for p in tries:
    try:
        with open(p, 'w') as f: pass
        print('OPENED', p)
    except OSError: pass
for p in ('/etc', '/usr', '/bin', '/dev/null', '/proc/sys', '/run/skerry/init'):
    try: os.chmod(p, 0o777); print('CHMOD', p)
    except OSError: pass
try: open('/run/skerry/init','rb'); print('READ init')
except OSError: pass
for p in ('/proc/kcore', '/proc/keys', '/proc/timer_list', '/proc/kmsg', '/dev/mem', '/dev/kmsg'):
    try:
        if open(p,'rb').read(64): print('READ', p)
    except OSError: pass
`)
	if out != "" {
		t.Errorf("these should have failed:\n%s", out)
	}
	// The init's copy has 0111 also for the user it belongs to; what reading
	// needs is forbidden by its mode, what running needs is not.
}

// Threat 27: unix sockets, terminals, keys, namespaces, other processes.
func TestKnownWaysOut(t *testing.T) {
	dir, err := os.MkdirTemp("", "sock-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	os.Chmod(dir, 0o755)
	os.Chmod(path, 0o777)
	abstract := fmt.Sprintf("@skerry-test-%d", os.Getpid())
	l2, err := net.Listen("unix", abstract)
	if err != nil {
		t.Fatal(err)
	}
	defer l2.Close()
	b := newBackend(t)
	out := py(t, b, fmt.Sprintf(`
import os, socket, ctypes, fcntl, struct, subprocess, pty
libc = ctypes.CDLL(None, use_errno=True)
for a in (%q, '\0' + %q):
    s = socket.socket(socket.AF_UNIX)
    try: s.connect(a); print('CONNECTED', a)
    except OSError: pass
    s.close()
# TIOCSTI into the terminal of whoever started us
try:
    fd = os.open('/dev/tty', os.O_RDWR); print('TTY')
    fcntl.ioctl(fd, 0x5412, b'x'); print('TIOCSTI')
except OSError: pass
for fd in (0, 1, 2):
    try: fcntl.ioctl(fd, 0x5412, b'x'); print('TIOCSTI', fd)
    except OSError: pass
import platform
x86 = platform.machine() == 'x86_64'
keyctl, addkey, unshare, mount, ptrace, bpf, setns = (250, 248, 272, 165, 101, 321, 308) if x86 else (219, 217, 97, 40, 117, 280, 268)
def call(name, *a):
    if libc.syscall(*a) >= 0: print('WORKED', name)
call('keyctl', keyctl, 0, -3, 1)
call('add_key', addkey, b'user', b'x', b'y', 1, -3)
call('unshare user', unshare, 0x10000000)
call('unshare net', unshare, 0x40000000)
call('unshare mount', unshare, 0x20000)
call('mount', mount, b'none', b'/tmp', b'tmpfs', 0, 0)
call('bpf', bpf, 0, 0, 0)
try:
    fd = os.open('/proc/1/ns/mnt', os.O_RDONLY); call('setns', setns, fd, 0)
except OSError: pass
r = subprocess.run(['unshare', '-U', 'true'], capture_output=True)
if r.returncode == 0: print('NESTED USERNS')
for f in ('environ', 'mem', 'maps', 'root', 'cwd', 'fd', 'exe'):
    p = '/proc/1/' + f
    try:
        if f in ('root', 'cwd', 'exe'): os.readlink(p); print('READ', p)
        elif f == 'fd': os.listdir(p) and print('READ', p)
        elif open(p, 'rb').read(1): print('READ', p)
    except OSError: pass
extra = [os.readlink('/proc/self/fd/%%d' %% fd) for fd in range(3, 100) if os.path.exists('/proc/self/fd/%%d' %% fd)]
if extra: print('FDS', extra)
pty.openpty()  # must go on working on a read-only /dev
try: os.kill(1, 9); os.kill(1, 11)
except OSError: pass
`, path, abstract[1:]))
	if out != "" {
		t.Errorf("these should have failed:\n%s", out)
	}
}

// B182, B183, X1: nothing of the caller's environment, also not in /proc.
func TestTheCallersEnvironmentStaysOutside(t *testing.T) {
	for k, v := range map[string]string{"AWS_SECRET_ACCESS_KEY": "s3cr3t-1", "DATABASE_URL": "postgres://u:s3cr3t-2@h", "SENTRY_DSN": "s3cr3t-3", "SSH_AUTH_SOCK": "/s3cr3t-4"} {
		t.Setenv(k, v)
	}
	b := newBackend(t)
	out := py(t, b, `
import glob, os
print(sorted(os.environ))
for f in glob.glob('/proc/[0-9]*/environ') + glob.glob('/proc/[0-9]*/cmdline'):
    try: d = open(f, 'rb').read()
    except OSError: continue
    if b's3cr3t' + b'-' in d: print('LEAK', f)
`, func(s *skerry.RunSpec) { s.Sandbox.Env = map[string]string{"GIVEN": "yes"} })
	if strings.Contains(out, "LEAK") || strings.Contains(out, "s3cr3t-") {
		t.Error(out)
	}
	for _, name := range []string{"AWS_", "DATABASE_URL", "SENTRY_DSN", "SSH_AUTH_SOCK"} {
		if strings.Contains(out, name) {
			t.Errorf("%s is set inside: %s", name, out)
		}
	}
	if !strings.Contains(out, "'GIVEN'") {
		t.Errorf("what was given is missing: %s", out)
	}
}

// Threat 28: the network is a loopback of its own.
func TestDeniedNetworkIsOnlyALoopback(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	b := newBackend(t)
	out := py(t, b, fmt.Sprintf(`
import socket
print([l.split(':')[0].strip() for l in open('/proc/net/dev').readlines()[2:]])
try: socket.create_connection(('127.0.0.1', %d), 2); print('OPEN')
except OSError: pass
for a in ('192.0.2.1', '169.254.169.254'):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try: s.connect((a, 53)); print('ROUTE', a)
    except OSError: pass
s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen(1); socket.create_connection(s.getsockname()); print('loopback')
`, l.Addr().(*net.TCPAddr).Port))
	if out != "['lo']\nloopback\n" {
		t.Errorf("got %q", out)
	}
}

// Threats 8 and 27, B101: memory file systems, tasks and files have bounds.
func TestBounds(t *testing.T) {
	b := newBackend(t)
	out := py(t, b, `
import os, errno
def fill(p, mb):
    n = 0
    try:
        with open(p, 'wb', buffering=0) as f:
            for _ in range(mb): n += f.write(b'\0' * (1 << 20))
    except OSError as e: print(p, errno.errorcode[e.errno], n >> 20 if n else 0)
    else: print(p, 'no bound below', mb)
    os.path.exists(p) and os.remove(p)
fill('/tmp/f', 40)
fill('/dev/shm/f', 40)
fill('/workspace/f', 40)
fill(os.path.expanduser('~/f'), 40)
kids = []
try:
    for _ in range(400):
        p = os.fork()
        if p == 0:
            import signal; signal.pause()
        kids.append(p)
    print('no bound on tasks')
except OSError as e: print('fork', errno.errorcode[e.errno], 20 < len(kids) < 200)
for k in kids: os.kill(k, 9)
`, func(s *skerry.RunSpec) {
		s.Sandbox.Limits = skerry.Limits{TmpBytes: 8 << 20, ShmBytes: 4 << 20, WorkspaceBytes: 16 << 20, PIDs: 64}
	})
	want := []string{"/tmp/f ENOSPC 8", "/dev/shm/f ENOSPC 4", "/workspace/f ENOSPC 14", "/home/skerry/f ENOSPC 2", "fork EAGAIN True"}
	for _, w := range want {
		if !strings.Contains(out, w+"\n") {
			t.Errorf("no %q in\n%s", w, out)
		}
	}
}

// An init that was taken over could not fill the host's disk through its spools.
func TestTheInitItselfHasBounds(t *testing.T) {
	b := newBackend(t)
	ref := session("init")
	mustCreate(t, b, skerry.SandboxSpec{Ref: ref}).Close()
	r, _, err := b.dirs.Find(ref.Key())
	if err != nil {
		t.Fatal(err)
	}
	for _, bwrapPID := range childrenOf(r.Supervisor.PID) {
		for _, pid := range append(childrenOf(bwrapPID), bwrapPID) {
			text, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", pid))
			if err != nil {
				continue // the init lets nobody look but root
			}
			for line := range strings.Lines(string(text)) {
				if strings.HasPrefix(line, "Max file size") && strings.Contains(line, "unlimited  ") && strings.Count(line, "unlimited") > 1 {
					t.Errorf("process %d: %s", pid, line)
				}
			}
		}
	}
}

// B189: making mount points must not litter the host.
func TestTheHostsFoldersStayAsTheyWere(t *testing.T) {
	list := func() string {
		var names []string
		for _, dir := range []string{"/", "/etc", "/usr", "/run", "/home", "/proc/sys", "/usr/local"} {
			entries, _ := os.ReadDir(dir)
			for _, e := range entries {
				if dir != "/" || e.Name() != "tmp" {
					names = append(names, dir+"/"+e.Name())
				}
			}
		}
		return strings.Join(names, "\n")
	}
	b := newBackend(t)
	before := list()
	if r := sh(t, b, "true"); r.Outcome != skerry.Exited {
		t.Fatal(r.Reason)
	}
	if after := list(); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
}
