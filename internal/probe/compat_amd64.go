//go:build linux

package probe

import (
	"os"

	"golang.org/x/sys/unix"
)

// int80 makes a 32-bit system call from a 64-bit program. A filter that knows
// only the 64-bit numbers does not see it.
//
//go:noescape
func int80(nr, a, b, c uintptr) uintptr

// Numbers of 32-bit system calls.
const (
	i386Getpid = 20
	i386Ptrace = 26
	i386Kill   = 37
	i386Tkill  = 238
	i386Tgkill = 270
)

func compatAttempts() []attempt {
	return []attempt{
		{"32-bit kill(1)", helperAttempt("compat-kill")},
		{"32-bit tkill(1)", helperAttempt("compat-tkill")},
		{"32-bit tgkill(1, 1)", helperAttempt("compat-tgkill")},
		{"32-bit ptrace(1)", helperAttempt("compat-ptrace")},
	}
}

// compat makes one 32-bit call and gives its errno. A kernel without these
// calls, and a filter too, may end the process instead.
func compat(name string) int {
	if int(int32(int80(i386Getpid, 0, 0, 0))) != os.Getpid() {
		return int(unix.ENOSYS)
	}
	var r uintptr
	switch sig := uintptr(sentSignal); name {
	case "compat-kill":
		r = int80(i386Kill, 1, sig, 0)
	case "compat-tkill":
		r = int80(i386Tkill, 1, sig, 0)
	case "compat-tgkill":
		r = int80(i386Tgkill, 1, 1, sig)
	case "compat-ptrace":
		r = int80(i386Ptrace, unix.PTRACE_SEIZE, 1, 0)
	}
	if n := int32(r); n < 0 && n > -256 {
		return int(-n)
	}
	return 0
}
