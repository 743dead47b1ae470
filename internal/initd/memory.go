//go:build linux

package initd

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/skerry-run/skerry"
	"github.com/skerry-run/skerry/internal/initconfig"
)

// memoryWatch keeps the memory limit for all processes together where no
// control group does. The supervisor, which can look into every process,
// measures, and tells when it is more than half of the limit.
type memoryWatch struct {
	limit int64
	tells chan int64
	kick  chan struct{} // something runs
}

// newMemoryWatch gives nil when nothing is to be watched.
func newMemoryWatch(c Config) *memoryWatch {
	if c.DataBytes == 0 {
		return nil
	}
	return &memoryWatch{limit: c.DataBytes, tells: make(chan int64, 1), kick: make(chan struct{}, 1)}
}

// told takes what the supervisor measured. It works on nil, and does not wait.
func (w *memoryWatch) told(bytes int64) {
	if w == nil {
		return
	}
	select {
	case w.tells <- bytes:
	default: // the one before is being looked at; the next comes soon
	}
}

// started says that a command runs. It works on nil.
func (w *memoryWatch) started() {
	if w == nil {
		return
	}
	select {
	case w.kick <- struct{}{}:
	default:
	}
}

// detachedCheck is how often segments that no process has attached are added
// up while commands run: only the inside can see those.
const detachedCheck = 250 * time.Millisecond

// watchMemory ends what takes more than the limit.
func (s *Server) watchMemory() {
	w := s.memory
	for {
		told := w.limit / 2 // at most, when the supervisor says nothing
		var tick <-chan time.Time
		if s.isBusy() {
			tick = time.After(detachedCheck)
		}
		select {
		case told = <-w.tells:
		case <-tick:
		case <-w.kick:
			continue
		case <-s.done:
			return
		}
		if n := terminals(); n > initconfig.MaxTerminals {
			s.endAll(stopReason{outcome: skerry.Evicted, reason: fmt.Sprintf(
				"the sandbox held %d pseudo-terminals, which the machine has for all; its limit is %d", n, initconfig.MaxTerminals)})
			continue
		}
		all, detached := segments()
		if told+detached <= w.limit {
			continue
		}
		s.endAll(stopReason{outcome: skerry.OOM, reason: fmt.Sprintf(
			"the sandbox held %d bytes of memory, its limit is %d; this was measured, because no memory control group is permitted here; files in /tmp, and in a workspace in memory, count as memory",
			told+detached, w.limit)})
		for _, id := range all {
			_, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil) // else they would outlive whoever is ended
		}
	}
}

// terminals counts the pseudo-terminals of the sandbox.
func terminals() int {
	dir, err := os.Open("/dev/pts")
	if err != nil {
		return 0
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	return max(0, len(names)-1) // without ptmx
}

// segments gives the System V segments of the sandbox, and the bytes of those
// that no process has attached. They stay until somebody removes them.
func segments() (all []int, detached int64) {
	f, err := os.Open("/proc/sysvipc/shm")
	if err != nil {
		return nil, 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		const number, attached, resident = 1, 6, 14 // fields
		fields := strings.Fields(lines.Text())
		if len(fields) <= resident {
			continue
		}
		id, err := strconv.Atoi(fields[number])
		if err != nil {
			continue // the head
		}
		all = append(all, id)
		if rss, err := strconv.ParseInt(fields[resident], 10, 64); err == nil && fields[attached] == "0" {
			detached += rss
		}
	}
	return all, detached
}
