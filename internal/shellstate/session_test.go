//go:build linux

package shellstate

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// session runs scripts one after another (or side by side) as the init does.
type session struct {
	t         testing.TB
	workspace string
	bash      string

	mu sync.Mutex
	st State
}

func newSession(t testing.TB) *session {
	t.Helper()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash")
	}
	dir := t.TempDir()
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + dir, "LANG=C.UTF-8"}
	return &session{t: t, workspace: dir, bash: bash, st: State{Dir: dir, Env: env}}
}

type result struct {
	code     int // -signal when a signal ended it
	out, err string
	notices  []string
	captured error
}

func memfd(t testing.TB, data []byte, flags int) *os.File {
	t.Helper()
	fd, err := unix.MemfdCreate("t", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "memfd")
	if _, err := f.Write(data); err != nil {
		t.Fatal(err)
	}
	if flags != 0 {
		if _, err := unix.FcntlInt(f.Fd(), unix.F_SETFL, flags); err != nil {
			t.Fatal(err)
		}
		return f
	}
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_WRITE|unix.F_SEAL_GROW|unix.F_SEAL_SHRINK|unix.F_SEAL_SEAL); err != nil {
		t.Fatal(err)
	}
	return f
}

func (s *session) run(script string, env ...string) result {
	return s.runStdin(script, nil, env...)
}

func (s *session) runStdin(script string, stdin io.Reader, env ...string) result {
	s.t.Helper()
	s.mu.Lock()
	st := s.st
	s.mu.Unlock()
	var res result
	dir, notice := UsableDir(st.Dir, s.workspace)
	if notice != "" {
		res.notices = append(res.notices, notice)
	}
	st.Dir = dir
	inv, notices, err := Prepare(st, []byte(script), env)
	if err != nil {
		s.t.Fatalf("prepare %.80q: %v", script, err)
	}
	res.notices = append(res.notices, notices...)
	extra := make([]*os.File, StateFD-3+1)
	for i, b := range inv.Files {
		f := memfd(s.t, b, 0)
		defer f.Close()
		extra[FileFD0+i-3] = f
	}
	state := memfd(s.t, nil, unix.O_APPEND)
	defer state.Close()
	extra[inv.StateFD-3] = state

	var stdout, stderr bytes.Buffer
	cmd := &exec.Cmd{Path: s.bash, Args: inv.Argv, Env: inv.Env, Dir: dir, Stdin: stdin, Stdout: &stdout, Stderr: &stderr, ExtraFiles: extra}
	err = cmd.Run()
	if ee := (*exec.ExitError)(nil); err != nil && !errors.As(err, &ee) {
		s.t.Fatalf("run %.80q: %v", script, err)
	}
	res.out, res.err = stdout.String(), stderr.String()
	res.code = cmd.ProcessState.ExitCode()
	if ws := cmd.ProcessState.Sys().(syscall.WaitStatus); ws.Signaled() {
		res.code = -int(ws.Signal())
	}
	frame, err := io.ReadAll(io.NewSectionReader(state, 0, 4*MaxFrameBytes))
	if err != nil {
		s.t.Fatal(err)
	}
	next, err := Parse(frame, inv.Nonce)
	res.captured = err
	// A shell that a signal ended may still have written its frame.
	if err == nil && res.code >= 0 {
		s.mu.Lock()
		s.st = next
		s.mu.Unlock()
	}
	return res
}

func (s *session) want(script string, code int, out string) result {
	s.t.Helper()
	r := s.run(script)
	if r.code != code || r.out != out {
		s.t.Errorf("%.200q: code %d, stdout %q, stderr %q, want code %d, stdout %q", script, r.code, r.out, r.err, code, out)
	}
	return r
}

func (s *session) quiet(script string, code int, out string) {
	s.t.Helper()
	if r := s.want(script, code, out); r.err != "" {
		s.t.Errorf("%.200q: stderr %q, want none", script, r.err)
	}
}

func lines(s ...string) string { return strings.Join(s, "\n") + "\n" }
