//go:build linux

// Package launch starts the processes of supervisors. It needs little, so that
// a program may start one before it has initialised all of its packages.
package launch

import (
	"fmt"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/skerry-run/skerry/internal/seccompbpf"
)

// Process is a supervisor that waits for its order, with our ends of what it
// inherited. The owner closes them, and reaps the process.
type Process struct {
	PID      int
	Orders   *os.File // takes the order, to its end; without one the process ends
	Replies  *os.File
	Lifeline *os.File

	init string // its program
}

var (
	mu    sync.Mutex
	ahead *Process // nobody's yet
)

// Ahead starts a process before it is known that one is wanted, for the Take
// that follows. Without one it ends with this program. It is no error when it
// can't be started: Take says why.
func Ahead(init string) {
	mu.Lock()
	defer mu.Unlock()
	if p, err := start(init); err == nil && ahead == nil {
		ahead = p
	}
}

// Take starts a process of the program init, or gives the one that waits.
func Take(init string) (*Process, error) {
	mu.Lock()
	p := ahead
	ahead = nil
	mu.Unlock()
	if p == nil {
		return start(init)
	}
	if p.init != init {
		p.End()
		return start(init)
	}
	return p, nil
}

// End ends a process that got no order, and returns when it is gone.
func (p *Process) End() {
	for _, f := range []*os.File{p.Orders, p.Replies, p.Lifeline} {
		f.Close()
	}
	for {
		if _, err := unix.Wait4(p.PID, nil, 0, nil); err != unix.EINTR {
			return
		}
	}
}

// start makes the process inherit four descriptors and nothing else: no
// environment, no terminal, no working directory.
func start(init string) (_ *Process, err error) {
	filter, err := seccompbpf.Standard()
	if err != nil {
		return nil, err
	}
	var theirs, ours []*os.File
	defer func() {
		closeAll(theirs)
		if err != nil {
			closeAll(ours)
		}
	}()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	theirs = append(theirs, null)
	var pipes [3][2]*os.File
	for i := range pipes {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		if i == 1 { // the replies come to us
			r, w = w, r
		}
		pipes[i] = [2]*os.File{r, w}
		theirs, ours = append(theirs, r), append(ours, w)
	}
	fd, err := unix.MemfdCreate("seccomp", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make memfd: %w", err)
	}
	program := os.NewFile(uintptr(fd), "seccomp")
	theirs = append(theirs, program)
	if _, err := program.WriteAt(filter, 0); err != nil {
		return nil, err
	}
	in := null.Fd()
	// Not os/exec: it would start another process first, to see how processes
	// are waited for here.
	pid, err := syscall.ForkExec(init, []string{init, "supervise"}, &syscall.ProcAttr{
		Dir: "/", Env: []string{},
		Files: []uintptr{in, in, in, pipes[0][0].Fd(), pipes[1][0].Fd(), program.Fd(), pipes[2][0].Fd()}, // boxes.OrderFD and on
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", init, err)
	}
	return &Process{PID: pid, Orders: ours[0], Replies: ours[1], Lifeline: ours[2], init: init}, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}
