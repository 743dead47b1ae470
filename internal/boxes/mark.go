//go:build linux

package boxes

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Mark is the name (argv[0]) under which bwrap runs for the sandbox of key. It
// tells installations apart: the same name may live in several. bwrap forks before it ties the child's life to its own: killed in between it
// leaves a child that waits for ever and that nothing else leads to.
func (d Dirs) Mark(key string) string {
	sum := sha256.Sum256([]byte(d.Run))
	return "skerry-sandbox-" + hex.EncodeToString(sum[:4]) + "-" + key
}

// NetworkKey names what the sandbox of key has of the host's network, where
// names are short. It tells installations apart, too.
func (d Dirs) NetworkKey(key string) string {
	sum := sha256.Sum256([]byte(d.Run + " " + key))
	return hex.EncodeToString(sum[:16])
}

// KillMarked kills every process of users uid and our own that carries the
// mark of key, until there is none. The caller holds the box, so that nobody
// starts new ones.
func (d Dirs) KillMarked(key string, uid int) error {
	const limit = 5 * time.Second
	want := append([]byte(d.Mark(key)), 0)
	for end := time.Now().Add(limit); ; {
		entries, err := os.ReadDir("/proc")
		if err != nil {
			return err
		}
		found := false
		for _, e := range entries {
			pid, err := strconv.Atoi(e.Name())
			if err != nil {
				continue
			}
			fd, err := unix.PidfdOpen(pid, 0)
			if err != nil {
				continue
			}
			if marked(pid, want, uid) { // read with the descriptor held: it is this process
				found = true
				_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) // may have ended
				WaitPidfd(fd, time.Until(end))
			}
			unix.Close(fd)
		}
		if !found {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("processes named %s are still there after %v", d.Mark(key), limit)
		}
	}
}

func marked(pid int, want []byte, uid int) bool {
	cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || !bytes.HasPrefix(cmdline, want) {
		return false
	}
	var st unix.Stat_t
	if unix.Stat(fmt.Sprintf("/proc/%d", pid), &st) != nil {
		return false
	}
	// A process that changed its user is not dumpable, and then /proc shows
	// it as root's.
	return int(st.Uid) == uid || int(st.Uid) == os.Geteuid()
}
