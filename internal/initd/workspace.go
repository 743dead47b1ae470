//go:build linux

package initd

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/skerry-run/skerry"

	"github.com/skerry-run/skerry/internal/keep"
)

const (
	// How often the workspace is measured while commands run: the longer it
	// takes, the less often, so that measuring stays a small part of the work.
	measureEvery    = 100 * time.Millisecond
	measureAtMost   = 10 * time.Second
	measurePatience = 20 // times as long as the last measurement took

	blockBytes = 512 // that stat counts in

	maxWorkspaceDepth = 1000      // folders in each other: each holds a descriptor
	maxLinks          = 1_000_000 // files with several names that are told apart
)

// errTooDeep is for a tree that could hide anything below its depth.
var errTooDeep = fmt.Errorf("folders are nested deeper than %d", maxWorkspaceDepth)

// watch keeps the workspace below its limit where no file system does.
type watch struct {
	dirs  []string
	limit int64
	kick  chan struct{} // something runs

	hidden atomic.Int64 // bytes in files without a name, as the supervisor saw them since the last look

	mu   sync.Mutex // held while measuring: one at a time is enough
	used int64
	took time.Duration
}

// newWatch gives nil when nothing is to be watched.
func newWatch(c Config) *watch {
	if !c.WatchWorkspace || c.WorkspaceBytes == 0 {
		return nil
	}
	return &watch{dirs: []string{c.Workspace, c.Home}, limit: c.WorkspaceBytes, kick: make(chan struct{}, 1)}
}

// over measures, and says why the workspace is over its limit, or "".
func (w *watch) over() string { return w.overWith(0) }

// overWith is over when at least hidden bytes are in files without a name.
func (w *watch) overWith(hidden int64) string {
	if w == nil {
		return ""
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	begin := time.Now()
	m := measurement{links: map[[2]uint64]struct{}{}}
	err := m.add(w.dirs)
	named := m.bytes
	m.addUnlinked(w.dirs)
	w.used, w.took = max(m.bytes, named+hidden), time.Since(begin)
	switch {
	case errors.Is(err, errTooDeep):
		return fmt.Sprintf("workspace: %v, so its size can't be told; its limit is %d bytes", err, w.limit)
	case w.used > w.limit:
		return fmt.Sprintf("workspace holds %d bytes, its limit is %d", w.used, w.limit)
	}
	return ""
}

// pause is how long to wait before measuring again.
func (w *watch) pause() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return min(max(measureEvery, measurePatience*w.took), measureAtMost)
}

// started says that a command runs. It works on nil.
func (w *watch) started() {
	if w == nil {
		return
	}
	select {
	case w.kick <- struct{}{}:
	default:
	}
}

// told takes what the supervisor saw. It works on nil.
func (w *watch) told(hidden int64) {
	if w != nil {
		w.hidden.Store(hidden)
		w.started()
	}
}

// watchWorkspace measures while commands run, and when the supervisor has seen
// hidden files. Who has written too much is ended: commands, and when none
// runs, what they left running.
func (s *Server) watchWorkspace() {
	for {
		select {
		case <-s.watch.kick:
		case <-s.done:
			return
		}
		for {
			why := s.watch.overWith(s.watch.hidden.Swap(0))
			if why != "" {
				s.endAll(stopReason{outcome: skerry.Evicted, reason: why})
			}
			busy := s.isBusy()
			select {
			case <-time.After(s.watch.pause()):
			case <-s.done:
				return
			}
			if !busy {
				break
			}
		}
	}
}

// endAll ends what takes too much: the commands, and when none runs, what they
// left running.
func (s *Server) endAll(why stopReason) {
	if !s.isBusy() {
		_ = syscall.Kill(-1, syscall.SIGKILL) // keepers are made anew
	}
	for _, c := range s.list() {
		if !c.ended() {
			c.endNow(why)
		}
	}
}

func (s *Server) isBusy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running > 0
}

// roomForStart refuses a command while the workspace is over its limit.
func (s *Server) roomForStart() error {
	if why := s.watch.over(); why != "" {
		return skerry.Errorf(skerry.Busy, startOp, "%s", why).WithOutcome(skerry.Refused).
			WithHint("remove files of the workspace with the file calls, or make the sandbox with a larger limit")
	}
	return nil
}

// measurement adds up what files take.
type measurement struct {
	bytes int64
	links map[[2]uint64]struct{}
}

func (m *measurement) add(dirs []string) error {
	for _, dir := range dirs {
		fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			continue
		}
		if err := m.folder(fd, 0); err != nil {
			return err
		}
	}
	return nil
}

// folder adds what is in the folder fd, and closes it. What vanishes meanwhile
// takes nothing.
func (m *measurement) folder(fd, depth int) error {
	dir := os.NewFile(uintptr(fd), "")
	defer dir.Close()
	if depth > maxWorkspaceDepth {
		return errTooDeep
	}
	const batch = 256
	for {
		names, err := dir.Readdirnames(batch)
		for _, name := range names {
			var st unix.Stat_t
			if unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil || !m.count(&st) {
				continue
			}
			if st.Mode&unix.S_IFMT != unix.S_IFDIR {
				continue
			}
			sub, restore, err := openFolder(fd, name, st.Mode)
			if err != nil {
				continue
			}
			err = m.folder(sub, depth+1)
			restore()
			if err != nil {
				return err
			}
		}
		if err != nil {
			return nil
		}
	}
}

// count adds one file, a file with several names once.
func (m *measurement) count(st *unix.Stat_t) bool {
	if st.Nlink > 1 && st.Mode&unix.S_IFMT != unix.S_IFDIR && !m.isNew([2]uint64{st.Dev, st.Ino}) {
		return false
	}
	m.bytes += st.Blocks * blockBytes
	return true
}

// addUnlinked adds files without a name that a process of the sandbox holds
// open. They are on the disk like any other.
func (m *measurement) addUnlinked(dirs []string) {
	devices := map[uint64]bool{}
	for _, dir := range dirs {
		var st unix.Stat_t
		if unix.Stat(dir, &st) == nil {
			devices[st.Dev] = true
		}
	}
	keep.EachProcess(func(pid, _ int) {
		if pid == 1 {
			return // its files are its own, and bounded
		}
		for _, task := range keep.ThreadsOf(pid) { // a thread may have files of its own
			m.openFiles(fmt.Sprintf("/proc/%d/task/%d/fd", pid, task), devices)
		}
	})
}

// openFiles adds the regular files without a name among those of one task.
func (m *measurement) openFiles(path string, devices map[uint64]bool) {
	dir, err := os.Open(path)
	if err != nil {
		return
	}
	defer dir.Close()
	const batch = 256
	for {
		names, err := dir.Readdirnames(batch)
		for _, name := range names {
			var st unix.Stat_t
			if unix.Fstatat(int(dir.Fd()), name, &st, 0) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Nlink > 0 || !devices[st.Dev] {
				continue
			}
			if key := [2]uint64{st.Dev, st.Ino}; m.isNew(key) {
				m.bytes += st.Blocks * blockBytes
			}
		}
		if err != nil {
			return
		}
	}
}

// isNew says whether a file was not counted yet.
func (m *measurement) isNew(key [2]uint64) bool {
	if _, seen := m.links[key]; seen {
		return false
	}
	if len(m.links) < maxLinks {
		m.links[key] = struct{}{}
	}
	return true
}

// openFolder opens a folder that its owner may have closed to himself: else
// taking away the right to read would hide any amount. restore puts the mode
// back.
func openFolder(dir int, name string, mode uint32) (fd int, restore func(), err error) {
	const (
		flags    = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
		readable = 0o500
	)
	restore = func() {}
	if mode&readable != readable {
		if err := unix.Fchmodat(dir, name, mode&0o7777|readable, 0); err != nil {
			return -1, nil, err
		}
		restore = func() { _ = unix.Fchmodat(dir, name, mode&0o7777, 0) }
	}
	if fd, err = unix.Openat(dir, name, flags, 0); err != nil {
		restore()
		return -1, nil, err
	}
	return fd, restore, nil
}
