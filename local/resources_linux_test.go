package local

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/skerry-run/skerry"
)

// one runs a command in a sandbox.
func one(t *testing.T, s skerry.Sandbox, argv ...string) skerry.Result {
	t.Helper()
	return skerry.Exec(within(t, time.Minute), s, skerry.ExecSpec{Command: skerry.CommandSpec{
		ID: strings.ReplaceAll(t.Name(), "/", "-") + time.Now().String(), Argv: argv, Timeout: 30 * time.Second,
	}})
}

func limited(t *testing.T, b *Backend, name string, l skerry.Limits) skerry.Sandbox {
	t.Helper()
	return mustCreate(t, b, skerry.SandboxSpec{Ref: session(name), Limits: l})
}

// Threat 7: memory that is nearly full keeps no command from starting, and what
// dies of it is the hog.
func TestAFullMemoryKillsTheHog(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs a memory control group")
	}
	b := newBackend(t)
	s := limited(t, b, "pressure", skerry.Limits{MemoryBytes: 128 * skerry.MiB})
	hog, err := s.Start(within(t, time.Minute), skerry.CommandSpec{
		ID: "hog", Argv: []string{"python3", "-uc", "import sys\nb = [b'x' * (90 << 20)]\nprint('full')\nsys.stdin.readline()\nwhile True: b.append(b'x' * (1 << 20))"},
		Stdin: skerry.StdinStream, Timeout: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	full := make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		first := true
		ended <- hog.Output(t.Context(), skerry.Offsets{}, func(skerry.Chunk) error {
			if first {
				first = false
				close(full)
			}
			return nil
		})
	}()
	select {
	case <-full:
	case err := <-ended:
		t.Fatalf("the hog ended early: %v", err)
	}
	if r := one(t, s, "echo", "beside it"); r.Outcome != skerry.Exited || r.Stdout != "beside it\n" {
		t.Errorf("a command beside the hog: %s (%s)", r.Outcome, r.Reason)
	}
	in, err := hog.Stdin(within(t, time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	in.Write([]byte("\n"))
	exit, err := hog.Wait(within(t, time.Minute))
	if err != nil || exit.Outcome != skerry.OOM || exit.Usage.OOMEvents < 1 {
		t.Errorf("the hog: %+v, error %v", exit, err)
	}
	<-ended
	if r := one(t, s, "echo", "after it"); r.Outcome != skerry.Exited || r.Stdout != "after it\n" {
		t.Errorf("a command after the hog: %s (%s)", r.Outcome, r.Reason)
	}
}

// Threat 9: limits of files are hard, also for files without a name, for many
// at once and for those of a session that is kept on the disk.
func TestFilesCanNotGoOverTheirLimit(t *testing.T) {
	b := newBackend(t)
	const limit = 8 * skerry.MiB
	s := limited(t, b, "files", skerry.Limits{WorkspaceBytes: limit, TmpBytes: limit, ShmBytes: limit})
	for _, dir := range []string{"/workspace", "/home/skerry", "/tmp", "/dev/shm"} {
		r := one(t, s, "python3", "-c", `import os, sys
held, total = [], 0
try:
    for i in range(64):
        f = os.open(sys.argv[1] + "/f", os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        os.unlink(sys.argv[1] + "/f")
        held.append(f)
        total += os.write(f, b"x" * (1 << 20))
except OSError as e:
    print(e.errno == 28, total <= int(sys.argv[2]))`, dir, "8388608")
		if r.Outcome != skerry.Exited || r.Stdout != "True True\n" {
			t.Errorf("in %s: %s (%s), stdout %q, stderr %q; want ENOSPC at the limit", dir, r.Outcome, r.Reason, r.Stdout, r.Stderr)
		}
	}
	kept := mustCreate(t, b, skerry.SandboxSpec{Ref: session("kept"), Persistent: true, Limits: skerry.Limits{WorkspaceBytes: limit}})
	// One file meets its own limit at once, many are seen together.
	if r := one(t, kept, "bash", "-c", "head -c 100M /dev/zero > one; test $(stat -c %s one) -le 8388608 && rm one"); r.Outcome != skerry.Evicted && (r.ExitCode == nil || *r.ExitCode != 0) {
		t.Errorf("one file: %s (%s), stderr %q", r.Outcome, r.Reason, r.Stderr)
	}
	if r := one(t, kept, "bash", "-c", "for i in $(seq 20); do head -c 1M /dev/zero > $i; done; sleep 1000"); r.Outcome != skerry.Evicted {
		t.Errorf("many files: %s (%s), want evicted", r.Outcome, r.Reason)
	}
}

// A small workspace does not make the files of /tmp small.
func TestAFileMayBeAsLargeAsItsFolder(t *testing.T) {
	b := newBackend(t)
	const size = 80 * skerry.MiB // more than what the init keeps of an output, too
	s := limited(t, b, "tmp", skerry.Limits{WorkspaceBytes: 8 * skerry.MiB, TmpBytes: 100 * skerry.MiB})
	if r := one(t, s, "bash", "-c", fmt.Sprintf("head -c %d /dev/zero > /tmp/f && rm /tmp/f", size)); r.Outcome != skerry.Exited || *r.ExitCode != 0 {
		t.Errorf("a program: %s (%s), stderr %q", r.Outcome, r.Reason, r.Stderr)
	}
	if _, err := s.Files().Write(within(t, time.Minute), "/tmp/f", bytes.NewReader(make([]byte, size)), skerry.WriteOptions{}); err != nil {
		t.Errorf("an upload: %v (hint: %s)", err, skerry.HintOf(err))
	}
	if r := one(t, s, "bash", "-c", "head -c 20M /dev/zero > f; stat -c %s f"); r.Outcome != skerry.Exited || r.Stdout != "7340032\n" {
		t.Errorf("in the workspace: %s (%s), stdout %q", r.Outcome, r.Reason, r.Stdout)
	}
}

// Threat 10: what ends with 0 has exited, whatever the kernel killed beside it,
// and that is told.
func TestAProgramThatOutlivesAKillForMemoryHasExited(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs a memory control group")
	}
	s := limited(t, newBackend(t), "outlived", skerry.Limits{MemoryBytes: 96 * skerry.MiB})
	r := one(t, s, "bash", "-c", "python3 -c 'b = b\"x\" * (1 << 30)' & wait; exit 0")
	if r.Outcome != skerry.Exited || r.ExitCode == nil || *r.ExitCode != 0 || r.Usage.OOMEvents < 1 {
		t.Errorf("%s (%s), usage %+v; want exited 0 with the kill counted", r.Outcome, r.Reason, r.Usage)
	}
}

// B099: where no control group counts kills for memory their number is not
// known, and a program that its own limit denies memory ends as it says.
func TestWithoutAMemoryControlGroup(t *testing.T) {
	if os.Geteuid() == 0 {
		runAsOrdinary(t, "^TestWithoutAMemoryControlGroup$")
		return
	}
	s := limited(t, newBackend(t), "uncounted", skerry.Limits{MemoryBytes: 96 * skerry.MiB})
	u, err := s.Usage(within(t, time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	if u.OOMEvents >= 0 {
		t.Skip("this user has a memory control group")
	}
	r := one(t, s, "python3", "-c", "b = b'x' * (1 << 30)")
	if r.Outcome != skerry.Exited || r.ExitCode == nil || *r.ExitCode != 1 || !strings.Contains(r.Stderr, "MemoryError") || r.Usage.OOMEvents != -1 {
		t.Errorf("%s (%s), stderr %q, usage %+v; want exited 1 with a MemoryError, and a number that is not known", r.Outcome, r.Reason, r.Stderr, r.Usage)
	}
	if r := one(t, s, "true"); r.Outcome != skerry.Exited || r.Usage.OOMEvents != -1 {
		t.Errorf("%s, usage %+v", r.Outcome, r.Usage)
	}
}
