//go:build linux

package cgroups

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Limits are what a group enforces; zero fields are not limited.
type Limits struct {
	MemoryBytes int64
	MilliCPU    int64
	PIDs        int64 // tasks, the init's own included
}

// Group is the set of folders that hold one sandbox's processes.
type Group struct {
	// Dirs are the folders as the host names them, one for each hierarchy.
	Dirs []Dir
	// Missing are the controllers whose limits are not enforced.
	Missing []string
}

// Dir is one folder of a Group.
type Dir struct {
	Path string
	V2   bool
	// Controllers are those that the folder has.
	Controllers []string
}

// Paths gives the folders of g alone.
func (g *Group) Paths() []string {
	out := make([]string, len(g.Dirs))
	for i, d := range g.Dirs {
		out[i] = d.Path
	}
	return out
}

// HasV2 says whether one of the folders is of version 2.
func (g *Group) HasV2() bool {
	return slices.ContainsFunc(g.Dirs, func(d Dir) bool { return d.V2 })
}

// Names gives every folder that Create could make for parent and name on h,
// whether or not it exists, so that what a dead process left can be removed
// without having been told where it is.
func (h Host) Names(parent, name string) []string {
	seen := map[string]bool{}
	var out []string
	for _, dir := range h.place() {
		if p := filepath.Join(h.root, dir, parent, name); !seen[p] {
			seen[p] = true
			out = append(out, p)
		}
	}
	slices.Sort(out)
	return out
}

// Children gives the names of the groups that exist below parent.
func (h Host) Children(parent string) []string {
	seen := map[string]bool{}
	for _, dir := range h.place() {
		entries, _ := os.ReadDir(filepath.Join(h.root, dir, parent))
		for _, e := range entries {
			if e.IsDir() {
				seen[e.Name()] = true
			}
		}
	}
	var out []string
	for n := range seen {
		out = append(out, n)
	}
	slices.Sort(out)
	return out
}

// Create makes the group parent/name in every hierarchy that permits it and
// sets its limits. Whatever it made is removed again when it fails. The owner
// removes the group.
func (h Host) Create(parent, name string, l Limits) (*Group, error) {
	place := h.place()
	g := &Group{}
	byDir := map[string]*Dir{}
	for _, c := range []string{Memory, PIDs, CPU, CPUAcct} {
		base, ok := place[c]
		if !ok {
			if c != CPUAcct {
				g.Missing = append(g.Missing, c)
			}
			continue
		}
		p := filepath.Join(h.root, base, parent, name)
		d := byDir[p]
		if d == nil {
			d = &Dir{Path: p, V2: base != h.v1[c]}
			byDir[p] = d
		}
		d.Controllers = append(d.Controllers, c)
	}
	for _, d := range byDir {
		g.Dirs = append(g.Dirs, *d)
	}
	slices.SortFunc(g.Dirs, func(a, b Dir) int { return strings.Compare(a.Path, b.Path) })
	for _, d := range g.Dirs {
		if err := d.create(l); err != nil {
			return nil, errors.Join(err, Remove(g.Paths()))
		}
	}
	return g, nil
}

// create makes d and its parent. Another sandbox's end may remove the parent
// in between, so it is made again.
func (d Dir) create(l Limits) error {
	const tries = 100
	parent := filepath.Dir(d.Path)
	var err error
	for range tries {
		if err = os.Mkdir(parent, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("make control group %s: %w", parent, err)
		}
		if d.V2 {
			for _, c := range d.Controllers {
				if err := write(parent, "cgroup.subtree_control", "+"+c); err != nil {
					if errors.Is(err, fs.ErrNotExist) {
						break // removed meanwhile; Mkdir below says so
					}
					return err
				}
			}
		}
		if err = os.Mkdir(d.Path, 0o755); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("make control group %s: %w", d.Path, err)
	}
	if d.V2 {
		return d.limitV2(l)
	}
	return d.limitV1(l)
}

const cpuPeriod = 100_000 // microseconds

func (d Dir) limitV1(l Limits) error {
	if l.MemoryBytes > 0 && slices.Contains(d.Controllers, Memory) {
		// Without swap: memory that may be swapped is not limited.
		if err := writeIfThere(d.Path, "memory.swappiness", "0"); err != nil {
			return err
		}
		if err := write(d.Path, "memory.limit_in_bytes", strconv.FormatInt(l.MemoryBytes, 10)); err != nil {
			return err
		}
		if err := writeIfThere(d.Path, "memory.memsw.limit_in_bytes", strconv.FormatInt(l.MemoryBytes, 10)); err != nil {
			return err
		}
		// Version 1 counts the buffers of network sockets apart, and not at
		// all without a limit: they could take what the whole machine has.
		if err := writeIfThere(d.Path, "memory.kmem.tcp.limit_in_bytes", strconv.FormatInt(l.MemoryBytes, 10)); err != nil {
			return err
		}
	}
	if l.PIDs > 0 && slices.Contains(d.Controllers, PIDs) {
		if err := write(d.Path, "pids.max", strconv.FormatInt(l.PIDs, 10)); err != nil {
			return err
		}
	}
	if l.MilliCPU > 0 && slices.Contains(d.Controllers, CPU) {
		if err := write(d.Path, "cpu.cfs_period_us", strconv.Itoa(cpuPeriod)); err != nil {
			return err
		}
		return write(d.Path, "cpu.cfs_quota_us", strconv.FormatInt(l.MilliCPU*cpuPeriod/1000, 10))
	}
	return nil
}

func (d Dir) limitV2(l Limits) error {
	if l.MemoryBytes > 0 && slices.Contains(d.Controllers, Memory) {
		if err := write(d.Path, "memory.max", strconv.FormatInt(l.MemoryBytes, 10)); err != nil {
			return err
		}
		if err := writeIfThere(d.Path, "memory.swap.max", "0"); err != nil {
			return err
		}
		// The kernel kills one process, not the whole sandbox with its init.
		if err := writeIfThere(d.Path, "memory.oom.group", "0"); err != nil {
			return err
		}
	}
	if l.PIDs > 0 && slices.Contains(d.Controllers, PIDs) {
		if err := write(d.Path, "pids.max", strconv.FormatInt(l.PIDs, 10)); err != nil {
			return err
		}
	}
	if l.MilliCPU > 0 && slices.Contains(d.Controllers, CPU) {
		return write(d.Path, "cpu.max", fmt.Sprintf("%d %d", l.MilliCPU*cpuPeriod/1000, cpuPeriod))
	}
	return nil
}

// Around calls start in such a way that the process it starts is born in g, and
// says whether that was possible; else Add must follow. Moving a running
// process makes the kernel wait for every processor, which takes longer than
// making the whole sandbox.
//
// On version 1 the calling thread visits the group and returns; the goroutine
// must be locked to it. On version 2 start gets the folder's descriptor for
// clone3, -1 when there is none.
func (g *Group) Around(h Host, start func(v2 int) error) (born bool, err error) {
	v2 := -1
	var back []*os.File
	defer func() {
		for _, f := range back {
			f.Close()
		}
	}()
	for _, d := range g.Dirs {
		if d.V2 {
			fd, err := unix.Open(d.Path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
			if err != nil {
				return false, fmt.Errorf("open control group: %w", err)
			}
			defer unix.Close(fd)
			v2 = fd
			continue
		}
		own, ok := h.ownV1(d)
		if !ok {
			return false, start(-1)
		}
		f, err := os.OpenFile(filepath.Join(own, "tasks"), os.O_WRONLY, 0)
		if err != nil {
			return false, start(-1) // a way back must be certain before we go
		}
		back = append(back, f)
	}
	const self = "0"
	for _, d := range g.Dirs {
		if d.V2 {
			continue
		}
		if err = write(d.Path, "tasks", self); err != nil {
			break
		}
	}
	if err == nil {
		err = start(v2)
	}
	for _, f := range back {
		if _, e := f.WriteString(self); e != nil {
			err = errors.Join(err, fmt.Errorf("leave control group: %w", e))
		}
	}
	return err == nil, err
}

// ownV1 gives the folder in which this process is, in d's hierarchy.
func (h Host) ownV1(d Dir) (string, bool) {
	for _, c := range d.Controllers {
		if own, ok := h.own[c]; ok && h.v1[c] != "" {
			return filepath.Join(h.root, h.v1[c], own), true
		}
	}
	return "", false
}

// Add moves a process, with all its threads, into g.
func (g *Group) Add(pid int) error {
	for _, d := range g.Dirs {
		if err := write(d.Path, "cgroup.procs", strconv.Itoa(pid)); err != nil {
			return err
		}
	}
	return nil
}

// Binds gives for each folder of g where a sandbox expects to read it.
func (g *Group) Binds() map[string]string {
	out := map[string]string{}
	for _, d := range g.Dirs {
		if d.V2 {
			out["/sys/fs/cgroup"] = d.Path
			continue
		}
		for _, c := range d.Controllers {
			out["/sys/fs/cgroup/"+c] = d.Path
		}
	}
	if len(out) > 1 { // both versions: nothing may be bound above another bind
		delete(out, "/sys/fs/cgroup")
	}
	return out
}

const (
	removeLimit = 5 * time.Second
	removePause = 2 * time.Millisecond
)

// Remove kills what is left in the folders and removes them, and their parent
// when it is empty then. A folder that does not exist is no error. It returns
// within a bounded time.
func Remove(dirs []string) error {
	end := time.Now().Add(removeLimit)
	var errs []error
	for _, dir := range dirs {
		errs = append(errs, removeOne(dir, end))
	}
	for _, dir := range dirs {
		_ = unix.Rmdir(filepath.Dir(dir)) // in use by others: stays
	}
	return errors.Join(errs...)
}

// removeOne tries again while the kernel still lets go of the last process: a
// group has no event for "empty" that both versions know.
func removeOne(dir string, end time.Time) error {
	for {
		err := unix.Rmdir(dir)
		if err == nil || errors.Is(err, unix.ENOENT) {
			return nil
		}
		if !errors.Is(err, unix.EBUSY) && !errors.Is(err, unix.ENOTEMPTY) {
			return fmt.Errorf("remove control group %s: %w", dir, err)
		}
		kill(dir)
		if time.Now().After(end) {
			return fmt.Errorf("remove control group %s: it still has processes %v after %v", dir, procs(dir), removeLimit)
		}
		time.Sleep(removePause)
	}
}

// kill ends every process in dir.
func kill(dir string) {
	if os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0) == nil {
		return
	}
	for _, pid := range procs(dir) {
		_ = syscall.Kill(pid, syscall.SIGKILL) // may have ended meanwhile
	}
}

func procs(dir string) []int {
	data, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	var out []int
	for f := range strings.FieldsSeq(string(data)) {
		// 0 stands for a process that this pid namespace can't see.
		if pid, err := strconv.Atoi(f); err == nil && pid > 1 {
			out = append(out, pid)
		}
	}
	return out
}

func write(dir, file, value string) error {
	f, err := os.OpenFile(filepath.Join(dir, file), os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("control group: %w", err)
	}
	_, err = f.WriteString(value)
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		return fmt.Errorf("control group: write %s to %s: %w", value, f.Name(), err)
	}
	return nil
}

func writeIfThere(dir, file, value string) error {
	if err := write(dir, file, value); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
