//go:build linux

package supervise

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/skerry-run/skerry/internal/bwrap"
	"github.com/skerry-run/skerry/internal/control"
)

// memoryCheck is how often memory is measured where no control group counts
// it. A program that takes memory goes over the limit by what it can take
// meanwhile.
const memoryCheck = 250 * time.Millisecond

// watchMemory measures the memory of all processes of the sandbox, and of its
// files in memory, and tells the init once it is more than half of the limit.
func (s *supervisor) watchMemory() {
	limit := s.order.Record.Limits.MemoryBytes
	for pause := memoryCheck; ; {
		select {
		case <-s.launch.exited:
			return
		case <-time.After(pause):
		}
		began := time.Now()
		pids := s.pids()
		files, known := s.memoryFiles(pids)
		if files+residentOf(pids) > limit/2 {
			n := files
			for _, pid := range pids {
				n += memoryOf(pid, known)
			}
			if s.line.Send(control.Message{Type: control.Memory, Bytes: n}, nil) != nil {
				return
			}
		}
		pause = lookAgain(memoryCheck, time.Since(began))
	}
}

// residentOf is quick, and never too small: pages that are shared count for
// each process.
func residentOf(pids []int) (n int64) {
	for _, pid := range pids {
		data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)) // it may have ended
		for line := range strings.Lines(string(data)) {
			for _, name := range []string{"RssAnon:", "RssShmem:"} {
				if value, ok := strings.CutPrefix(line, name); ok {
					n += kilobytes(value)
				}
			}
		}
	}
	return n
}

// memoryFiles gives what the sandbox's file systems in memory hold, and the
// files in memory without a name that its processes have open, which known has
// by their inodes.
func (s *supervisor) memoryFiles(pids []int) (n int64, known map[[2]uint64]int64) {
	s.launch.mu.Lock()
	root := fmt.Sprintf("/proc/%d/root", s.launch.child)
	s.launch.mu.Unlock()
	h := &hidden{devices: map[uint64]bool{memoryDevice(): true}, files: map[[2]uint64]int64{}}
	for _, dir := range []string{bwrap.Tmp, bwrap.Shm, bwrap.Workspace, bwrap.Home} {
		var fs unix.Statfs_t
		if unix.Statfs(root+dir, &fs) == nil && fs.Type == unix.TMPFS_MAGIC {
			n += int64(fs.Blocks-fs.Bfree) * fs.Bsize
		}
	}
	for _, pid := range pids {
		h.openFiles(pid)
	}
	return n + h.bytes(), h.files
}

// memoryDevice is the device of files in memory that no mount shows.
func memoryDevice() uint64 {
	f, err := memfd("device", nil)
	if err != nil {
		return 0
	}
	defer f.Close()
	var st unix.Stat_t
	if unix.Fstat(int(f.Fd()), &st) != nil {
		return 0
	}
	return st.Dev
}

// memoryOf gives pid's share of the pages that processes share, and all of its
// own. What is in a file of known, or in a file system, is counted there.
func memoryOf(pid int, known map[[2]uint64]int64) (n int64) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/smaps", pid))
	if err != nil {
		return 0
	}
	defer f.Close()
	device := memoryDevice()
	counts := false
	for lines := bufio.NewScanner(f); lines.Scan(); {
		first, rest, _ := strings.Cut(lines.Text(), " ")
		switch {
		case first == "Pss:" && counts:
			n += kilobytes(rest)
		case strings.HasSuffix(first, ":"):
		default: // the head of a mapping
			m, ok := parseMapping(lines.Text())
			_, there := known[[2]uint64{m.device, m.inode}]
			counts = ok && (m.inode == 0 || m.device == device && !there)
		}
	}
	return n
}

func kilobytes(value string) int64 {
	n, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 10, 64)
	return n << 10
}
