//go:build linux

package initd

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	pb "github.com/skerry-run/skerry/internal/initproto"
)

// processes lists what runs in the sandbox besides the init, its keepers, and
// the process that looks.
func (b *box) processes() []string {
	b.t.Helper()
	r := b.run(sh(`for p in /proc/[0-9]*; do
  c=$(tr '\0' ' ' <$p/cmdline 2>/dev/null); s=$(cut -d')' -f2- $p/stat 2>/dev/null | cut -d' ' -f2)
  case "$c" in skerry-init*|/run/skerry/init*|*"for p in /proc"*|*tr*|*cut*) continue;; esac
  [ "$s" ] && echo "${p#/proc/} $s $c"; done; true`))
	var list []string
	for line := range strings.Lines(r.stdout) {
		if line = strings.TrimSpace(line); line != "" {
			list = append(list, line)
		}
	}
	return list
}

func (b *box) wantNoProcesses() {
	b.t.Helper()
	var left []string
	for range 200 {
		if left = b.processes(); len(left) == 0 {
			return
		}
	}
	b.t.Errorf("these live on:\n%s", strings.Join(left, "\n"))
}

func TestATimeoutEndsTheWholeTree(t *testing.T) {
	for name, text := range map[string]string{
		"B069 pipeline":      "echo early; while sleep 0.1; do date; done | cat >/dev/null",
		"B070 children":      "echo early; sleep 601 & sleep 602",
		"B071 setsid":        "echo early; setsid sleep 600 & sleep 600",
		"B068 worker stays":  "echo early; (setsid sleep 45 &) ; sleep 45",
		"double fork":        "echo early; ( ( setsid sleep 500 & ) & ); sleep 500",
		"TERM is ignored":    "trap '' TERM; echo early; (trap '' TERM; setsid sleep 500) & while :; do sleep 100; done",
		"stopped":            "echo early; sleep 600 & kill -STOP $!; kill -STOP $$",
		"reparented stopped": "echo early; (setsid bash -c 'kill -STOP $$' &) ; sleep 500",
		"B059 python":        "exec python3 -uc 'import time\nprint(\"early\")\ntime.sleep(60)'",
	} {
		t.Run(name, func(t *testing.T) {
			for _, session := range []bool{false, true} {
				b := newBox(t, Config{Session: session})
				r := sh(text)
				r.TimeoutMs, r.GraceMs = 400, 200
				got := b.run(r)
				if got.exit.Outcome != "timeout" || got.exit.HasExitCode || got.exit.Reason != "command limit of 400ms" {
					t.Errorf("session %v: got %v, want timeout with its limit", session, got)
				}
				if got.stdout != "early\n" {
					t.Errorf("session %v: got %v, want the output before the limit", session, got)
				}
				b.wantNoProcesses()
			}
		})
	}
}

// B036, B035: a status is never taken for something else.
func TestAProgramsOwnStatusStays(t *testing.T) {
	b := newBox(t, Config{})
	for _, code := range []int32{0, 1, 2, 3, 124, 125, 126, 127, 130, 137, 143, 255} {
		r := sh(fmt.Sprintf("echo 'timed out after 3s' >&2; exit %d", code))
		r.TimeoutMs = 30_000
		got := b.run(r)
		wantExit(t, got, code)
		if got.exit.Reason != "" || got.stderr != "timed out after 3s\n" {
			t.Errorf("got %v", got)
		}
	}
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL, syscall.SIGSEGV} {
		got := b.run(sh(fmt.Sprintf("kill -%d $$", int(sig))))
		if got.exit.Outcome != "signaled" || got.exit.Signal != int32(sig) || got.exit.HasExitCode {
			t.Errorf("signal %d gave %v", sig, got)
		}
	}
}

// B067: the end is the end of the process, whatever holds its pipes.
func TestABackgroundChildDoesNotHoldTheEnd(t *testing.T) {
	for _, text := range []string{"sleep 100 & echo hi", "nohup sleep 100 >/dev/null & echo hi", "setsid sleep 100 & echo hi", "sleep 100 & sleep 100 & echo hi"} {
		run := newBox(t, Config{})
		got := run.run(sh(text))
		wantExit(t, got, 0)
		if got.stdout != "hi\n" {
			t.Errorf("%q gave %v", text, got)
		}
		run.wantNoProcesses()
		session := newBox(t, Config{Session: true})
		got = session.run(script(text))
		wantExit(t, got, 0)
		if got.stdout != "hi\n" {
			t.Errorf("%q gave %v", text, got)
		}
		if left := session.processes(); len(left) == 0 {
			t.Errorf("%q in a session: the background child is gone", text)
		}
	}
}

// What a background child writes after its command's end can still be read.
func TestOutputOfABackgroundChildIsKept(t *testing.T) {
	b := newBox(t, Config{Session: true})
	r := script("(read x < /workspace/go; echo late) & mkfifo /workspace/go; echo now; wait -n 2>/dev/null & ")
	r.Script = []byte("mkfifo /workspace/go; (read x < /workspace/go; echo late) & echo now")
	got := b.run(r)
	if got.stdout != "now\n" {
		t.Fatalf("got %v", got)
	}
	wantExit(t, b.run(sh("echo go > /workspace/go")), 0)
	for range 1000 {
		got, err := b.tryFollow(r.Id, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got.stdout == "now\nlate\n" && got.exit.StdoutBytes == 9 {
			return
		}
	}
	t.Error("the late output never came")
}

func TestCancelSaysWhy(t *testing.T) {
	b := newBox(t, Config{Session: true})
	r := sh("trap 'echo bye; exit 0' TERM; echo up; sleep 600 & wait")
	b.start(r)
	b.waitForOutput(r.Id, 3)
	exit, err := b.Cancel(b.ctx(), &pb.CancelRequest{Id: r.Id, Reason: "not needed"})
	if err != nil {
		t.Fatal(err)
	}
	if exit.Outcome != "cancelled" || exit.HasExitCode || exit.Reason != "not needed" {
		t.Errorf("got %v, want cancelled with its reason", exit)
	}
	if got := b.follow(r.Id); got.stdout != "up\nbye\n" {
		t.Errorf("got %v, want what it said at its end too", got)
	}
	b.wantNoProcesses()
	// A command that had ended is not cancelled.
	r = argv("true")
	b.run(r)
	if exit, err := b.Cancel(b.ctx(), &pb.CancelRequest{Id: r.Id}); err != nil || exit.Outcome != "exited" {
		t.Errorf("cancel after the end gave %v, %v", exit, err)
	}
}

// waitForOutput waits until a command has written n bytes to stdout.
func (b *box) waitForOutput(id string, n int64) {
	b.t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); {
		info, err := b.Command(b.ctx(), &pb.CommandRef{Id: id})
		if err != nil {
			b.t.Fatal(err)
		}
		if info.StdoutBytes >= n || info.Exit != nil {
			return
		}
	}
	b.t.Fatal("the output never came")
}

func TestSignalsReachTheProgramOrItsTree(t *testing.T) {
	b := newBox(t, Config{Session: true})
	r := sh("trap 'echo usr1' USR1; echo up; while :; do sleep 0.05; done")
	b.start(r)
	b.waitForOutput(r.Id, 3)
	if _, err := b.Signal(b.ctx(), &pb.SignalRequest{Id: r.Id, Signal: int32(syscall.SIGUSR1)}); err != nil {
		t.Fatal(err)
	}
	b.waitForOutput(r.Id, 8)
	if _, err := b.Signal(b.ctx(), &pb.SignalRequest{Id: r.Id, Signal: int32(syscall.SIGKILL), Tree: true}); err != nil {
		t.Fatal(err)
	}
	got := b.follow(r.Id)
	if got.exit.Outcome != "signaled" || got.exit.Signal != 9 || got.stdout != "up\nusr1\n" {
		t.Errorf("got %v", got)
	}
	if _, err := b.Signal(b.ctx(), &pb.SignalRequest{Id: r.Id, Signal: 15}); err != nil {
		t.Errorf("a signal to an ended command gave %v", err)
	}
	for _, n := range []int32{0, -1, 65} {
		if _, err := b.Signal(b.ctx(), &pb.SignalRequest{Id: r.Id, Signal: n}); err == nil {
			t.Errorf("signal %d was taken", n)
		}
	}
}

// B080: nothing stays a zombie.
func TestOrphansAreReaped(t *testing.T) {
	b := newBox(t, Config{Session: true})
	wantExit(t, b.run(sh("for i in 1 2 3 4 5; do (sleep 0.01 &) ; done; sleep 0.05")), 0)
	b.wantNoProcesses()
}

// B101, threat 5: a bomb meets its limit, is stopped, and the init answers.
func TestAForkBombIsStopped(t *testing.T) {
	for _, session := range []bool{false, true} {
		b := newBox(t, Config{Session: session, PIDs: 64})
		r := sh("bomb() { bomb | bomb & }; bomb; while :; do sleep 0.1; done")
		r.TimeoutMs, r.GraceMs = 1000, 100
		got := b.run(r)
		if got.exit.Outcome != "timeout" {
			t.Errorf("got %v, want timeout", got.exit)
		}
		wantExit(t, b.run(argv("true")), 0)
		b.wantNoProcesses()
	}
}

// B037: whoever kills the keeper does not make its command a success.
func TestAKeeperThatIsKilledIsNoSuccess(t *testing.T) {
	const kill = `
import os, signal
fd = os.open('/proc/%d' % os.getppid(), os.O_RDONLY)
signal.pidfd_send_signal(fd, signal.SIGKILL)
`
	for _, session := range []bool{false, true} {
		b := newBox(t, Config{Session: session})
		got := b.run(argv("python3", "-c", kill+"import time; time.sleep(600)"))
		if got.exit.Outcome != "signaled" || got.exit.Signal != 9 || len(got.exit.Notices) != 1 {
			t.Errorf("got %v, want signaled and a notice", got)
		}
		b.wantNoProcesses()
		got = b.run(argv("python3", "-c", kill+"os._exit(5)"))
		if !(got.exit.Outcome == "exited" && got.exit.ExitCode == 5 || got.exit.Outcome == "signaled") || len(got.exit.Notices) != 1 {
			t.Errorf("got %v, want what became of it and a notice", got)
		}
		// A keeper that is stopped does not stop the limit.
		r := argv("python3", "-c", strings.Replace(kill, "SIGKILL", "SIGSTOP", 1)+"import time; time.sleep(600)")
		r.TimeoutMs, r.GraceMs = 300, 100
		if got = b.run(r); got.exit.Outcome != "timeout" {
			t.Errorf("got %v, want timeout", got)
		}
		b.wantNoProcesses()
	}
}

// A command that stops the keepers made after it, whose ids its filter does
// not know, keeps no later command from running or from being told to have
// ended.
func TestKeepersThatAreStoppedGoOn(t *testing.T) {
	b := newBox(t, Config{Session: true})
	const stop = `
import os, signal, sys, time
end, stopped = time.time() + 10, set()
while time.time() < end:
    for p in filter(str.isdigit, os.listdir('/proc')):
        try:
            # Not a program on its way to exec, which looks like its keeper: nobody keeps one from stopping that.
            if p != str(os.getppid()) and open('/proc/%s/stat' % p).read().rsplit(')')[-1].split()[1] == '1':
                os.kill(int(p), signal.SIGSTOP)
                if not stopped: end = time.time() + 1
                stopped.add(p)
        except OSError: pass
    time.sleep(0.01)
if not stopped: sys.exit('no keeper was made')
`
	hostile := argv("python3", "-c", stop)
	hostile.Background = true
	b.start(hostile)
	for range 2 * maxIdleKeepers {
		began := time.Now()
		r := sh("sleep 0.1; echo hello")
		r.TimeoutMs = 20_000
		if got := b.run(r); got.exit.Outcome != "exited" || got.stdout != "hello\n" {
			t.Fatalf("got %v after %v", got, time.Since(began))
		}
	}
	wantExit(t, b.follow(hostile.Id), 0)
}
