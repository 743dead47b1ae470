//go:build linux

package initd

import (
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/skerry-run/skerry/internal/initconfig"
	"github.com/skerry-run/skerry/internal/keep"
)

// userLimits are the rlimits of user code.
func userLimits(c *initconfig.Config) keep.Limits {
	l := keep.Limits{FileBytes: c.FileBytes, DataBytes: c.DataBytes}
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
