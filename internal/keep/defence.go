//go:build linux

package keep

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The self-defence filter: what user code of the init's own uid could do to
// the init and to the keepers is refused with EPERM. It comes on top of the
// runtime's filter, which knows nothing of the init.

// Where the words of seccomp_data lie.
const (
	dataNr   = 0
	dataArch = 4
	dataArgs = 16
)

// low and high are the halves of an argument. The kernel looks at the low half
// of what it takes for an int, so the filter does too: a comparison of all 64
// bits could be passed with rubbish in the high half.
func low(arg int) uint32  { return uint32(dataArgs + 8*arg) }
func high(arg int) uint32 { return uint32(dataArgs + 8*arg + 4) }

// test is one reason to refuse a call: a word of its arguments compared.
type test struct {
	word  uint32
	op    uint16 // unix.BPF_JEQ or BPF_JSET, or notEqual
	value uint32
}

// notEqual is BPF_JEQ the other way round.
const notEqual = 0xffff

func is(arg int, value int64) test  { return test{low(arg), unix.BPF_JEQ, uint32(value)} }
func has(arg int, bits uint32) test { return test{low(arg), unix.BPF_JSET, bits} }
func other(arg int) test            { return test{low(arg), notEqual, 0} }

// rule refuses a call when one of its tests holds, or always without any.
type rule struct {
	nr     uintptr
	first  []unix.SockFilter // what comes before the tests, and falls through to them
	tests  []test
	errno  unix.Errno // 0 is EPERM
	ignore bool       // the call does nothing and is no error
}

const newNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

// faults are the signals that crash a Go program when their siginfo says that
// the processor raised them. kill can't say so, the calls with a siginfo can.
// SIGSTKFLT is no fault of any processor, but the Go runtime ends the program
// for it all the same.
var faults = []unix.Signal{unix.SIGSEGV, unix.SIGBUS, unix.SIGFPE, unix.SIGILL, unix.SIGTRAP, unix.SIGABRT, unix.SIGSYS, unix.SIGSTKFLT}

func faultsIn(arg int) []test {
	var tests []test
	for _, s := range faults {
		tests = append(tests, is(arg, int64(s)))
	}
	return tests
}

// Terminal and socket requests that reach other processes.
const (
	tiocsti   = 0x5412
	tioclinux = 0x541c
	fiosetown = 0x8901
	siocspgrp = 0x8902
)

// Whole users, in setpriority and ioprio_set.
const (
	prioUser   = 2
	ioprioUser = 3
)

// targetRules keep user code from signalling the processes in protected, which
// are the ids of their threads: kill takes any of them.
func targetRules(protected []int) []rule {
	var targets, groups []test // only kill knows groups
	for _, id := range protected {
		targets = append(targets, is(0, int64(id)))
		groups = append(groups, is(0, -int64(id)))
	}
	rules := []rule{{nr: unix.SYS_KILL, tests: append(groups, targets...)}}
	for _, nr := range []uintptr{unix.SYS_TKILL, unix.SYS_TGKILL, unix.SYS_PIDFD_OPEN, unix.SYS_RT_SIGQUEUEINFO, unix.SYS_RT_TGSIGQUEUEINFO} {
		rules = append(rules, rule{nr: nr, tests: targets})
	}
	return rules
}

// baseRules are those that hold whoever is to be protected, and for PID 1.
func baseRules() []rule {
	rules := []rule{
		{nr: unix.SYS_KILL, tests: []test{is(0, 1), is(0, -1)}},
		{nr: unix.SYS_TKILL, tests: []test{is(0, 1)}},
		{nr: unix.SYS_TGKILL, tests: []test{is(0, 1)}},
		{nr: unix.SYS_PIDFD_OPEN, tests: []test{is(0, 1)}},
		{nr: unix.SYS_RT_SIGQUEUEINFO, tests: append(faultsIn(1), is(0, 1))},
		{nr: unix.SYS_RT_TGSIGQUEUEINFO, tests: append(faultsIn(2), is(0, 1))},
		// A pidfd says nothing of its process, and a folder of /proc is one
		// too: without a siginfo the init survives every signal.
		{nr: unix.SYS_PIDFD_SEND_SIGNAL, tests: append(faultsIn(1), other(2), test{high(2), notEqual, 0})},

		{nr: unix.SYS_UNSHARE, tests: []test{has(0, newNamespaces|unix.CLONE_NEWTIME)}},
		{nr: unix.SYS_CLONE, tests: []test{has(0, newNamespaces)}},
		// Its flags are in memory, where a filter can't look; libraries fall
		// back to clone.
		{nr: unix.SYS_CLONE3, errno: unix.ENOSYS},

		{nr: unix.SYS_PRLIMIT64, first: keepCoreLimit(), tests: []test{other(0)}},
		{nr: unix.SYS_SETRLIMIT, tests: []test{is(0, unix.RLIMIT_CORE)}, ignore: true},
		{nr: unix.SYS_SETPRIORITY, tests: []test{other(1), is(0, prioUser)}},
		{nr: unix.SYS_IOPRIO_SET, tests: []test{other(1), is(0, ioprioUser)}},
		{nr: unix.SYS_FCNTL, tests: []test{is(1, unix.F_SETOWN), is(1, unix.F_SETOWN_EX)}},
		{nr: unix.SYS_IOCTL, tests: []test{is(1, tiocsti), is(1, tioclinux), is(1, fiosetown), is(1, siocspgrp)}},
	}
	for _, nr := range []uintptr{
		unix.SYS_SCHED_SETAFFINITY, unix.SYS_SCHED_SETPARAM, unix.SYS_SCHED_SETSCHEDULER, unix.SYS_SCHED_SETATTR,
		unix.SYS_MIGRATE_PAGES, unix.SYS_MOVE_PAGES,
	} {
		rules = append(rules, rule{nr: nr, tests: []test{other(0)}})
	}
	for _, nr := range []uintptr{
		unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PROCESS_MADVISE,
		unix.SYS_PROCESS_MRELEASE, unix.SYS_KCMP, unix.SYS_PIDFD_GETFD, unix.SYS_SETNS,
		unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
	} {
		rules = append(rules, rule{nr: nr})
	}
	return rules
}

// keepCoreLimit ignores prlimit with a new limit of core dumps: see NoCore.
// Programs that want none set it to 0, so an error would disturb them.
func keepCoreLimit() []unix.SockFilter {
	const newLimit = 2 // a pointer; nil only asks
	return []unix.SockFilter{
		load(low(1)), jump(unix.BPF_JEQ, unix.RLIMIT_CORE, 0, 5),
		load(low(newLimit)), jump(unix.BPF_JEQ, 0, 0, 2),
		load(high(newLimit)), jump(unix.BPF_JEQ, 0, 1, 0),
		end(unix.SECCOMP_RET_ERRNO),
	}
}

func load(word uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: word}
}

func jump(op uint16, value uint32, yes, no uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | op | unix.BPF_K, K: value, Jt: yes, Jf: no}
}

func end(action uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: action}
}

// assemble makes the rules a BPF program. Every jump is short, however many
// tests a rule has: a test is followed by its own refusal.
func assemble(rules []rule) ([]unix.SockFilter, error) {
	arch, ok := auditArch[runtime.GOARCH]
	if !ok {
		return nil, fmt.Errorf("self-defence filter: unknown architecture %s", runtime.GOARCH)
	}
	prog := []unix.SockFilter{
		load(dataArch),
		jump(unix.BPF_JEQ, arch, 1, 0),
		end(unix.SECCOMP_RET_KILL_PROCESS), // numbers of another architecture mean other calls
		load(dataNr),
	}
	if runtime.GOARCH == "amd64" {
		const x32 = 0x40000000
		prog = append(prog, jump(unix.BPF_JGE, x32, 0, 1), end(unix.SECCOMP_RET_KILL_PROCESS))
	}
	for _, r := range rules {
		errno := r.errno
		if errno == 0 {
			errno = unix.EPERM
		}
		if r.ignore {
			errno = 0
		}
		refuse := end(unix.SECCOMP_RET_ERRNO | uint32(errno))
		if len(r.tests) == 0 {
			prog = append(prog, jump(unix.BPF_JEQ, uint32(r.nr), 0, 1), refuse)
			continue
		}
		body := slices.Clone(r.first)
		word := ^uint32(0)
		for _, t := range r.tests {
			if t.word != word {
				body = append(body, load(t.word))
				word = t.word
			}
			if t.op == notEqual {
				body = append(body, jump(unix.BPF_JEQ, t.value, 1, 0), refuse)
			} else {
				body = append(body, jump(t.op, t.value, 0, 1), refuse)
			}
		}
		body = append(body, end(unix.SECCOMP_RET_ALLOW))
		prog = append(prog,
			jump(unix.BPF_JEQ, uint32(r.nr), 1, 0),
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JA, K: uint32(len(body))})
		prog = append(prog, body...)
	}
	prog = append(prog, end(unix.SECCOMP_RET_ALLOW))
	const most = 4096 // BPF_MAXINSNS
	if len(prog) > most {
		return nil, fmt.Errorf("self-defence filter: %d instructions, at most %d", len(prog), most)
	}
	return prog, nil
}

var auditArch = map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}

// MaxFilters bounds how often a thread's filter may grow: every filter is one
// more to pass for every call.
const MaxFilters = 40

// defence is what protects the init on one thread: a filter to begin with, and
// a small one more whenever there are keepers that it does not know.
type defence struct {
	known   map[int]bool
	filters int
}

// update puts on the calling thread, which must be locked and have
// no_new_privs, what is missing to protect the keeper itself and others.
func (d *defence) update(others []int) error {
	var added []int
	if d.known == nil {
		d.known = map[int]bool{}
		others = append(ThreadsOf(os.Getpid()), others...)
		if err := install(baseRules()); err != nil {
			return err
		}
	}
	for _, id := range others {
		if !d.known[id] {
			added = append(added, id)
			d.known[id] = true
		}
	}
	if len(added) == 0 {
		return nil
	}
	if d.filters++; d.filters > MaxFilters {
		return errors.New("self-defence filter: it has grown too often")
	}
	return install(targetRules(added))
}

func install(rules []rule) error {
	prog, err := assemble(rules)
	if err != nil {
		return err
	}
	fprog := unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]}
	_, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&fprog)))
	if errno != 0 {
		return fmt.Errorf("self-defence filter: %w", errno)
	}
	return nil
}
