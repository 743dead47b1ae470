//go:build linux

package keep

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
	"time"
)

// EachProcess calls fn with every process and its parent, in ascending order
// of pid. The listing is live: a process that is made meanwhile has a higher
// pid and is found in the same pass.
func EachProcess(fn func(pid, parent int)) {
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

// Below gives every descendant of root, as it is found.
func Below(root int) Group {
	return func(fn func(pid int)) {
		tree := map[int]bool{root: true}
		EachProcess(func(pid, parent int) {
			if pid != root && tree[parent] {
				tree[pid] = true
				fn(pid)
			}
		})
	}
}

// Group calls fn with every process of a changing set. fn acts at once: a
// process that is gone by then is what we want.
type Group func(fn func(pid int))

// Signal sends sig to each and says how many there were.
func (g Group) Signal(sig syscall.Signal) (n int) {
	g(func(pid int) {
		n++
		_ = syscall.Kill(pid, sig)
	})
	return n
}

// freeze stops all of g, until a pass finds nobody new. What is killed makes
// room for others to fork, what is stopped does not: only so a bomb that has
// reached its limit of tasks comes to rest.
func (g Group) freeze() {
	const most = 50 // passes
	seen := map[int]bool{}
	for range most {
		before := len(seen)
		g(func(pid int) {
			seen[pid] = true
			_ = syscall.Kill(pid, syscall.SIGSTOP)
		})
		if len(seen) == before {
			return
		}
	}
}

// KillUntilEmpty kills all of g again and again, until stop is closed, or with
// a nil stop until nobody is found.
func (g Group) KillUntilEmpty(stop <-chan struct{}) {
	const quick = 3 // passes without a freeze
	pause := time.Millisecond
	for pass := 0; ; pass++ {
		if pass >= quick {
			g.freeze()
		}
		if g.Signal(syscall.SIGKILL) == 0 {
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

// raiseOOMScore makes the kernel choose user code before the keepers and the
// init when memory is short. Raising needs no right; a program that ended
// already needs none. User code may lower it again as far as its keeper's.
func raiseOOMScore(pid int) {
	fd, err := syscall.Open("/proc/"+strconv.Itoa(pid)+"/oom_score_adj", syscall.O_WRONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	_, _ = syscall.Write(fd, []byte("1000"))
	syscall.Close(fd)
}

// ThreadsOf lists the threads of a process.
func ThreadsOf(pid int) []int {
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
