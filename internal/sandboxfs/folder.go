//go:build linux

package sandboxfs

import (
	"errors"
	"io"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// folder is an open folder inside a root. Its methods take single names, never
// paths, and follow no links.
type folder struct {
	file *os.File
	fd   int // of file
}

func newFolder(file *os.File) *folder { return &folder{file, int(file.Fd())} }

// openIn opens the folder rel of r. The error is an errno, or another one when
// os.Root refuses the path.
func openIn(r *root, rel string) (*folder, error) {
	file, err := r.dir.OpenFile(rel, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, bare(err)
	}
	return newFolder(file), nil
}

// bare takes the path off an error of package os: ours is put there instead.
func bare(err error) error {
	if e, ok := errors.AsType[*os.PathError](err); ok {
		return e.Err
	}
	return err
}

func (d *folder) close() { _ = d.file.Close() }

// open opens an existing file or folder without ever waiting for one: a FIFO
// without a writer would block for ever.
func (d *folder) open(name string, flags int) (*os.File, error) {
	fd, err := retry(func() (int, error) {
		return unix.Openat(d.fd, name, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

func (d *folder) openFolder(name string) (*folder, error) {
	fd, err := retry(func() (int, error) {
		return unix.Openat(d.fd, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return nil, err
	}
	return newFolder(os.NewFile(uintptr(fd), name)), nil
}

// create makes a new file that only we can open until it has its own mode.
func (d *folder) create(name string) (*os.File, error) {
	fd, err := retry(func() (int, error) {
		return unix.Openat(d.fd, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	})
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

func (d *folder) stat(name string) (*unix.Stat_t, error) {
	var st unix.Stat_t
	_, err := retry(func() (int, error) { return 0, unix.Fstatat(d.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) })
	return &st, err
}

// statSelf tells about the folder itself.
func (d *folder) statSelf() (*unix.Stat_t, error) { return fstat(d.file) }

func fstat(file *os.File) (*unix.Stat_t, error) {
	var st unix.Stat_t
	_, err := retry(func() (int, error) { return 0, unix.Fstat(int(file.Fd()), &st) })
	return &st, err
}

func (d *folder) readlink(name string) (string, error) {
	for size := 256; ; size *= 2 {
		b := make([]byte, size)
		n, err := retry(func() (int, error) { return unix.Readlinkat(d.fd, name, b) })
		if err != nil {
			return "", err
		}
		if n < size {
			return string(b[:n]), nil
		}
	}
}

// mkdir makes a folder with exactly that mode, whatever the umask.
func (d *folder) mkdir(name string, mode uint32) error {
	if err := unix.Mkdirat(d.fd, name, 0o700); err != nil {
		return err
	}
	return d.chmod(name, mode)
}

// chmod sets the mode of a file or folder, never of what a link points to.
func (d *folder) chmod(name string, mode uint32) error {
	if err := unix.Fchmodat(d.fd, name, mode, unix.AT_SYMLINK_NOFOLLOW); err == nil {
		return nil
	}
	// Before Linux 6.6, and under filters that do not know the call, it has to
	// be opened for that.
	file, err := d.open(name, unix.O_RDONLY)
	if err != nil {
		return err
	}
	defer file.Close()
	return unix.Fchmod(int(file.Fd()), mode)
}

func (d *folder) setTime(name string, modified time.Time) error {
	t := unix.NsecToTimespec(modified.UnixNano())
	return unix.UtimesNanoAt(d.fd, name, []unix.Timespec{t, t}, unix.AT_SYMLINK_NOFOLLOW)
}

func (d *folder) symlink(target, name string) error { return unix.Symlinkat(target, d.fd, name) }
func (d *folder) link(old string, to *folder, name string) error {
	return unix.Linkat(d.fd, old, to.fd, name, 0)
}
func (d *folder) remove(name string) error      { return unix.Unlinkat(d.fd, name, 0) }
func (d *folder) removeEmpty(name string) error { return unix.Unlinkat(d.fd, name, unix.AT_REMOVEDIR) }
func (d *folder) rename(name string, to *folder, newName string) error {
	return unix.Renameat(d.fd, name, to.fd, newName)
}

// renameNew renames like rename but never replaces anything.
func (d *folder) renameNew(name string, to *folder, newName string) error {
	err := unix.Renameat2(d.fd, name, to.fd, newName, unix.RENAME_NOREPLACE)
	if !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOSYS) {
		return err
	}
	// The file system can't do it in one step; a second link to a file can.
	if err := d.link(name, to, newName); err != nil {
		return err
	}
	return d.remove(name)
}

// names lists the folder sorted by bytes; more than limit is errTooMany.
func (d *folder) names(limit int) ([]string, error) {
	file, err := d.open(".", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var names []string
	for {
		const batch = 1024
		some, err := file.Readdirnames(batch)
		names = append(names, some...)
		if len(names) > limit {
			return nil, errTooMany
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, bare(err)
		}
	}
	slices.Sort(names)
	return names, nil
}

var errTooMany = errors.New("too many entries")

// removeAll removes name and everything below it. stop, when set, is asked
// between entries.
func (d *folder) removeAll(name string, stop func() error) error {
	return d.removeTree(name, 0, stop)
}

func (d *folder) removeTree(name string, depth int, stop func() error) error {
	err := d.remove(name)
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	if st, e := d.stat(name); e != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return err
	}
	if depth > maxDepth {
		return errTooDeep
	}
	if err := d.emptyOut(name, depth, stop); err != nil {
		return err
	}
	return d.removeEmpty(name)
}

func (d *folder) emptyOut(name string, depth int, stop func() error) error {
	sub, err := d.openFolder(name)
	if err != nil {
		return err
	}
	defer sub.close()
	list, err := sub.open(".", unix.O_RDONLY|unix.O_DIRECTORY)
	if errors.Is(err, unix.EACCES) {
		// A program took its own rights away; they are ours to give back.
		if err = d.regain(name); err == nil {
			list, err = sub.open(".", unix.O_RDONLY|unix.O_DIRECTORY)
		}
	}
	if err != nil {
		return err
	}
	defer list.Close()
	for tried := false; ; {
		const batch = 1024
		names, err := list.Readdirnames(batch)
		for _, n := range names {
			if stop != nil {
				if err := stop(); err != nil {
					return err
				}
			}
			err := sub.removeTree(n, depth+1, stop)
			if errors.Is(err, unix.EACCES) && !tried {
				tried = true
				if d.regain(name) == nil {
					err = sub.removeTree(n, depth+1, stop)
				}
			}
			if err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return bare(err)
		}
	}
}

// regain makes a folder usable again for its owner, who we are.
func (d *folder) regain(name string) error {
	err := unix.Fchmodat(d.fd, name, 0o700, unix.AT_SYMLINK_NOFOLLOW)
	if err == nil || errors.Is(err, unix.ENOENT) {
		return err
	}
	// Before Linux 6.6 only the form that follows links exists. Whoever swaps
	// the folder for a link now has our uid and gains nothing by it.
	return unix.Fchmodat(d.fd, name, 0o700, 0)
}

var errTooDeep = errors.New("folders are nested too deeply")

// retry repeats a call that a signal interrupted.
func retry(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if err != unix.EINTR {
			return n, err
		}
	}
}

func timeOf(t unix.Timespec) time.Time { return time.Unix(t.Unix()) }
