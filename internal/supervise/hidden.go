//go:build linux

package supervise

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/skerry-run/skerry/internal/boxes"
	"github.com/skerry-run/skerry/internal/control"
)

const (
	// hiddenCheck is how often the free room of a volume's file system is
	// looked at. Only when it shrank by a share of the limit, or boxCheck has
	// passed, the sandbox's processes are.
	hiddenCheck = 250 * time.Millisecond
	hiddenShare = 8
	// hiddenPatience is as many times as the last measurement took, so that
	// measuring stays a small part of the work.
	hiddenPatience = 20

	hiddenAtMost = time.Second
	// measureAnyway is how long files with names may go unmeasured where no
	// command runs and nothing seems to have been written.
	measureAnyway = time.Minute

	maxHiddenFiles = 1_000_000 // that are told apart
	maxOpenFiles   = 16384     // descriptors of one process, which is the hard limit of user code
	fileBlock      = 512       // bytes that stat counts in
)

// watchHidden measures the files without a name that the processes of a kept
// session hold open, and tells the init, which measures those that have names.
// The init can't see the files of a process that lets nobody look at it; we
// stand outside, and own the sandbox's user namespace.
func (s *supervisor) watchHidden(v boxes.Volume) {
	var room, last, measured = int64(-1), time.Time{}, time.Time{}
	for pause := hiddenCheck; ; {
		select {
		case <-s.launch.exited:
			return
		case <-time.After(pause):
		}
		pause = hiddenCheck
		var fs unix.Statfs_t
		if unix.Statfs(v.Workspace, &fs) != nil {
			continue
		}
		now := int64(fs.Bfree) * fs.Bsize
		shrank := room < 0 || now <= room-s.order.Record.Limits.WorkspaceBytes/hiddenShare
		if !shrank && time.Since(last) < boxCheck {
			room = max(room, now)
			continue
		}
		began := time.Now()
		room, last = now, began
		h := newHidden(v)
		for _, pid := range s.pids() {
			h.process(pid)
		}
		n := h.bytes()
		if n > 0 {
			room = now + s.order.Record.Limits.WorkspaceBytes // look again soon
		}
		// What was written before the first look, or while somebody else made
		// room, is noticed by a look that nothing asked for.
		if n > 0 || shrank || time.Since(measured) > measureAnyway {
			measured = began
			if s.line.Send(control.Message{Type: control.Hidden, Bytes: n}, nil) != nil {
				return
			}
		}
		pause = lookAgain(hiddenCheck, time.Since(began))
	}
}

// lookAgain is the pause before the next look, when the last one took so long.
func lookAgain(usual, took time.Duration) time.Duration {
	return min(max(usual, hiddenPatience*took), hiddenAtMost)
}

// pids gives the processes of user code: those below the keepers, which are the
// children of the init.
func (s *supervisor) pids() []int {
	s.launch.mu.Lock()
	first := s.launch.child
	s.launch.mu.Unlock()
	if first == 0 {
		return nil
	}
	names, _ := filepath.Glob("/proc/[0-9]*")
	children := map[int][]int{} // by parent; numbers begin anew, so their order says nothing
	for _, name := range names {
		pid, err := strconv.Atoi(filepath.Base(name))
		if err != nil {
			continue
		}
		data, err := os.ReadFile(name + "/stat")
		if err != nil {
			continue // it has ended
		}
		// "pid (name) state parent …", and a name may hold anything.
		fields := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
		if len(fields) < 2 {
			continue
		}
		if parent, err := strconv.Atoi(string(fields[1])); err == nil {
			children[parent] = append(children[parent], pid)
		}
	}
	var out []int
	for _, keeper := range children[first] {
		out = append(out, children[keeper]...)
	}
	for i := 0; i < len(out) && i < len(names); i++ { // what is added is looked at, too; a listing is no snapshot, and might show a circle
		out = append(out, children[out[i]]...)
	}
	return out
}

// hidden adds up files without a name.
type hidden struct {
	devices map[uint64]bool
	files   map[[2]uint64]int64 // device and inode, to bytes
}

func newHidden(v boxes.Volume) *hidden {
	h := &hidden{devices: map[uint64]bool{}, files: map[[2]uint64]int64{}}
	for _, dir := range []string{v.Workspace, v.Home} {
		var st unix.Stat_t
		if unix.Stat(dir, &st) == nil {
			h.devices[st.Dev] = true
		}
	}
	return h
}

func (h *hidden) bytes() (n int64) {
	for _, size := range h.files {
		n += size
	}
	return n
}

func (h *hidden) process(pid int) {
	h.mappings(pid)
	h.openFiles(pid)
}

func (h *hidden) openFiles(pid int) {
	tasks, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	for _, t := range tasks { // a thread may have files of its own
		dir, err := os.Open(fmt.Sprintf("/proc/%d/task/%s/fd", pid, t.Name()))
		if err == nil {
			h.folder(dir)
			continue
		}
		if !errors.Is(err, os.ErrPermission) {
			continue
		}
		if tid, err := strconv.Atoi(t.Name()); err == nil {
			h.descriptors(pid, tid)
		}
	}
}

// folder adds what a folder of descriptors shows, and closes it.
func (h *hidden) folder(dir *os.File) {
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	for _, name := range names {
		var st unix.Stat_t
		if unix.Fstatat(int(dir.Fd()), name, &st, 0) == nil {
			h.add(&st)
		}
	}
}

// descriptors adds the files of a thread whose folder is closed to us, because
// its process lets nobody look at it: as the owner of its user namespace we
// may have duplicates.
func (h *hidden) descriptors(pid, tid int) {
	const pidfdThread = unix.O_EXCL // since Linux 6.9; before it only a process has a pidfd
	fd, err := unix.PidfdOpen(tid, pidfdThread)
	if err != nil && pid == tid {
		fd, err = unix.PidfdOpen(pid, 0)
	}
	if err != nil {
		return
	}
	defer unix.Close(fd)
	for n := range tableSize(pid, tid) {
		theirs, err := unix.PidfdGetfd(fd, n, 0)
		if errors.Is(err, unix.EBADF) {
			continue
		}
		if err != nil {
			return
		}
		var st unix.Stat_t
		if unix.Fstat(theirs, &st) == nil {
			h.add(&st)
		}
		unix.Close(theirs)
	}
}

// tableSize is how many descriptors a thread has room for.
func tableSize(pid, tid int) int {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/status", pid, tid))
	for line := range strings.Lines(string(data)) {
		if value, ok := strings.CutPrefix(line, "FDSize:"); ok {
			n, _ := strconv.Atoi(strings.TrimSpace(value))
			return min(n, maxOpenFiles)
		}
	}
	return 0
}

func (h *hidden) add(st *unix.Stat_t) {
	if st.Mode&unix.S_IFMT == unix.S_IFREG && st.Nlink == 0 && h.devices[st.Dev] {
		h.atLeast([2]uint64{st.Dev, st.Ino}, st.Blocks*fileBlock)
	}
}

func (h *hidden) atLeast(key [2]uint64, size int64) {
	if _, known := h.files[key]; known || len(h.files) < maxHiddenFiles {
		h.files[key] = max(h.files[key], size)
	}
}

// mappings adds the files without a name that pid has mapped, as far as they
// are mapped: the descriptor may be closed.
func (h *hidden) mappings(pid int) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := lines.Text()
		if !strings.HasSuffix(line, " (deleted)") {
			continue
		}
		if m, ok := parseMapping(line); ok && h.devices[m.device] {
			h.atLeast([2]uint64{m.device, m.inode}, m.end)
		}
	}
}

// mapping is a line of maps.
type mapping struct {
	device, inode uint64
	end           int64 // in the file
}

func parseMapping(line string) (mapping, bool) {
	var from, to, offset, inode uint64
	var major, minor uint32
	var rights string
	n, _ := fmt.Sscanf(line, "%x-%x %s %x %x:%x %d", &from, &to, &rights, &offset, &major, &minor, &inode)
	return mapping{unix.Mkdev(major, minor), inode, int64(offset + to - from)}, n == 7
}
