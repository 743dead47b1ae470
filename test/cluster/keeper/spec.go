//go:build linux

// Package keeper is the first process of a cluster's namespaces: it runs the
// cluster's programs, starts again what ends, and when it is killed the kernel
// takes everything with it: processes, mounts, links and firewall rules.
package keeper

import (
	"fmt"
	"path/filepath"
)

// Spec says what a keeper is to be.
type Spec struct {
	// Folder belongs to the keeper alone; it holds its socket, its lock and
	// its log. Absolute, without symbolic links.
	Folder string
	// Hostname is the host name inside.
	Hostname string
	// Cgroup is the name of the group, at the top of each hierarchy, that
	// everything the keeper starts belongs to.
	Cgroup string
	// Visible lists folders that must stay visible inside although the keeper
	// covers /run and /var/lib with empty ones. Folder is always visible.
	Visible []string
}

func (s Spec) check() error {
	if !filepath.IsAbs(s.Folder) {
		return fmt.Errorf("folder %q is not an absolute path", s.Folder)
	}
	if s.Hostname == "" || s.Cgroup == "" || filepath.Base(s.Cgroup) != s.Cgroup {
		return fmt.Errorf("host name %q and cgroup %q must be plain names", s.Hostname, s.Cgroup)
	}
	if len(socketPath(s.Folder)) > maxSocketPath {
		return fmt.Errorf("folder %s: the path of a socket in it is longer than the %d bytes the kernel allows; choose a shorter one", s.Folder, maxSocketPath)
	}
	return nil
}

// maxSocketPath is the kernel's limit for the address of a unix socket.
const maxSocketPath = 107

func socketPath(folder string) string { return filepath.Join(folder, "keeper.sock") }
func lockPath(folder string) string   { return filepath.Join(folder, "keeper.lock") }
func logPath(folder string) string    { return filepath.Join(folder, "keeper.log") }
