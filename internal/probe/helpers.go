//go:build linux

package probe

import (
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
	case "int80":
		callInt80()
		return 0, true
	case "hold-inotify":
		return holdInotify(args, stdout), true
	case "hold-processes":
		return holdProcesses(args, stdout), true
	}
	return 0, false
}

// runHelper runs a helper to its end.
func runHelper(name string, args ...string) error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	return exec.Command(exe, append([]string{"probe", name}, args...)...).Run()
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
