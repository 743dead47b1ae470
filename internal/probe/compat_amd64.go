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
	i386Kill   = 37
	i386Getpid = 20
	i386Tkill  = 238
	i386Tgkill = 270
	i386Ptrace = 26
)

func compatAttempts() []attempt {
	result := func(r uintptr) error {
		if n := int32(r); n < 0 && n > -4096 {
			return unix.Errno(-n)
		}
		return nil
	}
	// A kernel without the 32-bit calls ends a program that makes one, so a
	// child tries first.
	if err := runHelper("int80"); err != nil {
		return []attempt{{"32-bit system calls", refusedAs("a child that made one ended: %v", err)}}
	}
	if int(int32(int80(i386Getpid, 0, 0, 0))) != os.Getpid() {
		return []attempt{{"32-bit system calls", result(int80(i386Kill, 1, uintptr(sentSignal), 0))}}
	}
	return []attempt{
		{"32-bit kill(1)", result(int80(i386Kill, 1, uintptr(sentSignal), 0))},
		{"32-bit tkill(1)", result(int80(i386Tkill, 1, uintptr(sentSignal), 0))},
		{"32-bit tgkill(1, 1)", result(int80(i386Tgkill, 1, 1, uintptr(sentSignal)))},
		{"32-bit ptrace(PTRACE_SEIZE, 1)", result(int80(i386Ptrace, unix.PTRACE_SEIZE, 1, 0))},
	}
}

func callInt80() { int80(i386Getpid, 0, 0, 0) }
