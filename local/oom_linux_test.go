package local

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/skerry-run/skerry"
)

// unattractive fills memory with files, whose memory belongs to no process but
// goes with those that hold them, after it has made itself the last that the
// kernel would choose: what is left to kill is whoever else has memory, the
// init above all.
const unattractive = `for i in 0 100 200 300 400 500; do echo $i > /proc/self/oom_score_adj && break; done 2> /dev/null
for dir in /tmp /workspace /dev/shm; do
  (exec 3> $dir/x; rm $dir/x; head -c 60M /dev/zero >&3; sleep 1000) &
done
wait; sleep 1000`

func cramped(t *testing.T, b *Backend, name string) skerry.Sandbox {
	const all = 64 * skerry.MiB
	return limited(t, b, name, skerry.Limits{MemoryBytes: all, TmpBytes: all, ShmBytes: all, WorkspaceBytes: all})
}

// B098, B103: user code can't have the init killed for the memory that it
// takes itself, whatever it does to its own score.
func TestUserCodeCanNotOfferTheInitToTheKernel(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs a memory control group")
	}
	b := newBackend(t)
	s := cramped(t, b, "offered")
	for i := range 3 {
		r := one(t, s, "bash", "-c", unattractive)
		if r.Outcome != skerry.OOM || r.Usage.OOMEvents < 1 {
			t.Fatalf("round %d: %s (%s), usage %+v, stdout %q, stderr %q", i, r.Outcome, r.Reason, r.Usage, r.Stdout, r.Stderr)
		}
		// A keeper that waited may have been chosen, too; the init makes others.
		r = one(t, s, "true")
		for tries := 0; r.Outcome == skerry.StartFailed && tries < 10; tries++ {
			r = one(t, s, "true")
		}
		if r.Outcome != skerry.Exited {
			t.Fatalf("round %d, after it: %s (%s)", i, r.Outcome, r.Reason)
		}
	}
}

// B098, B100: an init that the kernel killed for memory is no riddle. The one
// who stands outside can read the counter, and the caller learns the cause.
func TestAnInitThatWasKilledForMemoryIsOutOfMemory(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs a memory control group")
	}
	b := newBackend(t)
	worst := func(ref skerry.Ref) {
		r, _, err := b.dirs.Find(ref.Key())
		if err != nil {
			t.Fatal(err)
		}
		// The test makes the kernel choose the init, which user code no longer can.
		for _, bwrapPID := range childrenOf(r.Supervisor.PID) {
			for _, pid := range childrenOf(bwrapPID) {
				if err := os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid), []byte("1000"), 0); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	check := func(what string, r skerry.Result) {
		t.Helper()
		if r.Outcome != skerry.OOM || !strings.Contains(r.Reason, "process 1") || !strings.Contains(r.Reason, "67108864") {
			t.Errorf("%s: %s (%s), hint %q; want oom with the reason that process 1 was killed for the limit", what, r.Outcome, r.Reason, r.Hint)
		}
	}
	s := cramped(t, b, "killed")
	worst(session("killed"))
	check("session", one(t, s, "bash", "-c", unattractive))

	const all = 64 * skerry.MiB
	spec := skerry.RunSpec{
		Sandbox: skerry.SandboxSpec{Ref: skerry.Ref{Name: "killed-run"}, Limits: skerry.Limits{MemoryBytes: all, TmpBytes: all, ShmBytes: all, WorkspaceBytes: all}},
		Command: skerry.CommandSpec{Argv: []string{"bash", "-c", "read x; " + unattractive}},
	}
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	defer out.Close()
	spec.Stdin = in
	ended := make(chan skerry.Result, 1)
	go func() { ended <- skerry.Run(within(t, time.Minute), b, spec) }()
	ref := skerry.Ref{Kind: skerry.RunKind, Name: "killed-run"}
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if r, alive, _ := b.dirs.Find(ref.Key()); alive && len(childrenOf(r.Supervisor.PID)) > 0 && len(childrenOf(childrenOf(r.Supervisor.PID)[0])) > 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the run was not made")
		}
	}
	worst(ref)
	out.WriteString("go\n")
	check("run", <-ended)
}

// A sandbox that dies of something else, however soon after the kernel has
// killed in it for memory, is not called out of memory without cause.
func TestADeathOfAnotherCauseIsNoOutOfMemory(t *testing.T) {
	b := newBackend(t)
	s := cramped(t, b, "murdered")
	r, _, err := b.dirs.Find(session("murdered").Key())
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.Start(within(t, time.Minute), skerry.CommandSpec{ID: "sleep", Argv: []string{"sleep", "1000"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, bwrapPID := range childrenOf(r.Supervisor.PID) {
		for _, pid := range childrenOf(bwrapPID) {
			p, err := os.FindProcess(pid)
			if err != nil {
				t.Fatal(err)
			}
			p.Kill()
		}
	}
	if _, err := c.Wait(within(t, time.Minute)); err == nil || skerry.OutcomeOf(err) != skerry.Lost {
		t.Errorf("wait: %v, outcome %s, want lost", err, skerry.OutcomeOf(err))
	}
}
