//go:build linux

package supervise

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/skerry-run/skerry/internal/cgroups"
	"github.com/skerry-run/skerry/internal/control"
)

// countsMemory says whether a control group keeps the memory limit.
func (s *supervisor) countsMemory() bool {
	return s.group != nil && !slices.Contains(s.group.Missing, cgroups.Memory)
}

// countOOMs looks at the counter of kills for memory, so that an earlier kill
// is not taken for the cause of a later death.
func (s *supervisor) countOOMs() {
	if s.group == nil {
		return
	}
	n := s.group.OOMKills()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ooms = max(n, 0)
}

// diedOfMemoryLocked says whether the kernel killed the init for memory: it was
// killed, nobody had asked for its end, and the counter, read here outside,
// rose since the last look, which is at most boxCheck ago. It is called when
// bwrap has ended.
func (s *supervisor) diedOfMemoryLocked() bool {
	if s.group == nil || s.group.OOMKills() <= s.ooms {
		return false
	}
	const killed = 128 + int(unix.SIGKILL) // as bwrap tells it of the init
	status, ok := s.launch.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && (status.Signaled() && status.Signal() == unix.SIGKILL || status.Exited() && status.ExitStatus() == killed)
}

// scoresKeepers says whether we can keep user code from offering the init to
// the kernel when memory is short. It can't write to /proc then, so neither can
// a keeper, and only root can set the score of a keeper from outside: it lets
// nobody else look into it.
func (s *supervisor) scoresKeepers() bool { return os.Geteuid() == 0 }

// scoreKeeper raises the score of a keeper halfway to the top. What it starts
// inherits that, and the init stays below. The init is told whatever came of
// it: a keeper that is gone needs nothing.
func (s *supervisor) scoreKeeper(pidfd *os.File) {
	if pidfd != nil && s.scoresKeepers() {
		_ = raiseScore(pidfd)
	}
	_ = s.line.Send(control.Message{Type: control.Keeper}, nil)
}

const topScore = 1000 // of oom_score_adj

func raiseScore(pidfd *os.File) error {
	own, err := os.ReadFile("/proc/self/oom_score_adj") // which the init has inherited
	if err != nil {
		return err
	}
	base, err := strconv.Atoi(strings.TrimSpace(string(own)))
	if err != nil {
		return err
	}
	pid, err := pidOf(pidfd)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	// What was opened stays with its process. If that of the pidfd is alive
	// now, the number was its own when we opened it.
	if err := unix.PidfdSendSignal(int(pidfd.Fd()), 0, nil, 0); err != nil {
		return err
	}
	_, err = f.WriteString(strconv.Itoa(base + (topScore-base)/2))
	return err
}

// pidOf gives the pid, in our namespace, of the process of a pidfd.
func pidOf(pidfd *os.File) (int, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", pidfd.Fd()))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		if value, ok := strings.CutPrefix(line, "Pid:"); ok {
			pid, err := strconv.Atoi(strings.TrimSpace(value))
			if err == nil && pid <= 1 {
				err = fmt.Errorf("its process is gone, or is none of ours: %d", pid)
			}
			return pid, err
		}
	}
	return 0, fmt.Errorf("it is no pidfd")
}
