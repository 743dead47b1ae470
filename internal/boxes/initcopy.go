//go:build linux

package boxes

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// oldInit is the age at which a copy that is not the current one is removed.
const oldInit = 7 * 24 * time.Hour

// InitCopy gives a copy of the skerry-init at path that everyone may execute
// and nobody read, so that the process that runs it can't be traced in the
// moment before it protects itself. The copy is made once for each content.
func (d Dirs) InitCopy(path string) (string, error) {
	src, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer src.Close()
	fi, err := src.Stat()
	if err != nil {
		return "", err
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !fi.Mode().IsRegular() || !ok {
		return "", fmt.Errorf("%s is not a regular file", path)
	}
	// Reading it all at every start would cost more than the rest of a start:
	// the change time, which nobody can set back, stands for the content.
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %d %d %d.%09d %d.%09d", st.Dev, st.Ino, st.Size, st.Mtim.Sec, st.Mtim.Nsec, st.Ctim.Sec, st.Ctim.Nsec))
	dst := filepath.Join(d.inits(), "skerry-init-"+hex.EncodeToString(sum[:8]))
	if got, err := os.Lstat(dst); err == nil && got.Mode() == 0o111 && got.Size() == st.Size {
		return dst, nil
	}
	if err := copyInit(src, dst, d.inits()); err != nil {
		return "", fmt.Errorf("copy skerry-init: %w", err)
	}
	return dst, d.pruneInits(dst)
}

// copyInit makes dst appear whole or not at all; a process that dies meanwhile
// leaves nothing, because the file has no name until then.
func copyInit(src *os.File, dst, dir string) error {
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return copyNamed(src, dst, dir)
	}
	f := os.NewFile(uintptr(fd), dst)
	defer f.Close()
	if _, err := io.Copy(f, src); err != nil {
		return err
	}
	if err := f.Chmod(0o111); err != nil {
		return err
	}
	err = unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), unix.AT_FDCWD, dst, unix.AT_SYMLINK_FOLLOW)
	if errors.Is(err, fs.ErrExist) {
		return nil // another process was faster, with the same bytes
	}
	return err
}

// copyNamed is for file systems without unnamed files.
func copyNamed(src *os.File, dst, dir string) error {
	if _, err := src.Seek(0, io.SeekStart); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".tmp-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = io.Copy(f, src)
	if err == nil {
		err = f.Chmod(0o111)
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), dst)
}

func (d Dirs) pruneInits(keep string) error {
	entries, err := os.ReadDir(d.inits())
	if err != nil {
		return err
	}
	for _, e := range entries {
		p := filepath.Join(d.inits(), e.Name())
		if fi, err := e.Info(); p != keep && err == nil && time.Since(fi.ModTime()) > oldInit {
			if err := os.Remove(p); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

// Spool gives an unlinked file on the disk of the state folder. It may be read
// and written, and is gone when its last descriptor is.
func (d Dirs) Spool() (*os.File, error) {
	fd, err := unix.Open(d.spool(), unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC|unix.O_EXCL, 0o600)
	if err == nil {
		return os.NewFile(uintptr(fd), "spool"), nil
	}
	f, err := os.CreateTemp(d.spool(), "spool-")
	if err != nil {
		return nil, fmt.Errorf("make spool file: %w", err)
	}
	if err := os.Remove(f.Name()); err != nil {
		f.Close()
		return nil, fmt.Errorf("unlink spool file: %w", err)
	}
	return f, nil
}

// Sweep forgets notes past their time and removes what purges left. What
// belongs to a sandbox is not touched.
func (d Dirs) Sweep() error {
	errs := []error{d.sweepPurged(), d.sweepUnfinished()}
	if d.pruneIsDue() {
		errs = append(errs, d.prune())
	}
	return errors.Join(errs...)
}

// pruneInterval is how long a note may lie there past its time, where nobody
// takes it for one any more. There may be one for each run of a day.
const pruneInterval = time.Minute

// pruneIsDue says so to one caller in each interval, of all processes.
func (d Dirs) pruneIsDue() bool {
	stamp := filepath.Join(d.State, "pruned")
	if fi, err := os.Stat(stamp); err == nil && time.Since(fi.ModTime()) < pruneInterval {
		return false
	}
	return os.WriteFile(stamp, nil, 0o600) == nil // truncating sets its time
}

// sweepUnfinished removes boxes that never got their name, or lost it.
func (d Dirs) sweepUnfinished() error {
	dirs, err := filepath.Glob(filepath.Join(d.boxes(), newPrefix+"*"))
	if err != nil {
		return err
	}
	old, err := filepath.Glob(filepath.Join(d.boxes(), oldPrefix+"*"))
	if dirs = append(dirs, old...); err != nil || len(dirs) == 0 {
		return err
	}
	unlock, err := d.LockAll() // whoever makes one holds it
	if err != nil {
		return err
	}
	defer unlock()
	var errs []error
	for _, dir := range dirs {
		errs = append(errs, os.RemoveAll(dir))
	}
	return errors.Join(errs...)
}
