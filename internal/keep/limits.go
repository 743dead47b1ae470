//go:build linux

package keep

import (
	"fmt"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// Open files: the init takes all it may, user code gets what programs expect
// and no more, so that a bomb of processes can't use up the machine's.
const (
	userFilesSoft = 1024
	userFilesHard = 16384
)

// NoCore is the limit of core dumps with which there are none. Where the host
// pipes dumps into a program of its own, which then runs as root outside of the
// sandbox, the kernel heeds no limit but this one: not 0. It is no room for a
// file either.
const NoCore = 1

// Limits are the rlimits of user code; 0 sets none. A keeper gets them as its
// arguments, in this order.
type Limits struct {
	Tasks, FileBytes, DataBytes int64
}

// Args gives the arguments of Main.
func (l Limits) Args() []string {
	var args []string
	for _, n := range []int64{l.Tasks, l.FileBytes, l.DataBytes} {
		args = append(args, strconv.FormatInt(n, 10))
	}
	return args
}

func parseLimits(args []string) (l Limits, err error) {
	fields := []*int64{&l.Tasks, &l.FileBytes, &l.DataBytes}
	if len(args) != len(fields) {
		return l, fmt.Errorf("%d limits, want %d", len(args), len(fields))
	}
	for i, f := range fields {
		if *f, err = strconv.ParseInt(args[i], 10, 64); err != nil || *f < 0 {
			return l, fmt.Errorf("limit %q is not a number", args[i])
		}
	}
	return l, nil
}

// dataReserve is how much more data than its program a keeper may have, because
// the Go runtime maps its heap in pieces of 64 MiB: with less a keeper died now
// and then. The program begins with its own limit, and may raise it as far.
const dataReserve = 2 * 64 << 20

// limitData sets how much data this process may have, and what it starts now;
// 0 sets nothing.
func limitData(n int64) error {
	if n == 0 {
		return nil
	}
	var l syscall.Rlimit
	if err := syscall.Getrlimit(unix.RLIMIT_DATA, &l); err != nil {
		return err
	}
	l.Cur = min(uint64(n), l.Max)
	return syscall.Setrlimit(unix.RLIMIT_DATA, &l)
}

// setLimits sets the limits on the keeper itself; the program inherits
// them.
func setLimits(l Limits) error {
	set := []struct {
		resource   int
		soft, hard uint64
	}{
		{unix.RLIMIT_CORE, NoCore, NoCore},
		{unix.RLIMIT_NOFILE, userFilesSoft, userFilesHard},
	}
	if l.DataBytes > 0 {
		l.DataBytes += dataReserve
	}
	for _, r := range []struct {
		resource int
		n        int64
	}{{unix.RLIMIT_NPROC, l.Tasks}, {unix.RLIMIT_FSIZE, l.FileBytes}, {unix.RLIMIT_DATA, l.DataBytes}} {
		if r.n > 0 {
			set = append(set, struct {
				resource   int
				soft, hard uint64
			}{r.resource, uint64(r.n), uint64(r.n)})
		}
	}
	for _, r := range set {
		var now syscall.Rlimit
		if err := syscall.Getrlimit(r.resource, &now); err != nil {
			return err
		}
		// syscall, not unix: the runtime must know that the number of files is
		// ours, or it would give children the one that it found at its start.
		want := syscall.Rlimit{Cur: min(r.soft, now.Max), Max: min(r.hard, now.Max)}
		if err := syscall.Setrlimit(r.resource, &want); err != nil {
			return err
		}
	}
	return nil
}
