//go:build linux

package probe

import (
	"fmt"
	"os"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// signalAttacks try to stop or crash the init.
var signalAttacks = []Attack{
	{Name: "init-signal", Tries: "signal the init with kill, tkill, tgkill, rt_sigqueueinfo, rt_tgsigqueueinfo and pidfd_send_signal", run: initSignal},
	{Name: "init-thread-signal", Tries: "send every signal to the init's other threads, by the numbers of the threads", Survivable: true, run: initThreadSignal},
	{Name: "init-signal-compat", Tries: "signal the init through the 32-bit and x32 system calls", run: initSignalCompat},
	{Name: "init-signal-owner", Tries: "make the kernel signal the init: F_SETOWN, F_SETOWN_EX, F_SETSIG, FIOSETOWN, timers", run: initSignalOwner},
}

// sentSignal is one that a Go program has a handler for, so that it is
// delivered even to pid 1.
const sentSignal = unix.SIGSEGV

func initSignal([]string) Finding {
	var attempts []attempt
	call := func(what string, nr uintptr, args ...uintptr) {
		var a [6]uintptr
		copy(a[:], args)
		_, _, e := unix.RawSyscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5])
		attempts = append(attempts, attempt{what, errno(e)})
	}
	// A siginfo that claims to be from sigqueue: the kernel lets user code
	// send it, and it looks like a fault to a runtime that trusts it.
	info := siginfo{signo: int32(sentSignal), code: -1, pid: int32(os.Getpid()), uid: uint32(os.Getuid())}
	p := uintptr(unsafe.Pointer(&info))
	for _, sig := range []unix.Signal{sentSignal, unix.SIGTERM, unix.SIGKILL, unix.SIGSTOP} {
		call(fmt.Sprintf("kill(1, %v)", sig), unix.SYS_KILL, 1, uintptr(sig))
	}
	sig := uintptr(sentSignal)
	call("tkill(1)", unix.SYS_TKILL, 1, sig)
	call("tgkill(1, 1)", unix.SYS_TGKILL, 1, 1, sig)
	call("rt_sigqueueinfo(1)", unix.SYS_RT_SIGQUEUEINFO, 1, sig, p)
	call("rt_tgsigqueueinfo(1, 1)", unix.SYS_RT_TGSIGQUEUEINFO, 1, 1, sig, p)
	if fd, err := unix.PidfdOpen(1, 0); err != nil {
		attempts = append(attempts, attempt{"pidfd_open(1)", err})
	} else {
		attempts = append(attempts, attempt{"pidfd_send_signal(1)", unix.PidfdSendSignal(fd, sentSignal, nil, 0)})
		unix.Close(fd)
	}
	if fd, err := unix.Open("/proc/1", unix.O_DIRECTORY|unix.O_RDONLY, 0); err == nil {
		attempts = append(attempts, attempt{"pidfd_send_signal(/proc/1)", unix.PidfdSendSignal(fd, sentSignal, nil, 0)})
		unix.Close(fd)
	}
	// The low 32 bits are the pid: a filter that compares 64 misses this one.
	call("kill(1 with high bits set)", unix.SYS_KILL, 1|1<<32, sig)
	return judge(attempts...)
}

// initThreadSignal goes for the init's other threads: their numbers are not
// 1, and kill takes any of them for the whole process.
func initThreadSignal([]string) Finding {
	tids := threadsOfInit()
	if len(tids) == 0 {
		return blocked("the init's other threads can't be seen")
	}
	var sent, refused int
	var worst []string
	info := siginfo{code: -1, pid: int32(os.Getpid()), uid: uint32(os.Getuid())}
	for _, tid := range tids {
		for sig := 1; sig <= 64; sig++ {
			info.signo = int32(sig)
			p := uintptr(unsafe.Pointer(&info))
			for _, c := range []struct {
				name string
				nr   uintptr
				args [4]uintptr
			}{
				{"tkill", unix.SYS_TKILL, [4]uintptr{uintptr(tid), uintptr(sig)}},
				{"tgkill", unix.SYS_TGKILL, [4]uintptr{1, uintptr(tid), uintptr(sig)}},
				{"kill", unix.SYS_KILL, [4]uintptr{uintptr(tid), uintptr(sig)}},
				{"rt_sigqueueinfo", unix.SYS_RT_SIGQUEUEINFO, [4]uintptr{uintptr(tid), uintptr(sig), p}},
				{"rt_tgsigqueueinfo", unix.SYS_RT_TGSIGQUEUEINFO, [4]uintptr{1, uintptr(tid), uintptr(sig), p}},
			} {
				_, _, e := unix.RawSyscall6(c.nr, c.args[0], c.args[1], c.args[2], c.args[3], 0, 0)
				if e != 0 {
					refused++
					continue
				}
				sent++
				if sig == int(sentSignal) && c.name == "rt_sigqueueinfo" {
					worst = append(worst, fmt.Sprintf("a fault that looks real was sent to thread %d", tid))
				}
			}
		}
	}
	if len(worst) > 0 {
		return open("%s", brief(worst))
	}
	if sent == 0 {
		return blocked("%d signals to %d threads were refused", refused, len(tids))
	}
	return unknown("%d signals to %d threads were refused, %d were sent; what counts is whether the init still answers", refused, len(tids), sent)
}

// threadsOfInit gives the ids of the init's threads other than 1 itself, as far
// as they can be seen.
func threadsOfInit() []int {
	var tids []int
	entries, _ := os.ReadDir("/proc/1/task")
	for _, e := range entries {
		if tid, err := strconv.Atoi(e.Name()); err == nil && tid != 1 {
			tids = append(tids, tid)
		}
	}
	return tids
}

// siginfo is the start of the kernel's siginfo_t for a queued signal.
type siginfo struct {
	signo, errno, code int32
	_                  int32
	pid                int32
	uid                uint32
	value              uint64
	_                  [96]byte
}

func initSignalCompat([]string) Finding {
	// A filter may end whoever makes such a call, so children make them.
	attempts := []attempt{{"x32 kill(1)", helperAttempt("x32-kill")}}
	attempts = append(attempts, compatAttempts()...)
	return judge(attempts...)
}

func initSignalOwner([]string) Finding {
	var fds [2]int
	if err := unix.Pipe(fds[:]); err != nil {
		return unknown("pipe: %v", err)
	}
	defer unix.Close(fds[0])
	defer unix.Close(fds[1])
	fcntl := func(cmd int, arg uintptr) error {
		_, _, e := unix.RawSyscall(unix.SYS_FCNTL, uintptr(fds[0]), uintptr(cmd), arg)
		return errno(e)
	}
	owner := struct{ kind, pid int32 }{1, 1} // F_OWNER_PID, the init
	thread := struct{ kind, pid int32 }{0, 1}
	group := struct{ kind, pid int32 }{2, 1}
	attempts := []attempt{
		{"F_SETOWN(1)", fcntl(unix.F_SETOWN, 1)},
		{"F_SETOWN(-1)", fcntl(unix.F_SETOWN, ^uintptr(0))},
		{"F_SETOWN_EX(pid 1)", fcntl(unix.F_SETOWN_EX, uintptr(unsafe.Pointer(&owner)))},
		{"F_SETOWN_EX(tid 1)", fcntl(unix.F_SETOWN_EX, uintptr(unsafe.Pointer(&thread)))},
		{"F_SETOWN_EX(group 1)", fcntl(unix.F_SETOWN_EX, uintptr(unsafe.Pointer(&group)))},
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return unknown("socketpair: %v", err)
	}
	defer unix.Close(pair[0])
	defer unix.Close(pair[1])
	pid := int32(1)
	for _, request := range []struct {
		name string
		nr   uintptr
	}{{"FIOSETOWN(1)", 0x8901}, {"SIOCSPGRP(1)", 0x8902}} {
		_, _, e := unix.RawSyscall(unix.SYS_IOCTL, uintptr(pair[0]), request.nr, uintptr(unsafe.Pointer(&pid)))
		attempts = append(attempts, attempt{request.name, errno(e)})
	}
	// A timer of ours may only signal one of our own threads.
	event := struct {
		value         uint64
		signo, notify int32
		tid           int32
		_             [44]byte
	}{signo: int32(sentSignal), notify: 4, tid: 1}
	var id int32
	_, _, e := unix.RawSyscall(unix.SYS_TIMER_CREATE, unix.CLOCK_MONOTONIC, uintptr(unsafe.Pointer(&event)), uintptr(unsafe.Pointer(&id)))
	if e == unix.EINVAL {
		attempts = append(attempts, attempt{"timer_create for thread 1", refusedAs("the kernel takes only threads of the caller")})
	} else {
		attempts = append(attempts, attempt{"timer_create for thread 1", errno(e)})
	}
	return judge(attempts...)
}
