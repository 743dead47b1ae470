//go:build linux

package keeper

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// The proof that a keeper lives is a lock that the kernel drops with it. It is
// of the kind that belongs to a process and is not inherited, and the kernel
// says whose it is; so no file can name a process that has become another's.
func wholeFile(typ int16) *unix.Flock_t {
	return &unix.Flock_t{Type: typ, Whence: io.SeekStart}
}

// lock takes the keeper's lock. The file must stay open, and no other
// descriptor of it may be closed, as long as the process lives.
func lock(folder string) (*os.File, error) {
	f, err := os.OpenFile(lockPath(folder), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.FcntlFlock(f.Fd(), unix.F_SETLK, wholeFile(unix.F_WRLCK)); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: another keeper has it: %w", f.Name(), err), f.Close())
	}
	return f, nil
}

// PID gives the process id, as the caller sees it, of the keeper that owns
// folder; 0 when none lives.
func PID(folder string) (int, error) {
	f, err := os.OpenFile(lockPath(folder), os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	l := wholeFile(unix.F_WRLCK)
	if err := unix.FcntlFlock(f.Fd(), unix.F_GETLK, l); err != nil {
		return 0, fmt.Errorf("ask who locks %s: %w", f.Name(), err)
	}
	if l.Type == unix.F_UNLCK {
		return 0, nil
	}
	if l.Pid <= 0 {
		return 0, fmt.Errorf("%s is locked by a process outside of this PID namespace", f.Name())
	}
	return int(l.Pid), nil
}
