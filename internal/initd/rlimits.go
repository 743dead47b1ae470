//go:build linux

package initd

import (
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/skerry-run/skerry"
	"github.com/skerry-run/skerry/internal/initconfig"
	"github.com/skerry-run/skerry/internal/keep"
)

// dataReserve is how much more than the memory limit RLIMIT_DATA allows a
// process. A keeper has the limit that its program inherits, and the Go runtime
// maps its heap in pieces of 64 MiB: with less a keeper died now and then. What
// all processes hold together is measured.
const dataReserve = 2 * 64 * skerry.MiB

// userLimits are the rlimits of user code.
func userLimits(c *initconfig.Config) keep.Limits {
	l := keep.Limits{FileBytes: c.FileBytes, DataBytes: c.DataBytes}
	if l.DataBytes > 0 {
		l.DataBytes += dataReserve
	}
	if c.PIDs > 0 {
		l.Tasks = c.PIDs + initconfig.TaskReserve
	}
	if c.WatchWorkspace && c.WorkspaceBytes > 0 && (l.FileBytes == 0 || l.FileBytes > c.WorkspaceBytes) {
		l.FileBytes = c.WorkspaceBytes // one file may not outrun the watch
	}
	return l
}

// raiseOwnFiles lets the init open as many files as it may.
func raiseOwnFiles() {
	var l syscall.Rlimit
	if syscall.Getrlimit(unix.RLIMIT_NOFILE, &l) == nil && l.Cur < l.Max {
		l.Cur = l.Max
		_ = syscall.Setrlimit(unix.RLIMIT_NOFILE, &l) // what it has already is enough for a while
	}
}
