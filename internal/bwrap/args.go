//go:build linux

package bwrap

import (
	"slices"
	"strconv"
)

// Numbers and names inside every sandbox.
const (
	UID      = 1000
	GID      = 1000
	User     = "skerry"
	Hostname = "skerry"

	InitPath  = "/run/skerry/init"
	Workspace = "/workspace"
	Home      = "/home/skerry"
	Tmp       = "/tmp"
	Shm       = "/dev/shm"
)

// Spec is one sandbox as bwrap has to make it. File descriptors are numbers in
// the bwrap process.
type Spec struct {
	Layout Layout

	// Init is the host's path of skerry-init.
	Init string

	// WorkspaceSource and HomeSource are host folders that are bound in; where
	// they are empty the folders are of WorkspaceBytes and HomeBytes in memory.
	WorkspaceSource, HomeSource string
	WorkspaceBytes, HomeBytes   int64
	TmpBytes, ShmBytes          int64
	// ReadOnlyProc closes all of /proc to writers, and with it the score by
	// which the kernel chooses whom to kill for memory. Then only somebody
	// outside can set one.
	ReadOnlyProc                bool
	CgroupBinds                 map[string]string // place inside to the host's folder
	Data                        []Data
	SeccompFD, StatusFD, HoldFD int // HoldFD -1 does not wait
}

// Data is a small file whose content bwrap reads from FD. It lies in the root's
// own file system, which is read-only in the end.
type Data struct {
	FD   int
	Dest string
}

// Args gives the options of bwrap for s, without the command. It is a pure
// function; the same s gives the same list.
func Args(s Spec) []string {
	a := []string{
		"--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try",
		"--uid", strconv.Itoa(UID), "--gid", strconv.Itoa(GID), "--hostname", Hostname,
		"--disable-userns", "--new-session", "--as-pid-1", "--die-with-parent", "--clearenv",
		"--seccomp", strconv.Itoa(s.SeccompFD), "--json-status-fd", strconv.Itoa(s.StatusFD),
	}
	if s.HoldFD >= 0 {
		a = append(a, "--block-fd", strconv.Itoa(s.HoldFD))
	}
	for _, b := range s.Layout.Binds {
		a = append(a, "--ro-bind", b.Source, b.Dest)
	}
	for _, l := range s.Layout.Symlinks {
		a = append(a, "--symlink", l.Target, l.Path)
	}
	for _, d := range s.Data {
		a = append(a, "--perms", "0444", "--file", strconv.Itoa(d.FD), d.Dest)
	}
	a = append(a, "--proc", "/proc")
	if !s.ReadOnlyProc {
		for _, p := range []string{"/proc/sys", "/proc/sysrq-trigger"} {
			// Read-only on top of not being root: what is owned by a namespace
			// may be writable to the one who made it.
			a = append(a, "--ro-bind-try", p, p)
		}
	}
	for _, p := range s.Layout.MaskFiles {
		a = append(a, "--ro-bind-try", "/dev/null", p)
	}
	for _, p := range s.Layout.MaskDirs {
		a = append(a, "--perms", "0555", "--size", "4096", "--tmpfs", p, "--remount-ro", p)
	}
	if s.ReadOnlyProc {
		a = append(a, "--remount-ro", "/proc")
	}
	a = append(a, "--dev", "/dev")
	a = append(a, tmpfs(Shm, "1777", s.ShmBytes)...)
	// The tmpfs that bwrap puts at /dev takes half of the memory there is.
	a = append(a, "--remount-ro", "/dev")
	a = append(a, tmpfs(Tmp, "1777", s.TmpBytes)...)
	a = append(a, folder(Workspace, s.WorkspaceSource, s.WorkspaceBytes)...)
	a = append(a, folder(Home, s.HomeSource, s.HomeBytes)...)
	places := make([]string, 0, len(s.CgroupBinds))
	for p := range s.CgroupBinds {
		places = append(places, p)
	}
	slices.Sort(places)
	for _, p := range places {
		a = append(a, "--ro-bind", s.CgroupBinds[p], p)
	}
	// The root itself is a tmpfs without a bound, too.
	return append(a, "--ro-bind", s.Init, InitPath, "--chdir", "/", "--remount-ro", "/")
}

func tmpfs(dest, perms string, bytes int64) []string {
	return []string{"--perms", perms, "--size", strconv.FormatInt(bytes, 10), "--tmpfs", dest}
}

func folder(dest, source string, bytes int64) []string {
	if source != "" {
		return []string{"--bind", source, dest}
	}
	return tmpfs(dest, "0700", bytes)
}
