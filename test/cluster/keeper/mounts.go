//go:build linux

package keeper

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// mountAll gives the caller, alone in its namespaces, the mounts of a machine
// of its own: its processes, its network's devices, its part of the cgroup
// trees, and folders for what programs leave under /run, /var/lib and
// /var/log. Nothing of it is seen outside.
func mountAll(spec Spec) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	trees, err := hierarchies()
	if err != nil {
		return err
	}
	links := cgroupLinks()

	// The host's are taken away and not covered: programs that read the list of
	// mounts would take the first of two.
	for _, old := range []string{"/sys", "/proc"} {
		if err := unix.Unmount(old, unix.MNT_DETACH); err != nil {
			return fmt.Errorf("unmount the host's %s: %w", old, err)
		}
	}
	const flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	if err := mount("proc", "/proc", "proc", flags, ""); err != nil {
		return err
	}
	if err := mount("sysfs", "/sys", "sysfs", flags, ""); err != nil {
		return err
	}
	if err := mountCgroups(trees, links, flags); err != nil {
		return err
	}

	visible := append(slices.Clone(spec.Visible), spec.Folder)
	for _, covered := range []string{"/run", "/var/lib"} {
		if err := cover(covered, visible); err != nil {
			return err
		}
	}
	if err := mountSettings(); err != nil {
		return err
	}
	logs := filepath.Join(spec.Folder, "var-log")
	if err := os.MkdirAll(logs, 0o755); err != nil {
		return err
	}
	if err := mount(logs, "/var/log", "", unix.MS_BIND, ""); err != nil {
		return err
	}

	// The kubelet wants mounts to reach the containers that ask for it.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("make mounts shared: %w", err)
	}
	return nil
}

func mount(source, target, kind string, flags uintptr, data string) error {
	if err := unix.Mount(source, target, kind, flags, data); err != nil {
		return fmt.Errorf("mount %s at %s: %w", source, target, err)
	}
	return nil
}

// cgroupLinks lists the symbolic links beside the trees of version 1, such as
// cpu -> cpu,cpuacct.
func cgroupLinks() map[string]string {
	links := map[string]string{}
	entries, err := os.ReadDir(cgroupRoot)
	if err != nil {
		return links
	}
	for _, e := range entries {
		if to, err := os.Readlink(filepath.Join(cgroupRoot, e.Name())); err == nil {
			links[e.Name()] = to
		}
	}
	return links
}

const cgroupRoot = "/sys/fs/cgroup"

// mountCgroups mounts the trees again: from inside the cgroup namespace the
// group that the caller is in is their root.
func mountCgroups(trees []hierarchy, links map[string]string, flags uintptr) error {
	if !slices.ContainsFunc(trees, func(h hierarchy) bool { return h.mount == cgroupRoot }) {
		if err := mount("cgroup", cgroupRoot, "tmpfs", flags, "mode=755,size=1m"); err != nil {
			return err
		}
	}
	for _, h := range trees {
		if err := os.MkdirAll(h.mount, 0o755); err != nil {
			return err
		}
		kind, options := "cgroup", h.options
		if h.v2 {
			kind, options = "cgroup2", ""
		} else if strings.HasPrefix(options, "name=") {
			options = "none," + options
		}
		if err := mount(kind, h.mount, kind, flags, options); err != nil {
			return fmt.Errorf("%w (options %q)", err, options)
		}
		if h.v2 {
			if err := delegate(h.mount); err != nil {
				return fmt.Errorf("delegate the controllers of %s: %w", h.mount, err)
			}
		}
	}
	for name, to := range links {
		if err := os.Symlink(to, filepath.Join(cgroupRoot, name)); err != nil {
			return err
		}
	}
	return nil
}

// cover mounts an empty folder over path, in which only what is visible of it
// remains.
func cover(path string, visible []string) error {
	kept := map[string]int{}
	defer func() {
		for _, fd := range kept {
			_ = unix.Close(fd)
		}
	}()
	for _, v := range visible {
		if !strings.HasPrefix(v+"/", path+"/") {
			continue
		}
		fd, err := unix.Open(v, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return &fs.PathError{Op: "open", Path: v, Err: err}
		}
		kept[v] = fd
	}
	if err := mount("tmpfs", path, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755,size=64m"); err != nil {
		return err
	}
	for v, fd := range kept {
		if v == path {
			return fmt.Errorf("%s itself can not be used; choose a folder in it", path)
		}
		if err := os.MkdirAll(v, 0o755); err != nil {
			return err
		}
		if err := mount(fmt.Sprintf("/proc/self/fd/%d", fd), v, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return fmt.Errorf("keep %s visible: %w", v, err)
		}
	}
	return nil
}

// globalSettings are kernel settings that no namespace holds a copy of and
// that the kubelet would change for the whole machine. Inside, files with the
// values it wants stand in their place.
var globalSettings = map[string]string{
	"vm/overcommit_memory":      "1",
	"vm/panic_on_oom":           "0",
	"kernel/panic":              "10",
	"kernel/panic_on_oops":      "1",
	"kernel/keys/root_maxkeys":  "1000000",
	"kernel/keys/root_maxbytes": "25000000",
}

func mountSettings() error {
	for name, value := range globalSettings {
		path := filepath.Join("/proc/sys", name)
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		file := filepath.Join("/run", strings.ReplaceAll(name, "/", "."))
		if err := os.WriteFile(file, []byte(value+"\n"), 0o644); err != nil {
			return err
		}
		if err := mount(file, path, "", unix.MS_BIND, ""); err != nil {
			return err
		}
	}
	return nil
}

// networkSettings are those of the network namespace.
var networkSettings = map[string]string{
	"ipv4/ip_forward": "1",
	// Traffic between pods on one bridge passes the firewall too: without it
	// neither policies nor services hold between them.
	"bridge/bridge-nf-call-iptables":  "1",
	"bridge/bridge-nf-call-ip6tables": "1",
}

func setNetwork() error {
	for name, value := range networkSettings {
		path := filepath.Join("/proc/sys/net", name)
		err := os.WriteFile(path, []byte(value), 0)
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("the kernel has no %s; load the module br_netfilter", path)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
