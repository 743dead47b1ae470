//go:build linux

package attach

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/skerry-run/skerry"
	"github.com/skerry-run/skerry/internal/control"
	"github.com/skerry-run/skerry/internal/testbuild"
)

// realInit is skerry-init as PID 1 of a bubblewrap sandbox, and the
// supervisor's side of its control line.
type realInit struct {
	line   *control.Line
	cmd    *exec.Cmd
	stderr bytes.Buffer
	ended  chan struct{} // closed when it is gone
	mu     sync.Mutex    // one message at a time
}

// initConfig is what these tests tell the init, in the words that a platform
// uses.
type initConfig struct {
	Session    bool     `json:"session"`
	Env        []string `json:"env"`
	SandboxUID string   `json:"sandbox_uid"`
	Trusted    bool     `json:"trusted"`
}

// whoRuns is the user that the sandboxes of tests have when root runs them:
// root's would be exempt from limits.
const whoRuns = 64124

// buildInit builds the init as it is shipped, once for all tests, where its
// user can execute it.
var buildInit = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "attach-test-")
	if err != nil {
		return "", err
	}
	afterTests = append(afterTests, func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		return "", err
	}
	binary := filepath.Join(dir, "skerry-init")
	if err := testbuild.Programs(dir, "skerry-init"); err != nil {
		return "", err
	}
	return binary, os.Chmod(binary, 0o111)
})

// startInit starts an init that ends with the test.
func startInit(t testing.TB, config initConfig) *realInit {
	t.Helper()
	if _, err := exec.LookPath("bwrap"); err != nil {
		t.Skip("bubblewrap is not installed")
	}
	binary, err := buildInit()
	if err != nil {
		t.Fatal(err)
	}
	config.Session = true
	config.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/home/skerry"}
	data, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	configRead, configWrite, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer configRead.Close()
	defer configWrite.Close()
	line, theirs, err := control.Pair()
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	r := &realInit{line: line, ended: make(chan struct{})}
	r.cmd = exec.Command("bwrap",
		"--unshare-all", "--uid", "1000", "--gid", "1000", "--as-pid-1", "--die-with-parent", "--new-session", "--clearenv",
		"--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64",
		"--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/workspace", "--dir", "/home/skerry",
		"--dir", "/run/skerry", "--ro-bind", binary, "/run/skerry/init",
		"--", "/run/skerry/init", "serve", "--config-fd", "3", "--control-fd", "4")
	r.cmd.ExtraFiles = []*os.File{configRead, theirs}
	r.cmd.Stderr = &r.stderr
	r.cmd.Dir = "/"
	if os.Getuid() == 0 {
		r.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: whoRuns, Gid: whoRuns}}
	}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := configWrite.Write(data); err != nil {
		t.Fatal(err)
	}
	go r.supervise()
	t.Cleanup(func() {
		line.Close()
		select {
		case <-r.ended:
		case <-time.After(20 * time.Second):
			_ = r.cmd.Process.Kill()
			t.Error("the init lives on after the end of its control line")
		}
		if t.Failed() {
			t.Logf("the init said:\n%s", r.stderr.String())
		}
	})
	return r
}

// supervise gives the init the files that it asks for.
func (r *realInit) supervise() {
	defer close(r.ended)
	for {
		m, f, err := r.line.Receive()
		if err != nil {
			break
		}
		if f != nil {
			f.Close()
		}
		if m.Type != control.Spool {
			continue
		}
		file, err := os.CreateTemp("", "attach-spool-")
		if err != nil {
			break
		}
		os.Remove(file.Name())
		r.mu.Lock()
		err = r.line.Send(control.Message{Type: control.Spool}, file)
		r.mu.Unlock()
		file.Close()
		if err != nil {
			break
		}
	}
	_ = r.cmd.Wait()
}

// Dial makes a socket pair and passes one end in.
func (r *realInit) Dial(context.Context) (net.Conn, error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	theirs := os.NewFile(uintptr(fds[1]), "theirs")
	defer theirs.Close()
	ours := os.NewFile(uintptr(fds[0]), "ours")
	defer ours.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.line.Send(control.Message{Type: control.Conn}, theirs); err != nil {
		return nil, err
	}
	return net.FileConn(ours)
}

// attachReal is a handle to a real init behind a cutter with this plan.
func attachReal(t testing.TB, plan func(int) (int64, int64), change ...func(*Config)) (*Sandbox, *cutter) {
	t.Helper()
	r := startInit(t, initConfig{Trusted: true})
	c := &cutter{dial: r.Dial, plan: plan}
	cfg := Config{Dial: c.Dial}
	quick(&cfg)
	for _, f := range change {
		f(&cfg)
	}
	s, err := New(t.Context(), cfg)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	t.Cleanup(func() { s.Close() })
	return s, c
}

func uncut(int) (int64, int64) { return never, never }

// sequence is what seq 1 n writes.
func sequence(n int) []byte {
	var b []byte
	for i := range n {
		b = append(strconv.AppendInt(b, int64(i+1), 10), '\n')
	}
	return b
}

func TestRealOutputSurvivesCuts(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	s, cuts := attachReal(t, func(int) (int64, int64) { return random.Int64N(2 << 20), never })
	c, err := s.Start(t.Context(), skerry.CommandSpec{ID: "1", Argv: []string{"bash", "-c", "seq 1 2000000 & seq 1 800000 >&2; wait; exit 7"}})
	if err != nil {
		t.Fatal(err)
	}
	out, errOut, err := collect(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if want := sequence(2_000_000); !bytes.Equal(out, want) {
		t.Errorf("stdout has %d bytes, want %d; they differ at %d", len(out), len(want), firstDifference(out, want))
	}
	if want := sequence(800_000); !bytes.Equal(errOut, want) {
		t.Errorf("stderr has %d bytes, want %d; they differ at %d", len(errOut), len(want), firstDifference(errOut, want))
	}
	exit, err := c.Wait(t.Context())
	if err != nil || exit.Outcome != skerry.Exited || *exit.ExitCode != 7 {
		t.Errorf("Wait = %+v, %v", exit, err)
	}
	t.Logf("%d streams", cuts.dials.Load())
	if cuts.dials.Load() < 5 {
		t.Error("the test cut too little")
	}
}

func TestRealInputSurvivesCuts(t *testing.T) {
	random := rand.New(rand.NewPCG(9, 10))
	s, cuts := attachReal(t, func(int) (int64, int64) {
		return 200_000 + random.Int64N(2<<20), 100_000 + random.Int64N(2<<20)
	})
	c, err := s.Start(t.Context(), skerry.CommandSpec{ID: "1", Argv: []string{"cat"}, Stdin: skerry.StdinStream})
	if err != nil {
		t.Fatal(err)
	}
	w, err := c.Stdin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	in := sequence(2_500_000)
	sent := make(chan error, 1)
	go func() {
		_, err := io.Copy(w, bytes.NewReader(in))
		sent <- errors.Join(err, w.Close())
	}()
	out, _, err := collect(t.Context(), c)
	if err != nil || !bytes.Equal(out, in) {
		t.Errorf("%d of %d bytes came back, equal up to %d, %v", len(out), len(in), firstDifference(out, in), err)
	}
	if err := <-sent; err != nil {
		t.Errorf("stdin: %v", err)
	}
	t.Logf("%d streams", cuts.dials.Load())
}

func TestRealFilesSurviveCuts(t *testing.T) {
	random := rand.New(rand.NewPCG(11, 12))
	s, cuts := attachReal(t, func(n int) (int64, int64) {
		if n == 1 {
			return never, never
		}
		return 300_000 + random.Int64N(1<<20), never
	})
	data := sequence(700_000)
	wrote, err := s.Files().Write(t.Context(), "dir/x", bytes.NewReader(data), skerry.WriteOptions{Mode: 0o600})
	if err != nil {
		t.Fatal(err)
	}
	s.current.breakOff()
	var got bytes.Buffer
	info, err := s.Files().Read(t.Context(), "dir/x", 0, -1, &got)
	if err != nil || !bytes.Equal(got.Bytes(), data) || info.SHA256 != wrote.SHA256 || info.Mode != 0o600 {
		t.Errorf("read %d of %d bytes, %+v, %v", got.Len(), len(data), info, err)
	}
	if cuts.dials.Load() < 3 {
		t.Error("the test cut too little")
	}
}

func TestRealFilesAndFolders(t *testing.T) {
	s, _ := attachReal(t, uncut)
	ctx, files := t.Context(), s.Files()
	for _, name := range []string{"a/one.txt", "a/b/two.txt", "three"} {
		if _, err := files.Write(ctx, name, bytes.NewReader([]byte("needle "+name+"\n")), skerry.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if list, err := files.List(ctx, ".", skerry.ListOptions{Recursive: true}); err != nil || len(list) != 5 {
		t.Errorf("List = %v, %v", list, err)
	}
	if found, err := files.Glob(ctx, ".", "**/*.txt", 0); err != nil || len(found.Paths) != 2 {
		t.Errorf("Glob = %v, %v", found, err)
	}
	if found, err := files.Grep(ctx, skerry.GrepSpec{Pattern: "needle", Literal: true}); err != nil || len(found.Matches) != 3 {
		t.Errorf("Grep = %v, %v", found, err)
	}
	if err := files.Move(ctx, "three", "a/b/four"); err != nil {
		t.Errorf("Move: %v", err)
	}
	if info, err := files.Stat(ctx, "a/b/four"); err != nil || info.Size != int64(len("needle three\n")) {
		t.Errorf("Stat = %+v, %v", info, err)
	}
	var tar bytes.Buffer
	out, err := files.TarOut(ctx, "a", &tar)
	if err != nil || out.Files < 3 {
		t.Errorf("TarOut = %+v, %v", out, err)
	}
	if err := files.Mkdir(ctx, "copy"); err != nil {
		t.Errorf("Mkdir: %v", err)
	}
	in, err := files.TarIn(ctx, "copy", &tar)
	if err != nil || in.Files < 3 {
		t.Errorf("TarIn = %+v, %v", in, err)
	}
	if err := files.Remove(ctx, "a", true); err != nil {
		t.Errorf("Remove: %v", err)
	}
	if _, err := files.Stat(ctx, "a"); skerry.KindOf(err) != skerry.NotFound {
		t.Errorf("Stat of what was removed: %v", err)
	}
	if _, err := files.Stat(ctx, "/etc/passwd"); skerry.KindOf(err) != skerry.Denied {
		t.Errorf("Stat outside: %v", err)
	}
	if u, err := s.Usage(ctx); err != nil {
		t.Errorf("Usage = %+v, %v", u, err)
	}
}

func TestRealKeyIsSetOnce(t *testing.T) {
	r := startInit(t, initConfig{SandboxUID: "uid-1"})
	key := bytes.Repeat([]byte{5}, 32)
	first, err := New(t.Context(), Config{Dial: r.Dial, Key: key, SetKey: true, SandboxUID: "uid-1"})
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	first.current.breakOff()
	if _, err := first.Commands(t.Context()); err != nil {
		t.Errorf("after a break: %v", err)
	}
	second, err := New(t.Context(), Config{Dial: r.Dial, Key: key, SetKey: true}) // a first attach whose answer got lost
	if err != nil {
		t.Fatal(err)
	}
	second.Close()
	for name, cfg := range map[string]Config{
		"a wrong key":         {Key: bytes.Repeat([]byte{6}, 32)},
		"setting another key": {Key: bytes.Repeat([]byte{6}, 32), SetKey: true},
		"no key":              {},
	} {
		cfg.Dial = r.Dial
		if _, err := New(t.Context(), cfg); skerry.KindOf(err) != skerry.Denied {
			t.Errorf("%s: %v of kind %s", name, err, skerry.KindOf(err))
		}
	}
	if _, err := New(t.Context(), Config{Dial: r.Dial, Key: key, SandboxUID: "uid-2"}); skerry.KindOf(err) != skerry.NotFound {
		t.Errorf("another sandbox: %v", err)
	}
}

// A terminal's end of file is a byte of its input, after which it stays open.
func TestRealTerminalTakesTheEndOfFile(t *testing.T) {
	s, _ := attachReal(t, uncut)
	c, err := s.Start(t.Context(), skerry.CommandSpec{ID: "1", Argv: []string{"cat"}, TTY: &skerry.TerminalSize{}})
	if err != nil {
		t.Fatal(err)
	}
	w, err := c.Stdin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, "hello\n"); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if err := c.Resize(t.Context(), skerry.TerminalSize{Cols: 100, Rows: 30}); err != nil {
		t.Errorf("Resize: %v", err)
	}
	out, _, err := collect(t.Context(), c)
	if err != nil || string(out) != "hello\r\nhello\r\n" {
		t.Errorf("Output = %q, %v", out, err)
	}
}

func TestRealProgramThatReadsNothing(t *testing.T) {
	s, _ := attachReal(t, uncut)
	c, err := s.Start(t.Context(), skerry.CommandSpec{ID: "1", Argv: []string{"true"}, Stdin: skerry.StdinStream})
	if err != nil {
		t.Fatal(err)
	}
	w, err := c.Stdin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(w, bytes.NewReader(make([]byte, 10<<20)))
	if !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("Write = %v, want a closed pipe", err)
	}
	if err := w.Close(); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("Close = %v, want a closed pipe", err)
	}
	none, err := s.Start(t.Context(), skerry.CommandSpec{ID: "2", Argv: []string{"true"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := none.Stdin(t.Context()); skerry.KindOf(err) != skerry.Invalid {
		t.Errorf("Stdin of a command without: %v", err)
	}
}

func TestRealCancelSignalAndConflict(t *testing.T) {
	s, _ := attachReal(t, uncut)
	ctx := t.Context()
	c, err := s.Start(ctx, skerry.CommandSpec{ID: "1", Argv: []string{"sleep", "1000"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Start(ctx, skerry.CommandSpec{ID: "1", Argv: []string{"sleep", "2000"}}); skerry.KindOf(err) != skerry.Conflict {
		t.Errorf("another command of the same id: %v", err)
	}
	if err := c.Cancel(ctx, "no longer wanted"); err != nil {
		t.Fatal(err)
	}
	if exit, err := c.Wait(ctx); err != nil || exit.Outcome != skerry.Cancelled || exit.Reason != "no longer wanted" {
		t.Errorf("Wait = %+v, %v", exit, err)
	}
	c, err = s.Start(ctx, skerry.CommandSpec{ID: "2", Argv: []string{"sleep", "1000"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Signal(ctx, 9, false); err != nil {
		t.Fatal(err)
	}
	if exit, err := c.Wait(ctx); err != nil || exit.Outcome != skerry.Signaled || exit.Signal != 9 {
		t.Errorf("Wait = %+v, %v", exit, err)
	}
	_, err = s.Start(ctx, skerry.CommandSpec{ID: "3", Argv: []string{"no-such-program"}, Missing: "install it"})
	if skerry.OutcomeOf(err) != skerry.StartFailed || skerry.HintOf(err) != "install it" {
		t.Errorf("a missing program: %v, outcome %s, hint %q", err, skerry.OutcomeOf(err), skerry.HintOf(err))
	}
	if infos, err := s.Commands(ctx); err != nil || len(infos) < 2 || infos[0].ID != "1" {
		t.Errorf("Commands = %+v, %v", infos, err)
	}
}

func TestRealShutdownEndsTheInit(t *testing.T) {
	r := startInit(t, initConfig{Trusted: true})
	s, err := New(t.Context(), Config{Dial: r.Dial, Lost: func(context.Context) error {
		select {
		case <-r.ended:
			return skerry.Errorf(skerry.NotFound, "", "the sandbox has ended")
		default:
			return nil
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Start(t.Context(), skerry.CommandSpec{ID: "1", Argv: []string{"sleep", "1000"}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	<-r.ended
	_, err = s.Commands(t.Context())
	if skerry.KindOf(err) != skerry.NotFound {
		t.Errorf("Commands afterwards: %v", err)
	}
}

func BenchmarkRealCommand(b *testing.B) {
	s, _ := attachReal(b, uncut)
	for i := 0; b.Loop(); i++ {
		c, err := s.Start(b.Context(), skerry.CommandSpec{ID: fmt.Sprint(i), Argv: []string{"true"}})
		if err != nil {
			b.Fatal(err)
		}
		if err := c.Output(b.Context(), skerry.Offsets{}, func(skerry.Chunk) error { return nil }); err != nil {
			b.Fatal(err)
		}
		if _, err := c.Wait(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRealOutput(b *testing.B) {
	const total = 500 << 20
	s, _ := attachReal(b, uncut)
	b.SetBytes(total)
	for i := 0; b.Loop(); i++ {
		c, err := s.Start(b.Context(), skerry.CommandSpec{ID: fmt.Sprint(i), Argv: []string{"head", "-c", fmt.Sprint(total), "/dev/zero"}})
		if err != nil {
			b.Fatal(err)
		}
		var got int64
		if err := c.Output(b.Context(), skerry.Offsets{}, func(ch skerry.Chunk) error { got += int64(len(ch.Data)); return nil }); err != nil {
			b.Fatal(err)
		}
		if got != total {
			b.Fatalf("%d of %d bytes", got, total)
		}
	}
}

// How a command ended that the init took with it is not known, and not success.
func TestRealInitThatDies(t *testing.T) {
	r := startInit(t, initConfig{Trusted: true})
	cfg := Config{Dial: r.Dial, Reconnect: Reconnect{Attempts: 3, BackoffMax: time.Millisecond}}
	s, err := New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c, err := s.Start(t.Context(), skerry.CommandSpec{ID: "1", Argv: []string{"sh", "-c", "echo ready; sleep 1000"}})
	if err != nil {
		t.Fatal(err)
	}
	err = c.Output(t.Context(), skerry.Offsets{}, func(skerry.Chunk) error { return r.cmd.Process.Kill() })
	if skerry.OutcomeOf(err) != skerry.Lost || skerry.KindOf(err) != skerry.Unavailable {
		t.Errorf("Output = %v of kind %s", err, skerry.KindOf(err))
	}
	if exit, err := c.Wait(t.Context()); err == nil {
		t.Errorf("Wait = %+v, want an error", exit)
	}
}
