//go:build linux

package supervise

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/skerry-run/skerry/internal/initconfig"
)

// limitTerminals bounds how many of the machine's pseudo-terminals the sandbox
// may have: bwrap mounts a file system of terminals for it, which has a limit
// of its own that only the machine's root can set from outside. Where we are
// not root, the init counts.
func (s *supervisor) limitTerminals() error {
	if os.Geteuid() != 0 {
		return nil
	}
	s.launch.mu.Lock()
	path := fmt.Sprintf("/proc/%d/root/dev/pts", s.launch.child)
	s.launch.mu.Unlock()
	fd, err := unix.Fspick(unix.AT_FDCWD, path, unix.FSPICK_CLOEXEC)
	if err != nil {
		return fmt.Errorf("limit terminals: %w", err)
	}
	defer unix.Close(fd)
	for _, option := range [][2]string{ // those of bwrap again: what is not named would be reset
		{"mode", "620"}, {"ptmxmode", "666"}, {"max", strconv.Itoa(initconfig.MaxTerminals)},
	} {
		if err := unix.FsconfigSetString(fd, option[0], option[1]); err != nil {
			return fmt.Errorf("limit terminals: set %s: %w", option[0], err)
		}
	}
	if err := unix.FsconfigReconfigure(fd); err != nil {
		return fmt.Errorf("limit terminals: %w", err)
	}
	return nil
}
