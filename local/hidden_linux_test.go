package local

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/skerry-run/skerry"
)

// hides writes as many MiB as its argument says to files without a name, of
// which nobody in the sandbox can see who holds them, in the way that its
// second argument names.
const hides = `import ctypes, mmap, os, sys, threading, time
libc = ctypes.CDLL(None)
def fill():
    for i in range(int(sys.argv[1])):
        f = os.open("/workspace/f%d" % i, os.O_CREAT | os.O_EXCL | os.O_RDWR)
        if sys.argv[2] != "named":
            os.unlink("/workspace/f%d" % i)
        os.write(f, b"x" * (1 << 20))
        if sys.argv[2] == "mapped":
            held.append(mmap.mmap(f, 1 << 20))
            os.close(f)
held = []
if sys.argv[2] == "thread":
    def alone():
        libc.unshare(0x400) # files of its own
        fill()
        time.sleep(1000)
    libc.prctl(4, 0, 0, 0, 0)
    threading.Thread(target=alone).start()
else:
    libc.prctl(4, 0, 0, 0, 0)
    fill()
print("filled", flush=True)
time.sleep(1000)`

// Threat 9: a process that lets nobody look at it hides no files from who
// stands outside.
func TestHiddenFilesCountOnTheDisk(t *testing.T) {
	b := newBackend(t)
	const limit = 8 * skerry.MiB
	s := mustCreate(t, b, skerry.SandboxSpec{Ref: session("hidden"), Persistent: true, Limits: skerry.Limits{WorkspaceBytes: limit}})
	for _, how := range []string{"open", "mapped", "thread"} {
		r := one(t, s, "python3", "-c", hides, "24", how)
		if r.Outcome != skerry.Evicted || !strings.Contains(r.Reason, "8388608") {
			t.Errorf("%s: %s (%s), stdout %q, stderr %q; want evicted, and the limit", how, r.Outcome, r.Reason, r.Stdout, r.Stderr)
		}
		if r := one(t, s, "true"); r.Outcome != skerry.Exited {
			t.Errorf("%s: after it: %s (%s)", how, r.Outcome, r.Reason)
		}
		// Below the limit nothing happens, hidden or not.
		if r := one(t, s, "timeout", "2", "python3", "-c", hides, "4", how); r.Outcome != skerry.Exited || r.Stdout != "filled\n" {
			t.Errorf("%s: below the limit: %s (%s), stderr %q", how, r.Outcome, r.Reason, r.Stderr)
		}
	}
}

// What a command left running is ended, too, when it writes too much.
func TestWhatACommandLeftRunningHasTheSameLimit(t *testing.T) {
	b := newBackend(t)
	for _, how := range []string{"open", "mapped", "named"} {
		s := mustCreate(t, b, skerry.SandboxSpec{Ref: session("left-" + how), Persistent: true, Limits: skerry.Limits{WorkspaceBytes: 8 * skerry.MiB}})
		mark := fmt.Sprintf("left-%d-%s", os.Getpid(), how)
		// It begins to write when its maker has ended.
		r := one(t, s, "bash", "-c", `(until test -e go; do sleep 0.1; done; exec python3 -c "$0" 24 "$@") > /dev/null 2>&1 & disown`, hides, how, mark)
		if r.Outcome != skerry.Exited {
			t.Fatalf("%s: %s (%s), stderr %q", how, r.Outcome, r.Reason, r.Stderr)
		}
		if len(idsOf(t, mark)) == 0 {
			t.Fatalf("%s: nothing was left running", how)
		}
		if _, err := s.Files().Write(within(t, time.Minute), "/workspace/go", strings.NewReader(""), skerry.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(30 * time.Second); len(idsOf(t, mark)) > 0; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s: it still runs", how)
			}
		}
	}
}
