//go:build linux

package probe

import (
	"bytes"
	"os"
	"runtime"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// kernelAttacks reach for parts of the kernel that user code has no business
// with.
var kernelAttacks = []Attack{
	{Name: "keyrings", Tries: "use the kernel's keyrings: keyctl, add_key, request_key", run: keyrings},
	{Name: "kernel-memory", Tries: "read the kernel: kcore, kmsg, syslog, kallsyms, kpagecount, /proc/keys, timer_list", run: kernelMemory},
	{Name: "system-calls", Tries: "call bpf, perf_event_open, userfaultfd, io_uring_setup, modules, kexec, reboot, clocks, handles and others", run: systemCalls},
}

func keyrings([]string) Finding {
	runtime.LockOSThread()
	_, ringErr := unix.KeyctlGetKeyringID(unix.KEY_SPEC_USER_KEYRING, true)
	_, joinErr := unix.KeyctlJoinSessionKeyring("skerry-probe")
	_, addErr := unix.AddKey("user", "skerry-probe", []byte("x"), unix.KEY_SPEC_PROCESS_KEYRING)
	_, requestErr := unix.RequestKey("user", "skerry-probe", "", unix.KEY_SPEC_PROCESS_KEYRING)
	return judge(attempt{"keyctl get", ringErr}, attempt{"keyctl join", joinErr}, attempt{"add_key", addErr}, attempt{"request_key", requestErr})
}

func kernelMemory([]string) Finding {
	var attempts []attempt
	for _, path := range []string{"/proc/kcore", "/proc/kmsg", "/proc/kpagecount", "/proc/kpageflags", "/proc/kpagecgroup", "/proc/vmcore", "/proc/timer_list", "/proc/sched_debug", "/proc/slabinfo", "/sys/kernel/debug/sched", "/sys/firmware/dmi/tables/DMI"} {
		f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
		if err == nil {
			buf := make([]byte, 64)
			var n int
			n, err = f.Read(buf)
			f.Close()
			if n == 0 {
				err = refusedAs("it is empty")
			}
		}
		if os.IsNotExist(err) {
			err = refusedAs("it does not exist here")
		}
		attempts = append(attempts, attempt{"read " + path, err})
	}
	buf := make([]byte, 256)
	_, _, e := unix.RawSyscall(unix.SYS_SYSLOG, 3, uintptr(unsafe.Pointer(&buf[0])), uintptr(len(buf)))
	attempts = append(attempts, attempt{"syslog(read all)", errno(e)})
	if symbols, err := os.ReadFile("/proc/kallsyms"); err == nil && len(symbols) > 0 {
		err := refusedAs("addresses are hidden")
		for line := range strings.Lines(string(symbols[:min(len(symbols), 1<<16)])) {
			if address, _, _ := strings.Cut(line, " "); strings.Trim(address, "0") != "" {
				err = nil
				break
			}
		}
		attempts = append(attempts, attempt{"addresses in /proc/kallsyms", err})
	}
	if keys, err := os.ReadFile("/proc/keys"); err == nil && len(bytes.TrimSpace(keys)) > 0 {
		attempts = append(attempts, attempt{"see keys in /proc/keys", nil})
	}
	return judge(attempts...)
}

func systemCalls([]string) Finding {
	runtime.LockOSThread()
	var attempts []attempt
	// Arguments are such that the kernel's own check would say EFAULT, EINVAL
	// or EBADF: any of those means that user code got that far.
	reached := func(name string, nr uintptr, args ...uintptr) {
		var a [6]uintptr
		copy(a[:], args)
		r, _, e := unix.RawSyscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5])
		err := errno(e)
		switch e {
		case 0:
			if name == "userfaultfd" || name == "fanotify_init" || name == "perf_event_open" {
				unix.Close(int(r))
			}
		case unix.EFAULT, unix.EINVAL, unix.EBADF, unix.ENOENT, unix.ESRCH, unix.E2BIG, unix.ENODEV, unix.ENOTBLK, unix.ENOTDIR, unix.ENOPKG:
			err = nil
		}
		attempts = append(attempts, attempt{name, err})
	}
	for _, c := range commonCalls {
		reached(c.name, c.nr, c.args...)
	}
	for _, c := range machineCalls {
		reached(c.name, c.nr, c.args...)
	}
	return judge(attempts...)
}

// call is a system call that user code should not reach.
type call struct {
	name string
	nr   uintptr
	args []uintptr
}

const bad = ^uintptr(0) // an address that is none

var commonCalls = []call{
	{"bpf", unix.SYS_BPF, []uintptr{0, bad, 8}},
	{"perf_event_open", unix.SYS_PERF_EVENT_OPEN, []uintptr{bad, 0, bad, bad, 0}},
	{"userfaultfd", unix.SYS_USERFAULTFD, []uintptr{1}}, // user mode only, which needs no privilege
	{"io_uring_setup", unix.SYS_IO_URING_SETUP, []uintptr{1, bad}},
	{"io_uring_enter", unix.SYS_IO_URING_ENTER, []uintptr{bad}},
	{"io_uring_register", unix.SYS_IO_URING_REGISTER, []uintptr{bad}},
	{"init_module", unix.SYS_INIT_MODULE, []uintptr{bad, 1, bad}},
	{"finit_module", unix.SYS_FINIT_MODULE, []uintptr{bad, bad, 0}},
	{"delete_module", unix.SYS_DELETE_MODULE, []uintptr{bad, 0}},
	{"kexec_load", unix.SYS_KEXEC_LOAD, []uintptr{0, 0, 0, 0}},
	{"reboot", unix.SYS_REBOOT, []uintptr{0, 0, 0, 0}}, // with wrong magic numbers
	{"swapon", unix.SYS_SWAPON, []uintptr{bad, 0}},
	{"acct", unix.SYS_ACCT, []uintptr{bad}},
	{"settimeofday", unix.SYS_SETTIMEOFDAY, []uintptr{bad, 0}},
	{"clock_settime", unix.SYS_CLOCK_SETTIME, []uintptr{0, bad}},
	{"sethostname", unix.SYS_SETHOSTNAME, []uintptr{bad, 1}},
	{"setdomainname", unix.SYS_SETDOMAINNAME, []uintptr{bad, 1}},
	{"open_by_handle_at", unix.SYS_OPEN_BY_HANDLE_AT, []uintptr{bad, bad, 0}},
	{"fanotify_init", unix.SYS_FANOTIFY_INIT, []uintptr{0, 0}},
	{"quotactl", unix.SYS_QUOTACTL, []uintptr{0, bad, 0, 0}},
	{"vhangup", unix.SYS_VHANGUP, nil},
	{"move_pages of the init", unix.SYS_MOVE_PAGES, []uintptr{1, 1, bad, 0, bad, 0}},
	{"migrate_pages of the init", unix.SYS_MIGRATE_PAGES, []uintptr{1, 64, bad, bad}},
	{"kcmp with the init", unix.SYS_KCMP, []uintptr{1, 1, 0, 0, 0}},
	{"process_madvise", unix.SYS_PROCESS_MADVISE, []uintptr{bad, bad, 1, 21, 0}},
}
