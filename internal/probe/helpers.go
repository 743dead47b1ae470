//go:build linux

package probe

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"

	"golang.org/x/sys/unix"
)

// runAsHelper runs the part of an attack that needs a process of its own, when
// name is one.
func runAsHelper(name string, args []string, stdout io.Writer) (code int, ok bool) {
	switch name {
	case "x32-kill":
		const x32 = 0x40000000
		_, _, e := unix.RawSyscall(x32|unix.SYS_KILL, 1, uintptr(sentSignal), 0)
		return int(e), true
	case "compat-kill", "compat-tkill", "compat-tgkill", "compat-ptrace":
		return compat(name), true
	case "hold-memory":
		return holdMemory(args, stdout), true
	case "hold-inotify":
		return holdInotify(args, stdout), true
	case "hold-processes":
		return holdProcesses(args, stdout), true
	}
	return 0, false
}

// helperAttempt lets a child make a call; its exit code is the call's errno.
func helperAttempt(name string) error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	err = exec.Command(exe, "probe", name).Run()
	exit, ok := errors.AsType[*exec.ExitError](err)
	switch {
	case !ok:
		return err
	case exit.ExitCode() > 0:
		return unix.Errno(exit.ExitCode())
	}
	return refusedAs("the child that made the call was ended: %v", exit)
}

// holdInotify takes inotify instances until there are none, says how many, and
// keeps them until it is ended.
func holdInotify(args []string, stdout io.Writer) int {
	n := 0
	for ; n < limitOf(args, 100_000); n++ {
		if _, err := unix.InotifyInit1(unix.IN_CLOEXEC); err != nil {
			break
		}
	}
	return hold(stdout, n)
}

// holdProcesses starts processes until there are none left, says how many, and
// keeps them until it is ended.
func holdProcesses(args []string, stdout io.Writer) int {
	n := 0
	for ; n < limitOf(args, 100_000); n++ {
		if _, err := forkIdle(); err != nil {
			break
		}
	}
	return hold(stdout, n)
}

func hold(stdout io.Writer, n int) int {
	fmt.Fprintf(stdout, "holding %d\n", n)
	c := make(chan os.Signal, 1)
	signal.Notify(c, unix.SIGTERM)
	<-c
	return 0
}

func limitOf(args []string, most int) int {
	if len(args) > 0 {
		if n, err := strconv.Atoi(args[0]); err == nil {
			return min(n, most)
		}
	}
	return most
}
