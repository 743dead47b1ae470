//go:build linux

package boxes

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Process names one process for as long as the machine runs: ids are used
// again, but not with the same start time in the same boot.
type Process struct {
	PID       int    `json:"pid"`
	StartTime uint64 `json:"start_time"` // clock ticks after boot
	BootID    string `json:"boot_id"`
}

// Self names this process.
func Self() (Process, error) { return processOf(os.Getpid()) }

func processOf(pid int) (Process, error) {
	p := Process{PID: pid}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return p, fmt.Errorf("read boot id: %w", err)
	}
	p.BootID = strings.TrimSpace(string(boot))
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return p, err
	}
	// The name in parentheses may hold anything, so count from its end.
	const afterName = 20 // fields from the state to the start time, proc(5) field 22
	f := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(f) < afterName {
		return p, fmt.Errorf("/proc/%d/stat is too short", pid)
	}
	p.StartTime, err = strconv.ParseUint(string(f[afterName-1]), 10, 64)
	return p, err
}

// Age is how long ago p started, by the clock that nobody sets. It is 0 for a
// process of another boot.
func (p Process) Age() time.Duration {
	var now unix.Timespec
	self, err := Self()
	if err != nil || self.BootID != p.BootID || unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) != nil {
		return 0
	}
	const tick = time.Second / 100 // USER_HZ, which is the same on every Linux that Go runs on
	return max(0, time.Duration(now.Nano())-time.Duration(p.StartTime)*tick)
}

// Open gives a file descriptor of exactly p, or ok false when p is gone. The
// caller closes it.
func (p Process) Open() (fd int, ok bool) {
	if p.PID <= 1 {
		return -1, false
	}
	fd, err := unix.PidfdOpen(p.PID, 0)
	if err != nil {
		return -1, false
	}
	// Only now, with the descriptor held, is it certain whose start time is
	// read.
	if q, err := processOf(p.PID); err != nil || q != p {
		unix.Close(fd)
		return -1, false
	}
	return fd, true
}

// Signal sends a signal to p; a process that is gone is no error.
func (p Process) Signal(sig unix.Signal) error {
	fd, ok := p.Open()
	if !ok {
		return nil
	}
	defer unix.Close(fd)
	if err := unix.PidfdSendSignal(fd, sig, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("signal process %d: %w", p.PID, err)
	}
	return nil
}

// WaitPidfd waits until the process of fd has ended, at most for d, and says
// whether it has.
func WaitPidfd(fd int, d time.Duration) bool {
	end := time.Now().Add(d)
	for {
		left := max(0, time.Until(end))
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int((left+time.Millisecond-1)/time.Millisecond))
		if err == nil {
			return n > 0
		}
		if !errors.Is(err, unix.EINTR) {
			return false
		}
	}
}
