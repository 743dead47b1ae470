//go:build linux

package probe

import "golang.org/x/sys/unix"

// machineCalls are those that only this architecture has.
var machineCalls = []call{
	{"iopl", unix.SYS_IOPL, []uintptr{3}},
	{"ioperm", unix.SYS_IOPERM, []uintptr{0x80, 1, 1}},
	{"kexec_file_load", unix.SYS_KEXEC_FILE_LOAD, []uintptr{bad, bad, 0, 0, 0}},
	{"uselib", unix.SYS_USELIB, []uintptr{bad}},
}
