//go:build linux

package boxes

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Files of a box.
const (
	lockName   = "lock"
	recordName = "record.json"
	socketName = "sock"
	endingName = "ending"
	errorName  = "error"
)

// Folders beside the boxes that are not one yet, or no more. Nobody looks into
// them, and a sweep removes what a crash left.
const (
	newPrefix = ".new-"
	oldPrefix = ".old-"
)

// Box is the folder of one sandbox, with its lock held by this process.
type Box struct {
	Dir    string
	Record Record

	lock *os.File
}

// ErrTaken says that the box exists: alive, or dead and not yet swept.
var ErrTaken = errors.New("the box exists")

// Claim makes the box of r and takes its lock. choose is called with the
// records of all other live boxes while no other process can claim one, to
// settle what must differ between them; it may change r. When the box exists
// the error is ErrTaken.
func (d Dirs) Claim(r *Record, choose func(others []Record) error) (*Box, error) {
	unlock, err := d.LockAll()
	if err != nil {
		return nil, err
	}
	defer unlock()
	dir := filepath.Join(d.boxes(), r.Key)
	if _, err := os.Lstat(dir); err == nil {
		return nil, ErrTaken
	}
	others, err := d.List()
	if err != nil {
		return nil, err
	}
	if err := choose(others); err != nil {
		return nil, err
	}
	// Before the folder appears nobody looks for it, so its lock, made under
	// another name, is held from the first moment at which it can be seen.
	tmp, err := os.MkdirTemp(d.boxes(), newPrefix)
	if err != nil {
		return nil, err
	}
	b := &Box{Dir: dir, Record: *r}
	fail := func(err error) (*Box, error) {
		if b.lock != nil {
			b.lock.Close()
		}
		return nil, errors.Join(err, os.RemoveAll(tmp))
	}
	if b.lock, err = os.OpenFile(filepath.Join(tmp, lockName), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return fail(err)
	}
	if ok, err := tryLock(b.lock); err != nil || !ok {
		return fail(errors.Join(err, errors.New("lock of a new box is held")))
	}
	if err := writeJSON(filepath.Join(tmp, recordName), r); err != nil {
		return fail(err)
	}
	if err := os.Rename(tmp, dir); err != nil {
		return fail(err)
	}
	return b, nil
}

// TakeDead takes over the box of a supervisor that is gone, so that it can be
// cleaned up; nil when there is none, or it is alive.
func (d Dirs) TakeDead(key string) (*Box, error) {
	unlock, err := d.LockAll()
	if err != nil {
		return nil, err
	}
	defer unlock()
	b := &Box{Dir: filepath.Join(d.boxes(), key)}
	path := filepath.Join(b.Dir, lockName)
	b.lock, err = os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		// Of a box that still is there somebody deleted the lock by hand.
		b.lock, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	ok, err := tryLock(b.lock)
	for end := time.Now().Add(orphanLimit); err == nil && !ok && d.orphaned(key) && time.Now().Before(end); {
		time.Sleep(lockPause)
		ok, err = tryLock(b.lock)
	}
	if err != nil || !ok || !isAt(b.lock, path) { // not there: its owner removed the box meanwhile
		b.lock.Close()
		return nil, err
	}
	if err := readJSON(filepath.Join(b.Dir, recordName), &b.Record); err != nil {
		b.Record = Record{} // unreadable is the same as unknown: the key tells what to remove
	}
	b.Record.Key = key
	return b, nil
}

// Locked says whether the box still has the lock that its owner holds.
func (b *Box) Locked() bool {
	_, err := os.Lstat(filepath.Join(b.Dir, lockName))
	return err == nil
}

// Update writes the record.
func (b *Box) Update() error { return writeJSON(filepath.Join(b.Dir, recordName), b.Record) }

// Socket is where the supervisor listens.
func (b *Box) Socket() string { return filepath.Join(b.Dir, socketName) }

// MarkEnding tells others that the name is free soon.
func (b *Box) MarkEnding() error {
	return os.WriteFile(filepath.Join(b.Dir, endingName), nil, 0o600)
}

// Complain leaves word of why a sandbox could not be removed, for whoever looks
// at what is left.
func (b *Box) Complain(err error) {
	_ = os.WriteFile(filepath.Join(b.Dir, errorName), []byte(err.Error()+"\n"), 0o600)
}

// Remove removes the box. Its name is free at one moment, so that nobody meets
// half of it; the lock is held until everything is gone.
func (b *Box) Remove() error {
	defer b.lock.Close()
	old, err := os.MkdirTemp(filepath.Dir(b.Dir), oldPrefix)
	if err == nil {
		err = os.Rename(b.Dir, filepath.Join(old, "box"))
	}
	if err = errors.Join(err, os.RemoveAll(old)); err != nil {
		return fmt.Errorf("remove box: %w", err)
	}
	return nil
}

const (
	lockLimit = 10 * time.Second
	lockPause = time.Millisecond
	// orphanLimit is how long the lock of a supervisor that is gone may still
	// be held.
	orphanLimit = time.Second
)

// LockAll keeps every other process from making or taking over a box. It is
// held for a few system calls.
func (d Dirs) LockAll() (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(d.Run, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for end := time.Now().Add(lockLimit); ; {
		ok, err := tryLock(f)
		if ok {
			return func() { f.Close() }, nil
		}
		if err == nil && time.Now().After(end) {
			err = fmt.Errorf("another process has held %s for %v", f.Name(), lockLimit)
		}
		if err != nil {
			f.Close()
			return nil, err
		}
		time.Sleep(lockPause)
	}
}

// tryLock takes an open-file-description lock: it belongs to f, not to the
// process, and asking about it from elsewhere does not disturb it.
func tryLock(f *os.File) (bool, error) {
	l := unix.Flock_t{Type: unix.F_WRLCK}
	err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &l)
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return true, nil
}

// isAt says whether path still is the open file f.
func isAt(f *os.File, path string) bool {
	have, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(path)
	return err == nil && os.SameFile(have, there)
}

// held says whether some process holds the lock at path. A file that does not
// exist is not held.
func held(path string) (bool, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	l := unix.Flock_t{Type: unix.F_WRLCK}
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &l); err != nil {
		return false, fmt.Errorf("ask for lock %s: %w", path, err)
	}
	return l.Type != unix.F_UNLCK, nil
}
