//go:build linux

package keeper

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A hierarchy is one mounted cgroup tree: one for each controller (or group of
// them) of version 1, one of version 2.
type hierarchy struct {
	mount string
	// options are the mount options of version 1 that name the controllers.
	options string
	v2      bool
}

// hierarchies lists the cgroup trees that are mounted, each once.
func hierarchies() ([]hierarchy, error) {
	info, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	var found []hierarchy
	seen := map[string]bool{}
	for line := range strings.Lines(string(info)) {
		before, after, ok := strings.Cut(line, " - ")
		head, tail := strings.Fields(before), strings.Fields(after)
		if !ok || len(head) < 5 || len(tail) < 3 {
			continue
		}
		device, mount := head[2], head[4]
		if kind := tail[0]; (kind != "cgroup" && kind != "cgroup2") || seen[device] {
			continue
		}
		seen[device] = true
		options := slices.DeleteFunc(strings.Split(tail[2], ","), func(o string) bool {
			// Not names of controllers; what was given at the first mount holds.
			return o == "rw" || o == "ro" || o == "clone_children" || o == "xattr" || strings.HasPrefix(o, "release_agent=")
		})
		found = append(found, hierarchy{mount: mount, options: strings.Join(options, ","), v2: tail[0] == "cgroup2"})
	}
	if len(found) == 0 {
		return nil, errors.New("no cgroup file system is mounted; mount one at /sys/fs/cgroup")
	}
	return found, nil
}

// joinCgroup makes the group in each hierarchy and moves the calling process
// into it.
func joinCgroup(name string) error {
	all, err := hierarchies()
	if err != nil {
		return err
	}
	for _, h := range all {
		dir := filepath.Join(h.mount, name)
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("make a cgroup: %w", err)
		}
		// A group of version 1 has no processors and no memory nodes until it
		// is told which, and takes no process before.
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
			if h.v2 {
				break
			}
			value, err := os.ReadFile(filepath.Join(h.mount, file))
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, file), value, 0)
			}
			if err != nil {
				return fmt.Errorf("give cgroup %s its %s: %w", dir, file, err)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte("0"), 0); err != nil {
			return fmt.Errorf("join a cgroup: %w", err)
		}
	}
	return nil
}

// delegate hands the controllers of a version 2 tree that the caller is the
// root of down to its children, which needs the root itself to be empty of
// processes.
func delegate(mount string) error {
	offered, err := os.ReadFile(filepath.Join(mount, "cgroup.controllers"))
	if err != nil {
		return err
	}
	controllers := strings.Fields(string(offered))
	if len(controllers) == 0 {
		return nil
	}
	leaf := filepath.Join(mount, "init")
	if err := os.Mkdir(leaf, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := os.WriteFile(filepath.Join(leaf, "cgroup.procs"), []byte("0"), 0); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(mount, "cgroup.subtree_control"), []byte("+"+strings.Join(controllers, " +")), 0)
}

// removeCgroup kills what is left in the group and removes it from each
// hierarchy. It waits as long as processes still end, up to cgroupGrace.
func removeCgroup(name string) error {
	all, err := hierarchies()
	if err != nil {
		return err
	}
	deadline := time.Now().Add(cgroupGrace)
	for {
		var busy []error
		for _, h := range all {
			busy = append(busy, removeTree(filepath.Join(h.mount, name)))
		}
		err := errors.Join(busy...)
		if err == nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(cgroupPoll)
	}
}

const (
	cgroupGrace = 10 * time.Second
	// There is no event for "this group may be removed now".
	cgroupPoll = 20 * time.Millisecond
)

func removeTree(dir string) error {
	children, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, c := range children {
		if c.IsDir() {
			if err := removeTree(filepath.Join(dir, c.Name())); err != nil {
				return err
			}
		}
	}
	procs, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENODEV) {
		return err
	}
	for _, p := range strings.Fields(string(procs)) {
		if pid, err := strconv.Atoi(p); err == nil && pid > 0 {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
	if err := unix.Rmdir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove cgroup %s: %w", dir, err)
	}
	return nil
}
