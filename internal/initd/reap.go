//go:build linux

package initd

import (
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/skerry-run/skerry/internal/keep"
)

// reaper waits for every child of PID 1: the keepers, and what falls to PID 1
// when a keeper was killed.
type reaper struct {
	mu    sync.Mutex
	known map[int]chan syscall.WaitStatus // children that somebody waits for
	mains map[int]chan syscall.WaitStatus // programs of commands: children only once their keeper was killed
	wake  chan struct{}                   // there may be children again
}

func newReaper() *reaper {
	return &reaper{
		known: map[int]chan syscall.WaitStatus{},
		mains: map[int]chan syscall.WaitStatus{},
		wake:  make(chan struct{}, 1),
	}
}

// fork starts a child and knows it before it can be reaped.
func (r *reaper) fork(path string, argv []string, attr *syscall.ProcAttr) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	// The child is ours only after its exec. Until then user code that guesses
	// its id can stop it, and we wait for it with the lock held.
	defer every(resumePause, resumeChildren)()
	pid, err := syscall.ForkExec(path, argv, attr)
	if err != nil {
		return 0, err
	}
	r.known[pid] = make(chan syscall.WaitStatus, 1)
	select {
	case r.wake <- struct{}{}:
	default:
	}
	return pid, nil
}

// every calls fn again and again, until stop is called.
func every(pause time.Duration, fn func()) (stop func()) {
	done := make(chan struct{})
	go func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(pause):
				fn()
			}
		}
	}()
	return func() { close(done) }
}

// resumeChildren lets every child of the init go on. It takes no lock.
func resumeChildren() {
	self := os.Getpid()
	keep.EachProcess(func(pid, parent int) {
		if parent == self {
			_ = syscall.Kill(pid, syscall.SIGCONT)
		}
	})
}

// alive says whether a child that fork made has not been reaped.
func (r *reaper) alive(pid int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.known[pid]
	return ok
}

// kill kills a child that fork made.
func (r *reaper) kill(pid int) { r.signal(pid, syscall.SIGKILL) }

// signal signals a child that fork made. It can't hit another process: the
// child's id is free only once it was reaped, under the same lock.
func (r *reaper) signal(pid int, sig syscall.Signal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.known[pid]; ok {
		_ = syscall.Kill(pid, sig)
	}
}

// stranger says whether a child of PID 1 was not made by fork. fork holds the
// lock until it knows its child, so a keeper is never taken for a stranger.
func (r *reaper) stranger(pid int) bool { return !r.alive(pid) }

// run reaps for as long as the init lives.
func (r *reaper) run() {
	for {
		// It only looks: the id of a child stays its own until reapSome, which
		// holds the lock.
		err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOWAIT, nil)
		switch {
		case err == unix.EINTR:
		case err != nil: // no children at all
			select {
			case <-r.wake:
			case <-time.After(time.Second): // an orphan may have come that fork knows nothing of
			}
		default:
			r.reapSome()
			runtime.Gosched()
		}
	}
}

// reapSome reaps what has ended, but not for ever, however many zombies a bomb
// leaves: others need the lock and the processor.
func (r *reaper) reapSome() {
	const burst = 64
	r.mu.Lock()
	defer r.mu.Unlock()
	for range burst {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || pid == 0 {
			return
		}
		if c, ok := r.known[pid]; ok {
			delete(r.known, pid)
			c <- status
		} else if c, ok := r.mains[pid]; ok {
			delete(r.mains, pid)
			c <- status
		}
	}
}

// expect gives the status of a command's program, should it come to PID 1 to
// reap it.
func (r *reaper) expect(pid int) <-chan syscall.WaitStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := make(chan syscall.WaitStatus, 1)
	r.mains[pid] = c
	return c
}

// forget ends expect.
func (r *reaper) forget(pid int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.mains, pid)
}

// orphans gives what fell to PID 1 because its keeper was killed: every child
// of PID 1 that is no keeper, and all below it.
func orphans(r *reaper) keep.Group {
	return func(fn func(pid int)) {
		tree := map[int]bool{}
		keep.EachProcess(func(pid, parent int) {
			if pid != 1 && (tree[parent] || parent == 1 && r.stranger(pid)) {
				tree[pid] = true
				fn(pid)
			}
		})
	}
}
