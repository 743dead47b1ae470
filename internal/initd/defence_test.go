//go:build linux

package initd

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// attackLib is what the attacks on the init are written with: raw system
// calls, so that no library stands between.
const attackLib = `
import ctypes, os, sys, signal, errno, struct, time
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
def call(nr, *args):
    ctypes.set_errno(0)
    r = libc.syscall(ctypes.c_long(nr), *[a if isinstance(a, (bytes, ctypes.Array)) else ctypes.c_long(a) for a in args])
    return errno.errorcode.get(ctypes.get_errno(), '?') if r < 0 else 'OK'
keeper = os.getppid()
def want(name, got, *allowed):
    if got not in (allowed or ('EPERM',)):
        print(name, 'gave', got)
`

func (b *box) attack(t *testing.T, code string) {
	t.Helper()
	r := b.run(argv("python3", "-c", attackLib+code))
	wantExit(t, r, 0)
	if r.stdout != "" || r.stderr != "" {
		t.Errorf("the attack says:\n%s%s", r.stdout, r.stderr)
	}
}

// Threats 1 and 2: the init is not dumpable, and the filter keeps user code
// from everything that reaches it by its pid.
func TestUserCodeCanNotReachTheInit(t *testing.T) {
	b := newBox(t, Config{})
	b.attack(t, `
for pid in (1, keeper):
    for name, how in (('mem', os.O_RDWR), ('environ', os.O_RDONLY), ('maps', os.O_RDONLY), ('oom_score_adj', os.O_WRONLY), ('coredump_filter', os.O_WRONLY), ('clear_refs', os.O_WRONLY)):
        try:
            fd = os.open('/proc/%d/%s' % (pid, name), how)
            print(pid, name, 'opened')
        except OSError as e:
            want(name, errno.errorcode[e.errno], 'EACCES', 'EPERM', 'ENOENT')
    for name in ('fd', 'exe', 'cwd', 'root', 'ns/pid'):
        try:
            if name == 'fd': os.listdir('/proc/%d/fd' % pid)
            else: os.readlink('/proc/%d/%s' % (pid, name))
            print(pid, name, 'read')
        except OSError as e:
            want(name, errno.errorcode[e.errno], 'EACCES', 'EPERM')
    want('ptrace attach', call(101, 16, pid, 0, 0))
    want('ptrace seize', call(101, 0x4206, pid, 0, 0))
    want('process_vm_readv', call(310, pid, 0, 0, 0, 0, 0))
    want('process_vm_writev', call(311, pid, 0, 0, 0, 0, 0))
    for sig in (0, 9, 11, 19, 15):
        want('kill %d' % sig, call(62, pid, sig))
        want('kill %d with rubbish above' % sig, call(62, pid | 0x100000000, sig))
        want('tkill', call(200, pid, sig))
        want('tgkill', call(234, pid, pid, sig))
    info = struct.pack('iii', signal.SIGSEGV, 0, -1) + b'\0' * 116
    want('rt_sigqueueinfo', call(129, pid, signal.SIGSEGV, info))
    want('rt_tgsigqueueinfo', call(297, pid, pid, signal.SIGSEGV, info))
    want('pidfd_open', call(434, pid, 0))
    fd = os.open('/proc/%d' % pid, os.O_RDONLY)
    want('pidfd_send_signal', call(424, fd, signal.SIGSEGV, info, 0))
    want('pidfd_send_signal without info', call(424, fd, signal.SIGSEGV, 0, 0))
    want('prlimit nofile', call(302, pid, 7, struct.pack('QQ', 0, 0), 0))
    want('prlimit cpu', call(302, pid, 0, struct.pack('QQ', 0, 0), 0))
    want('sched_setaffinity', call(203, pid, 8, struct.pack('Q', 1)))
    want('sched_setscheduler', call(144, pid, 5, struct.pack('i', 0)))
    want('setpriority', call(141, 0, pid, 19))
    want('ioprio_set', call(251, 1, pid, 0))
    want('migrate_pages', call(256, pid, 1, 0, 0))
    want('move_pages', call(279, pid, 0, 0, 0, 0, 0))
want('kill all', call(62, -1, 9))
want('kill group of keeper', call(62, -keeper, 9))
want('setpriority user', call(141, 2, 0, 19))
want('pidfd_getfd', call(438, 0, 0, 0))
`)
	wantExit(t, b.run(argv("true")), 0)
}

func TestUserCodeCanNotLeaveItsNamespaces(t *testing.T) {
	b := newBox(t, Config{})
	b.attack(t, `
for flag in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000):
    want('unshare %x' % flag, call(272, flag))
    want('clone %x' % flag, call(56, flag | 17, 0, 0, 0, 0))
want('clone3', call(435, 0, 0), 'ENOSYS')
want('setns', call(308, 0, 0))
want('keyctl', call(250, 0, 0))
want('add_key', call(248, 0, 0, 0, 0, 0))
want('request_key', call(249, 0, 0, 0, 0))
r, w = os.pipe()
want('F_SETOWN', call(72, r, 8, 1))
want('F_SETOWN_EX', call(72, r, 15, struct.pack('ii', 0, 1)))
want('FIOSETOWN', call(16, r, 0x8901, struct.pack('i', 1)))
want('SIOCSPGRP', call(16, r, 0x8902, struct.pack('i', 1)))
want('TIOCSTI', call(16, 0, 0x5412, b'x'))
want('TIOCLINUX', call(16, 0, 0x541c, b'\2'))
`)
	// A call of another architecture is the end of the program.
	r := b.run(argv("python3", "-c", attackLib+"call(0x40000000 | 39); print('lived')"))
	if r.exit.Outcome != "signaled" || r.exit.Signal != int32(unix.SIGSYS) || r.stdout != "" {
		t.Errorf("an x32 call gave %v, want SIGSYS", r)
	}
}

// A crash of user code must not start the program that the host pipes core
// dumps into. The kernel starts it for every limit but 1, so that can't be
// changed; whoever sets 0 is told that it is.
func TestCrashesRunNothingOnTheHost(t *testing.T) {
	b := newBox(t, Config{})
	b.attack(t, `
import mmap, resource
def limit(): return resource.getrlimit(resource.RLIMIT_CORE)
if limit() != (1, 1): print('the limit of core dumps is', limit())
want('setrlimit', call(160, 4, struct.pack('QQ', 0, 0)), 'OK')
want('prlimit', call(302, 0, 4, struct.pack('QQ', 0, 0), 0), 'OK')
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
# A pointer of which the low half is 0, and rubbish above the number.
libc.mmap.restype, libc.mmap.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
at = libc.mmap(1 << 36, 4096, 3, 0x32, -1, 0)
want('prlimit elsewhere', call(302, 0, 4 | 1 << 32, at, 0), 'OK')
if limit() != (1, 1): print('now it is', limit())
resource.setrlimit(resource.RLIMIT_NOFILE, (100, 200))
if resource.getrlimit(resource.RLIMIT_NOFILE) != (100, 200): print('other limits can not be set')
`)
	wantExit(t, b.run(sh("ulimit -c 0 && ulimit -a >/dev/null")), 0)
}

// Signals with handlers, from kill, do nothing to an init that catches all.
func TestTheInitOutlivesSignals(t *testing.T) {
	b := newBox(t, Config{})
	// Threads of PID 1 have ids of their own that no filter can know.
	r := b.run(argv("python3", "-c", attackLib+`
for tid in os.listdir('/proc/1/task'):
    for sig in range(1, 65):
        if sig not in (32, 33):
            call(62, int(tid), sig); call(200, int(tid), sig)
print('done')
`))
	if r.stdout != "done\n" {
		t.Errorf("got %v", r)
	}
	wantExit(t, b.run(argv("true")), 0)
}

// What ordinary programs do with processes still works.
func TestOrdinaryProgramsLiveWithTheFilter(t *testing.T) {
	b := newBox(t, Config{})
	for name, r := range map[string]result{
		"subprocess": b.run(argv("python3", "-c", `
import subprocess, multiprocessing, os, signal, threading, time
p = subprocess.Popen(['sleep', '60']); p.terminate(); assert p.wait() == -15
p = subprocess.Popen(['sleep', '60'], start_new_session=True); os.killpg(p.pid, 9); assert p.wait() == -9
with multiprocessing.Pool(2) as pool: assert pool.map(abs, [-1, -2]) == [1, 2]
p = subprocess.Popen(['sleep', '60']); fd = os.pidfd_open(p.pid); signal.pidfd_send_signal(fd, 9); assert p.wait() == -9
threading.Thread(target=lambda: None).start()
os.sched_getaffinity(0); os.nice(1)
import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
signal.raise_signal(0) if False else None
print('ok')`)),
		"bash": b.run(sh("sleep 60 & kill $!; wait $!; [ $? = 143 ]; (exit 3); kill -0 $$; trap 'echo usr' USR1; kill -USR1 $$; kill -0 0; ulimit -n 100; echo ok")),
	} {
		if r.exit.ExitCode != 0 || !strings.HasSuffix(r.stdout, "ok\n") {
			t.Errorf("%s: %v", name, r)
		}
	}
}
