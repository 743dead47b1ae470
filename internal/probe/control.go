//go:build linux

package probe

import (
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// controlAttacks try to starve the init, or to speak to it as if they were the
// client.
var controlAttacks = []Attack{
	{Name: "init-limits", Tries: "lower the init's resource limits with prlimit", run: initLimits},
	{Name: "init-priority", Tries: "take the processor from the init: setpriority, sched_setscheduler, sched_setattr, sched_setaffinity, ioprio_set", run: initPriority},
	{Name: "init-score", Tries: "have the kernel choose the init when memory is short: raise its score, lower one's own to the init's", run: initScore},
	{Name: "init-socket", Tries: "connect to every abstract socket of the sandbox and speak to the init", run: initSocket},
}

func initLimits([]string) Finding {
	var attempts []attempt
	for _, pid := range guards() {
		for name, resource := range map[string]int{"NOFILE": unix.RLIMIT_NOFILE, "CPU": unix.RLIMIT_CPU, "NPROC": unix.RLIMIT_NPROC} {
			// What it sets is what there is: if it works, nothing breaks.
			limit := unix.Rlimit{Cur: 1 << 20, Max: 1 << 20}
			_ = unix.Prlimit(pid, resource, nil, &limit)
			attempts = append(attempts, attempt{fmt.Sprintf("prlimit(%d, %s)", pid, name), unix.Prlimit(pid, resource, &limit, nil)})
		}
	}
	return judge(attempts...)
}

func initScore([]string) Finding {
	score := func(pid string) (string, int, error) {
		path := "/proc/" + pid + "/oom_score_adj"
		data, err := os.ReadFile(path)
		if err != nil {
			return path, 0, err
		}
		n, err := strconv.Atoi(strings.TrimSpace(string(data)))
		return path, n, err
	}
	var attempts []attempt
	for _, pid := range guards() {
		path, n, err := score(strconv.Itoa(pid))
		if err != nil {
			return unknown("%v", err)
		}
		attempts = append(attempts, attempt{fmt.Sprintf("raise %s above %d", path, n), os.WriteFile(path, []byte(strconv.Itoa(n+1)), 0)})
	}
	_, inits, err := score("1")
	if err != nil {
		return unknown("%v", err)
	}
	path, own, err := score("self")
	if err != nil {
		return unknown("%v", err)
	}
	err = os.WriteFile(path, []byte(strconv.Itoa(inits)), 0)
	if _, now, e := score("self"); e != nil || now > inits {
		return judge(append(attempts, attempt{fmt.Sprintf("lower one's own from %d to %d", own, inits), err})...)
	}
	if !memoryIsCounted() {
		// There is no limit for all together at which the kernel would choose.
		f := judge(attempts...)
		f.Detail += fmt.Sprintf("; one's own is %d, as the init's: only a shortage of the whole machine would make the kernel choose between them", inits)
		return f
	}
	return open("one's own score is %d, and the init's is %d", inits, inits)
}

// memoryIsCounted says whether a control group shows the sandbox's memory.
func memoryIsCounted() bool {
	for _, file := range []string{"/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory.max"} {
		if _, err := os.Stat(file); err == nil {
			return true
		}
	}
	return false
}

func initPriority([]string) Finding {
	const (
		schedIdle      = 5
		ioprioProcess  = 1
		ioprioUser     = 3
		ioprioIdle     = 3 << 13
		affinityBytes  = 128
		niceOfNobody   = 19
		schedAttrBytes = 48
	)
	var attempts []attempt
	raw := func(what string, nr uintptr, a, b, c uintptr) {
		_, _, e := unix.RawSyscall(nr, a, b, c)
		attempts = append(attempts, attempt{what, errno(e)})
	}
	param := int32(0)
	attr := [schedAttrBytes / 4]uint32{schedAttrBytes, schedIdle}
	mask := [affinityBytes]byte{1}
	for _, pid := range guards() {
		p := uintptr(pid)
		raw(fmt.Sprintf("setpriority(%d)", pid), unix.SYS_SETPRIORITY, unix.PRIO_PROCESS, p, niceOfNobody)
		raw(fmt.Sprintf("sched_setscheduler(%d)", pid), unix.SYS_SCHED_SETSCHEDULER, p, schedIdle, uintptr(unsafe.Pointer(&param)))
		raw(fmt.Sprintf("sched_setparam(%d)", pid), unix.SYS_SCHED_SETPARAM, p, uintptr(unsafe.Pointer(&param)), 0)
		raw(fmt.Sprintf("sched_setattr(%d)", pid), unix.SYS_SCHED_SETATTR, p, uintptr(unsafe.Pointer(&attr)), 0)
		raw(fmt.Sprintf("sched_setaffinity(%d)", pid), unix.SYS_SCHED_SETAFFINITY, p, affinityBytes, uintptr(unsafe.Pointer(&mask)))
		raw(fmt.Sprintf("ioprio_set(%d)", pid), unix.SYS_IOPRIO_SET, ioprioProcess, p, ioprioIdle)
	}
	// These name no pid: whoever has the same user is meant.
	before, err := unix.Getpriority(unix.PRIO_PROCESS, 1)
	if err == nil {
		_ = unix.Setpriority(unix.PRIO_USER, 0, niceOfNobody)
		after, err := unix.Getpriority(unix.PRIO_PROCESS, 1)
		switch {
		case err != nil || after != before:
			attempts = append(attempts, attempt{"setpriority of every process of the user", nil})
		default:
			attempts = append(attempts, attempt{"setpriority of every process of the user", refusedAs("the init kept its own")})
		}
	}
	raw("ioprio_set of every process of the user", unix.SYS_IOPRIO_SET, ioprioUser, uintptr(os.Getuid()), ioprioIdle)
	return judge(attempts...)
}

func initSocket([]string) Finding {
	// The control: a socket of our own must be in the list, else the list says
	// nothing.
	own := fmt.Sprintf("@skerry-probe-%d", os.Getpid())
	l, err := net.Listen("unix", own)
	if err != nil {
		return unknown("listen on an abstract socket: %v", err)
	}
	defer l.Close()
	data, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		return unknown("%v", err)
	}
	sawOwn := false
	var attempts []attempt
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) < 8 || !strings.HasPrefix(fields[7], "@") {
			continue
		}
		if fields[7] == own {
			sawOwn = true
			continue
		}
		attempts = append(attempts, attempt{"speak to " + fields[7], speak(fields[7])})
	}
	if !sawOwn {
		return unknown("the list of sockets does not show our own")
	}
	if len(attempts) == 0 {
		return blocked("no abstract socket exists here but our own")
	}
	return judge(attempts...)
}

// speak sends the preface of an HTTP/2 client and waits for any answer.
func speak(address string) error {
	const patience = 3 * time.Second
	c, err := net.DialTimeout("unix", address, patience)
	if err != nil {
		return refusedAs("%v", err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	if _, err := io.WriteString(c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"); err != nil {
		return refusedAs("%v", err)
	}
	if _, err := c.Read(make([]byte, 1)); err != nil {
		return refusedAs("no answer: %v", err)
	}
	return nil
}
