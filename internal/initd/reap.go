//go:build linux

package initd

import (
	"runtime"
	"sync"
	"syscall"
	"time"
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

// alive says whether a child that fork made has not been reaped.
func (r *reaper) alive(pid int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.known[pid]
	return ok
}

// stranger says whether a child of PID 1 was not made by fork. fork holds the
// lock until it knows its child, so a keeper is never taken for a stranger.
func (r *reaper) stranger(pid int) bool { return !r.alive(pid) }

// run reaps for as long as the init lives.
func (r *reaper) run() {
	const burst = 64 // then others get the processor, however many zombies a bomb leaves
	for n := 1; ; n++ {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil: // no children at all
			select {
			case <-r.wake:
			case <-time.After(time.Second): // an orphan may have come that fork knows nothing of
			}
		default:
			r.reaped(pid, status)
		}
		if n%burst == 0 {
			runtime.Gosched()
		}
	}
}

func (r *reaper) reaped(pid int, status syscall.WaitStatus) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c, ok := r.known[pid]; ok {
		delete(r.known, pid)
		c <- status
		return
	}
	if c, ok := r.mains[pid]; ok {
		delete(r.mains, pid)
		c <- status
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
