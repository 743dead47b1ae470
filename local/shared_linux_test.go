package local

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/skerry-run/skerry"
)

// shares holds memory that RLIMIT_DATA of a process does not count: as many MiB
// as its argument says, in the way that its second argument names.
const shares = `import ctypes, mmap, os, sys, time
n, how = int(sys.argv[1]), sys.argv[2]
libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
libc.shmdt.argtypes = [ctypes.c_void_p]
block = b"x" * (1 << 20)
held = []
if how == "hidden memfd":
    libc.prctl(4, 0, 0, 0, 0)
if how == "copies":
    data = bytearray(block * n)
    for i in range(4):
        if os.fork() == 0:
            time.sleep(1000)
elif how == "processes":
    for i in range(8):
        if os.fork() == 0:
            data = bytearray(block * (n // 8))
            time.sleep(1000)
else:
    for i in range(n):
        if how in ("memfd", "hidden memfd", "mapped memfd"):
            f = os.memfd_create("x")
            os.write(f, block)
            held.append(f)
            if how == "mapped memfd":
                held.append(mmap.mmap(f, 1 << 20))
                os.close(f)
        elif how == "mmap":
            m = mmap.mmap(-1, 1 << 20)
            m.write(block)
            held.append(m)
        elif how == "files":
            with open(("/tmp/%d", "/dev/shm/%d", "/workspace/%d")[i % 3] % i, "wb") as f: f.write(block)
        elif how == "shmget":
            at = libc.shmat(libc.shmget(0, 1 << 20, 0o1600), None, 0)
            ctypes.memset(at, 120, 1 << 20)
            libc.shmdt(at)
print("holds", flush=True)
time.sleep(float(sys.argv[3]))
os._exit(0)`

// Threat 8, B099: where no control group counts memory, shared memory and that
// of several processes is counted from outside, and what goes over the limit
// is ended.
func TestSharedMemoryCountsWithoutAControlGroup(t *testing.T) {
	if os.Geteuid() == 0 {
		runAsOrdinary(t, "^TestSharedMemoryCountsWithoutAControlGroup$")
		return
	}
	b := newBackend(t)
	const limit = 64 * skerry.MiB
	for _, how := range []string{"memfd", "hidden memfd", "mapped memfd", "mmap", "files", "shmget", "processes"} {
		s := limited(t, b, "shared-"+strings.ReplaceAll(how, " ", "-"), skerry.Limits{MemoryBytes: limit, TmpBytes: limit, ShmBytes: limit, WorkspaceBytes: limit})
		if u, err := s.Usage(within(t, time.Minute)); err != nil || u.OOMEvents >= 0 {
			t.Skipf("this user has a memory control group: %+v, %v", u, err)
		}
		if r := one(t, s, "python3", "-c", shares, "16", how, "1"); r.Outcome != skerry.Exited || r.Stdout != "holds\n" {
			t.Errorf("%s below the limit: %s (%s), stderr %q", how, r.Outcome, r.Reason, r.Stderr)
		}
		r := one(t, s, "python3", "-c", shares, "120", how, "1000")
		if r.Outcome != skerry.OOM || !strings.Contains(r.Reason, "67108864") || !strings.Contains(r.Reason, "measured") {
			t.Errorf("%s: %s (%s), stdout %q, stderr %q; want oom, and how it was found", how, r.Outcome, r.Reason, r.Stdout, r.Stderr)
		}
	}
	// Pages that several processes share are counted once.
	s := limited(t, b, "shared-copies", skerry.Limits{MemoryBytes: limit})
	if r := one(t, s, "python3", "-c", shares, "16", "copies", "2"); r.Outcome != skerry.Exited || r.Stdout != "holds\n" {
		t.Errorf("copies: %s (%s), stderr %q", r.Outcome, r.Reason, r.Stderr)
	}
}
