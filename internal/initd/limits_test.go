//go:build linux

package initd

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/skerry-run/skerry"
	"github.com/skerry-run/skerry/internal/control"
	pb "github.com/skerry-run/skerry/internal/initproto"

	"github.com/skerry-run/skerry/internal/keep"
)

// memoryCgroup makes a cgroup (version 1) with a memory limit that the
// sandbox's user may enter.
func memoryCgroup(t *testing.T, limit int64) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("a memory cgroup needs root")
	}
	dir := fmt.Sprintf("/sys/fs/cgroup/memory/skerry-initd-test-%d-%d", os.Getpid(), time.Now().UnixNano())
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Skipf("no memory cgroup can be made here: %v", err)
	}
	t.Cleanup(func() {
		for range 100 { // the kernel lets go of the last process a little late
			if os.Remove(dir) == nil {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		t.Errorf("the cgroup %s could not be removed", dir)
	})
	if err := os.WriteFile(filepath.Join(dir, "memory.limit_in_bytes"), fmt.Append(nil, limit), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(filepath.Join(dir, "cgroup.procs"), testUID, testUID); err != nil {
		t.Fatal(err)
	}
	return dir
}

func inMemoryCgroup(dir string) boxOption {
	return func(s *boxSetup) {
		s.enter = filepath.Join(dir, "cgroup.procs")
		s.args = append(s.args, "--ro-bind", dir, "/sys/fs/cgroup/memory")
	}
}

const eatMemory = `
b = []
while True: b.append(bytearray(1 << 20))
`

// B100: the program dies, the outcome says why, and the session lives on.
func TestAProgramThatEatsTheMemoryIsOOM(t *testing.T) {
	b := newBox(t, Config{Session: true}, inMemoryCgroup(memoryCgroup(t, 96<<20)))
	got := b.run(argv("python3", "-c", "print('begin', flush=True)"+eatMemory))
	if got.exit.Outcome != "oom" || got.exit.HasExitCode || got.exit.Usage.OomEvents < 1 || got.stdout != "begin\n" {
		t.Errorf("got %v, want oom", got)
	}
	if !strings.Contains(got.exit.Reason, "/tmp") { // B103
		t.Errorf("reason %q does not say that files in /tmp count", got.exit.Reason)
	}
	wantOut(t, b, "echo ok", 0, "ok\n")
	u, err := b.ReadUsage(b.ctx(), &pb.Empty{})
	if err != nil || u.MemoryBytes <= 0 || u.MemoryPeakBytes < 64<<20 || u.OomEvents < 1 {
		t.Errorf("usage %v, %v", u, err)
	}
}

// B098: a worker dies, the program tells of it in its own way: its code stays.
func TestAWorkerThatEatsTheMemoryIsReported(t *testing.T) {
	b := newBox(t, Config{}, inMemoryCgroup(memoryCgroup(t, 96<<20)))
	got := b.run(argv("python3", "-c", "import subprocess, sys\nsys.exit(1 if subprocess.run([sys.executable, '-c', '''"+eatMemory+"''']).returncode else 0)"))
	wantExit(t, got, 1)
	if got.exit.Usage.OomEvents < 1 || len(got.exit.Notices) != 1 || !strings.Contains(got.exit.Notices[0], "memory") {
		t.Errorf("got %v, want the oom counted and a notice", got)
	}
	// A shell says 137 of a child that the kernel killed.
	got = b.run(sh("python3 -c '" + eatMemory + "'; exit $?"))
	if got.exit.Outcome != "oom" {
		t.Errorf("got %v, want oom", got)
	}
}

// B102: too much on disk ends the command, with both numbers.
func TestAWorkspaceOverItsLimitEvicts(t *testing.T) {
	const limit = 8 << 20
	b := newBox(t, Config{Session: true, WatchWorkspace: true, WorkspaceBytes: limit})
	got := b.run(sh("echo begin; for i in 1 2 3 4 5 6; do head -c 2000000 /dev/zero > f$i; done; sleep 600"))
	if got.exit.Outcome != "evicted" || !strings.Contains(got.exit.Reason, fmt.Sprint(limit)) || got.stdout != "begin\n" {
		t.Errorf("got %v, want evicted", got)
	}
	b.wantRefused(sh("rm -rf /workspace/*"), codes.ResourceExhausted, "limit")
	if _, err := b.RemoveFile(b.ctx(), &pb.RemoveRequest{Path: []byte("f1")}); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{"f2", "f3", "f4", "f5", "f6"} {
		_, _ = b.RemoveFile(b.ctx(), &pb.RemoveRequest{Path: []byte(f)})
	}
	// One file can't be larger than the limit, and a program that is faster
	// than the watch is found at its end.
	got = b.run(sh("head -c 50000000 /dev/zero > f; ls -l f >&2"))
	if got.exit.Outcome != "exited" && got.exit.Outcome != "evicted" {
		t.Errorf("got %v", got)
	}
	if info, err := b.StatFile(b.ctx(), &pb.PathRequest{Path: []byte("f")}); err != nil || info.Size > limit {
		t.Errorf("the file has %v bytes (%v), at most %d", info, err, limit)
	}
	_, _ = b.RemoveFile(b.ctx(), &pb.RemoveRequest{Path: []byte("f")})
	got = b.run(sh("mkdir d; for i in 1 2 3 4 5 6; do head -c 2000000 /dev/zero > d/f$i; done; chmod 0 d"))
	if got.exit.Outcome != "evicted" {
		t.Errorf("a closed folder hid the bytes: %v", got)
	}
}

// Files that have no name any more are on the disk all the same, also those
// that only one thread holds.
func TestUnlinkedFilesCount(t *testing.T) {
	const limit = 8 << 20
	for name, hold := range map[string]string{
		"process": "hold()",
		"thread":  "import threading, ctypes\ndef own():\n    ctypes.CDLL(None).unshare(0x400)\n    hold()\nthreading.Thread(target=own).start()",
	} {
		t.Run(name, func(t *testing.T) {
			b := newBox(t, Config{Session: true, WatchWorkspace: true, WorkspaceBytes: limit})
			r := argv("python3", "-uc", `
import os, time
def hold():
    for i in range(6):
        fd = os.open('/workspace/f', os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
        os.unlink('/workspace/f')
        os.write(fd, b'x' * 2000000)
    print('held')
    time.sleep(600)
`+hold)
			r.TimeoutMs = 20_000
			if got := b.run(r); got.exit.Outcome != "evicted" || !strings.Contains(got.exit.Reason, fmt.Sprint(limit)) {
				t.Errorf("got %v, want evicted", got)
			}
			wantExit(t, b.run(argv("true")), 0) // the space is free again
		})
	}
}

// B060, B105: a limit that works by a signal is named, and so is the filter.
func TestSignalsOfLimitsAreExplained(t *testing.T) {
	b := newBox(t, Config{Session: true, FileBytes: 1 << 20})
	for text, want := range map[string]string{
		"exec head -c 2000000 /dev/zero > /workspace/f":                               "at most 1048576 bytes",
		`exec python3 -c 'import ctypes; ctypes.CDLL(None).syscall(0x40000000 | 39)'`: "system call that the sandbox denies",
		"kill -TERM $$": "signal 15",
	} {
		if got := b.run(sh(text)); got.exit.Outcome != "signaled" || !strings.Contains(got.exit.Reason, want) {
			t.Errorf("%s: got %v, want signaled and %q", text, got, want)
		}
	}
}

// wantRefused starts what must not start.
func (b *box) wantRefused(r *pb.StartRequest, code codes.Code, text string) error {
	b.t.Helper()
	_, err := b.Start(b.ctx(), r)
	if status.Code(err) != code || !strings.Contains(err.Error(), text) {
		b.t.Errorf("start gave %v, want %v with %q", err, code, text)
	}
	return pb.FromStatus("start", err)
}

func TestTheTimeToLiveEndsEverything(t *testing.T) {
	b := newBox(t, Config{Session: true, TTLMS: 60_000})
	reply, err := b.Extend(b.ctx(), &pb.ExtendRequest{})
	if err != nil || reply.RemainingMs <= 0 || reply.RemainingMs > 60_000 {
		t.Fatalf("Extend = %v, %v", reply, err)
	}
	r := sh("echo up; sleep 600")
	b.start(r)
	b.waitForOutput(r.Id, 3)
	if _, err := b.Extend(b.ctx(), &pb.ExtendRequest{TtlMs: 200}); err != nil {
		t.Fatal(err)
	}
	got, err := b.tryFollow(r.Id, 0, 0)
	if err != nil || got.exit.Outcome != "timeout" || got.exit.Limit != "ttl" || got.exit.Reason != "sandbox time to live of 200ms" {
		t.Errorf("got %v, %v, want timeout by the time to live", got, err)
	}
	<-b.ended
	b.wantMessages(control.Expires, control.Ended)
	if last := b.messages[len(b.messages)-1]; last.Reason != "ttl" {
		t.Errorf("ended because of %q, want ttl", last.Reason)
	}
}

// wantMessages checks what the init told its supervisor, spools aside.
func (b *box) wantMessages(want ...control.Type) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	var got []control.Type
	for _, m := range b.messages {
		if m.Type != control.Spool && m.Type != control.Begun {
			got = append(got, m.Type)
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		b.t.Errorf("the init told %v, want %v", got, want)
	}
}

func TestAnIdleSessionEnds(t *testing.T) {
	b := newBox(t, Config{Session: true, IdleMS: 2000})
	wantExit(t, b.run(argv("sleep", "2.5")), 0) // busy, and a client is attached
	b.conn.Close()
	<-b.ended
	b.wantMessages(control.Ended)
	if b.messages[len(b.messages)-1].Reason != "idle" {
		t.Errorf("ended because of %q, want idle", b.messages[len(b.messages)-1].Reason)
	}
}

func TestShutdownKillsEverythingAndAnswers(t *testing.T) {
	b := newBox(t, Config{Session: true})
	r := sh("trap '' TERM; echo up; sleep 600")
	b.start(r)
	b.waitForOutput(r.Id, 3)
	waited := make(chan *pb.Exit, 1)
	ctx := b.ctx()
	go func() {
		e, _ := b.Wait(ctx, &pb.CommandRef{Id: r.Id})
		waited <- e
	}()
	if _, err := b.Shutdown(b.ctx(), &pb.Empty{}); err != nil {
		t.Errorf("shutdown: %v", err)
	}
	if e := <-waited; e != nil && e.Outcome != "cancelled" {
		t.Errorf("the command's end is %v, want cancelled", e)
	}
	<-b.ended
	b.wantMessages(control.Ended)
	if state := b.cmd.ProcessState; state == nil || state.ExitCode() != 0 {
		t.Errorf("the init ended with %v, want 0", state)
	}
}

// When the supervisor is gone, so is the sandbox.
func TestTheEndOfTheControlLineEndsTheSandbox(t *testing.T) {
	b := newBox(t, Config{Session: true})
	b.start(sh("trap '' TERM HUP; sleep 600"))
	b.line.Close()
	<-b.ended
}

func TestUsageOfBothVersionsOfCgroups(t *testing.T) {
	for name, want := range map[string]usage{
		"v1": {cpuNS: 123456789, memory: 9830400, peak: 104857600, pids: 7, ooms: 2},
		"v2": {cpuNS: 123456000, memory: 9830400, peak: 104857600, pids: 7, ooms: 2},
	} {
		if got := (counters{filepath.Join("testdata", name)}).read(); got != want {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
	}
	none := usage{cpuNS: -1, memory: -1, peak: -1, pids: -1, ooms: -1}
	if got := (counters{t.TempDir()}).read(); got != none {
		t.Errorf("without a cgroup: got %+v, want all unknown", got)
	}
	if u := none.until(none, keep.Packet{Op: keep.OpExited, CPUNS: 5e8, MaxRSS: 1 << 20}); u.CPUSeconds != 0.5 || u.MemoryPeakBytes != 1<<20 || u.OOMEvents != -1 {
		t.Errorf("without a cgroup a command used %+v", u)
	}
	if u := none.now(); u != (skerry.Usage{CPUSeconds: -1, MemoryPeakBytes: -1, MemoryBytes: -1, PIDs: -1, OOMEvents: -1}) {
		t.Errorf("usage without a cgroup: %+v", u)
	}
}
