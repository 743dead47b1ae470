//go:build linux

package launch

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// program stands for a skerry-init: it does what the script says.
func program(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "init")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// answer sends an order and gives all that comes back.
func answer(t *testing.T, p *Process, order string) string {
	t.Helper()
	if _, err := io.WriteString(p.Orders, order); err != nil {
		t.Fatal(err)
	}
	p.Orders.Close()
	got, err := io.ReadAll(p.Replies)
	if err != nil {
		t.Fatal(err)
	}
	p.End()
	return string(got)
}

func isChild(pid int) bool {
	err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	return !errors.Is(err, unix.ECHILD)
}

func TestAProcessInheritsItsFilesAndNothingElse(t *testing.T) {
	t.Setenv("SKERRY_LAUNCH_TEST", "leaked")
	p, err := Take(program(t, `cat <&3 >&4; echo " $SKERRY_LAUNCH_TEST"$1 $(pwd) $(test -s /proc/self/fd/5 && echo filter) $(ls /proc/self/fd/ | grep -c '^[0-6]$') >&4`))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := answer(t, p, "order"), "order supervise / filter 7\n"; got != want {
		t.Errorf("it answered %q, want %q", got, want)
	}
}

func TestTheOneStartedAheadIsTaken(t *testing.T) {
	init := program(t, "echo $$ >&4; cat <&3 >/dev/null")
	Ahead(init)
	pid := ahead.PID
	p, err := Take(init)
	if err != nil {
		t.Fatal(err)
	}
	if p.PID != pid || ahead != nil {
		t.Errorf("process %d was started ahead, %d was taken, %v waits", pid, p.PID, ahead)
	}
	answer(t, p, "")
}

func TestTheOneOfAnotherInitIsEnded(t *testing.T) {
	Ahead(program(t, "cat <&3 >/dev/null"))
	pid := ahead.PID
	if !isChild(pid) {
		t.Fatalf("process %d does not run", pid)
	}
	p, err := Take(program(t, "echo other >&4"))
	if err != nil {
		t.Fatal(err)
	}
	if isChild(pid) {
		t.Errorf("process %d was not ended", pid)
	}
	if got := answer(t, p, ""); got != "other\n" {
		t.Errorf("the one that was taken says %q", got)
	}
}

func TestAProgramThatIsNotThereIsAnError(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "init")
	Ahead(missing)
	if ahead != nil {
		t.Errorf("%v was started", ahead)
	}
	if _, err := Take(missing); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Take gave %v", err)
	}
}
