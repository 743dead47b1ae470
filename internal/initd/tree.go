//go:build linux

package initd

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// eachProcess calls fn with every process and its parent, in ascending order
// of pid. The listing is live: a process that is made meanwhile has a higher
// pid and is found in the same pass.
func eachProcess(fn func(pid, parent int)) {
	dir, err := os.Open("/proc")
	if err != nil {
		return
	}
	defer dir.Close()
	const batch = 32 // small, so that what is listed is not long out of date
	buf := make([]byte, 512)
	for {
		names, err := dir.Readdirnames(batch)
		for _, name := range names {
			pid, err := strconv.Atoi(name)
			if err != nil {
				continue
			}
			if parent, ok := parentOf(pid, buf); ok {
				fn(pid, parent)
			}
		}
		if err != nil {
			return
		}
	}
}

// parentOf reads the parent of pid; a process that is gone has none.
func parentOf(pid int, buf []byte) (int, bool) {
	fd, err := syscall.Open("/proc/"+strconv.Itoa(pid)+"/stat", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return 0, false
	}
	defer syscall.Close(fd)
	n, err := syscall.Read(fd, buf)
	if err != nil || n <= 0 {
		return 0, false
	}
	// "pid (name) state parent …", and a name may hold anything.
	rest := buf[:n]
	i := bytes.LastIndexByte(rest, ')')
	if i < 0 {
		return 0, false
	}
	fields := bytes.Fields(rest[i+1:])
	if len(fields) < 2 {
		return 0, false
	}
	parent, err := strconv.Atoi(string(fields[1]))
	return parent, err == nil
}

// signalTree sends sig to every descendant of root, as it finds them, and
// counts them.
func signalTree(root int, sig syscall.Signal) int {
	below := map[int]bool{root: true}
	n := 0
	eachProcess(func(pid, parent int) {
		if pid == root || !below[parent] {
			return
		}
		below[pid] = true
		n++
		_ = syscall.Kill(pid, sig) // one that ended meanwhile is what we want
	})
	return n
}

// killUntilEmpty kills the descendants of root again and again until stop is
// closed: the caller's wait does that when nothing is left. With a nil stop it
// returns when it finds none. A tree that forks faster than it is killed is
// stopped first: what is stopped can't fork.
func killUntilEmpty(root int, stop <-chan struct{}) {
	const patience = 20 // passes
	pause := time.Millisecond
	for pass := 0; ; pass++ {
		if pass > patience {
			signalTree(root, unix.SIGSTOP)
		}
		if signalTree(root, syscall.SIGKILL) == 0 {
			if stop == nil {
				return
			}
			pause = min(2*pause, 100*time.Millisecond) // zombies, or a process that dies slowly
		}
		select {
		case <-stop:
			return
		case <-time.After(pause):
		}
	}
}

// raiseOOMScore makes the kernel choose user code before the init when memory
// is short. Raising needs no right; a program that ended already needs none.
func raiseOOMScore(pid int) {
	fd, err := syscall.Open("/proc/"+strconv.Itoa(pid)+"/oom_score_adj", syscall.O_WRONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	_, _ = syscall.Write(fd, []byte("500"))
	syscall.Close(fd)
}

// killOrphans kills everything that fell to PID 1 because its keeper was
// killed: every child of PID 1 that is no keeper, and all below it.
func killOrphans(r *reaper) int {
	below := map[int]bool{}
	n := 0
	eachProcess(func(pid, parent int) {
		if pid == 1 || !below[parent] && (parent != 1 || !r.stranger(pid)) {
			return
		}
		below[pid] = true
		n++
		_ = syscall.Kill(pid, syscall.SIGKILL)
	})
	return n
}

// threadsOf lists the threads of a process.
func threadsOf(pid int) []int {
	dir, err := os.Open("/proc/" + strconv.Itoa(pid) + "/task")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	var ids []int
	for _, name := range names {
		if id, err := strconv.Atoi(name); err == nil {
			ids = append(ids, id)
		}
	}
	return ids
}
