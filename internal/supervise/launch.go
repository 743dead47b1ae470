//go:build linux

package supervise

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// launch is one bwrap process on its way to a running init.
type launch struct {
	cmd    *exec.Cmd
	args   *os.File // bwrap reads its options here, and waits until it has them all
	hold   *os.File // a byte here lets it go on to start the init; nil when it does not wait
	status *os.File // what it says about itself
	stderr *tail
	spoken chan struct{} // closed when nobody can write to stderr any more
	exited chan struct{} // closed when bwrap has been reaped

	childSet chan struct{} // closed when child is known, or never will be
	mu       sync.Mutex
	child    int // the init's pid on the host; 0 when there is none
	childFD  int // pidfd of it, -1 when there is none

	pipes sync.WaitGroup
}

// childLimit is how long bwrap may take to say that it has made the init.
const childLimit = 2 * time.Second

// filesForChild numbers files in the order they are added.
type filesForChild struct{ files []*os.File }

const firstChildFD = 3

func (f *filesForChild) add(file *os.File) int {
	f.files = append(f.files, file)
	return firstChildFD + len(f.files) - 1
}

func (f *filesForChild) close() {
	for _, file := range f.files {
		file.Close()
	}
}

// start runs bwrap as uid, which waits for its options: until they come it has
// done nothing, and can be put in its control groups without a race.
//
// The kernel kills bwrap when the *thread* that started it ends, so the caller
// must stay locked to its thread for as long as the sandbox lives.
func (l *launch) start(path, mark string, uid int, child *filesForChild, argsFD int, command []string, begin func(build func() *exec.Cmd) (*exec.Cmd, error)) error {
	runtime.LockOSThread() // never unlocked: see above
	errR, errW, err := os.Pipe()
	if err != nil {
		return err
	}
	l.cmd, err = begin(func() *exec.Cmd {
		cmd := exec.Command(path, append([]string{"--args", strconv.Itoa(argsFD), "--"}, command...)...)
		cmd.Args[0] = mark
		cmd.Env = []string{} // what bwrap starts with can be read in /proc/1/environ inside
		cmd.Dir = "/"
		cmd.ExtraFiles = child.files
		cmd.Stderr = errW
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: unix.SIGKILL}
		if os.Geteuid() == 0 {
			cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid), Groups: []uint32{}}
		}
		return cmd
	})
	errW.Close()
	if l.cmd.Process == nil {
		errR.Close()
		return fmt.Errorf("start %s: %w", path, err)
	}
	l.stderr, l.spoken = &tail{limit: stderrLimit}, make(chan struct{})
	l.pipes.Go(func() {
		defer close(l.spoken)
		defer errR.Close()
		_, _ = io.Copy(l.stderr, errR)
	})
	l.childSet, l.childFD = make(chan struct{}), -1
	l.pipes.Go(l.readStatus)
	l.exited = make(chan struct{})
	l.pipes.Go(func() {
		_ = l.cmd.Wait() // its status says nothing that can be trusted: 1 is everything
		close(l.exited)
	})
	return err // of a process that runs, but not where it should
}

// readStatus learns the pid of the init from bwrap, and reads on to the end.
func (l *launch) readStatus() {
	defer l.status.Close()
	known := sync.OnceFunc(func() { close(l.childSet) })
	defer known()
	const maxStatus = 64 << 10
	s := bufio.NewScanner(io.LimitReader(l.status, maxStatus))
	for s.Scan() {
		var m struct {
			Child int `json:"child-pid"`
		}
		if json.Unmarshal(s.Bytes(), &m) == nil && m.Child > 1 && l.child == 0 {
			fd, err := unix.PidfdOpen(m.Child, 0)
			if err == nil {
				l.mu.Lock()
				l.child, l.childFD = m.Child, fd
				l.mu.Unlock()
			}
			known()
		}
	}
}

// sendArgs gives bwrap its options and lets it begin.
func (l *launch) sendArgs(args []string) error {
	defer l.args.Close()
	var b bytes.Buffer
	for _, a := range args {
		b.WriteString(a)
		b.WriteByte(0)
	}
	if _, err := l.args.Write(b.Bytes()); err != nil {
		return fmt.Errorf("give bwrap its options: %w", err)
	}
	return nil
}

// release lets bwrap start the init.
func (l *launch) release() error {
	if l.hold == nil {
		return nil
	}
	defer l.hold.Close()
	_, err := l.hold.Write([]byte{1})
	return err
}

// kill ends the sandbox and returns when none of its processes is left, or the
// kernel did not let go of them in time.
func (l *launch) kill() error {
	l.args.Close() // usually closed already; without options bwrap ends
	if l.hold != nil {
		l.hold.Close()
	}
	select {
	case <-l.childSet:
	case <-time.After(childLimit):
		// It hangs before it has made the init, or just after, in which case
		// killChildren finds that.
	}
	l.mu.Lock()
	child, fd := l.child, l.childFD
	l.mu.Unlock()
	if fd >= 0 {
		// The first process of a pid namespace takes all others along, and
		// counts as ended only when they are gone.
		if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("kill the sandbox: %w", err)
		}
		if !waitPidfd(fd, killLimit) {
			return fmt.Errorf("kill the sandbox: process %d is still there after %v", child, killLimit)
		}
	}
	_ = l.cmd.Process.Kill() // has ended by itself, as a rule
	<-l.exited
	if err := killChildren(); err != nil {
		return err
	}
	l.pipes.Wait()
	if fd >= 0 {
		unix.Close(fd)
	}
	return nil
}

// killChildren ends what bwrap left: we are the subreaper of its orphans. It
// is called when no other child of ours is left.
func killChildren() error {
	for end := time.Now().Add(killLimit); ; {
		// As a rule they have ended, and only wait to be reaped.
		pid, err := 1, error(nil)
		for pid > 0 || errors.Is(err, unix.EINTR) {
			pid, err = unix.Wait4(-1, nil, unix.WNOHANG, nil)
		}
		if errors.Is(err, unix.ECHILD) {
			return nil
		}
		children, err := childrenOfSelf()
		if err != nil {
			return err
		}
		for _, pid := range children {
			_ = unix.Kill(pid, unix.SIGKILL) // ours until it is reaped, so its number is too
			_, _ = unix.Wait4(pid, nil, 0, nil)
		}
		if time.Now().After(end) {
			return fmt.Errorf("kill the sandbox: processes %v are still there after %v", children, killLimit)
		}
	}
}

func childrenOfSelf() ([]int, error) {
	files, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		return nil, err
	}
	var out []int
	for _, f := range files {
		data, _ := os.ReadFile(f) // a thread may have ended
		for f := range strings.FieldsSeq(string(data)) {
			if pid, err := strconv.Atoi(f); err == nil {
				out = append(out, pid)
			}
		}
	}
	return out, nil
}

// tail keeps the end of what is written to it.
type tail struct {
	mu    sync.Mutex
	limit int
	buf   []byte
}

const stderrLimit = 4 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if len(t.buf) > t.limit {
		t.buf = append(t.buf[:0], t.buf[len(t.buf)-t.limit:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.buf))
}
