//go:build linux

package boxes

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/skerry-run/skerry"
)

// Record is what is kept of a live sandbox.
type Record struct {
	Ref        skerry.Ref     `json:"ref"`
	Key        string         `json:"key"`
	SandboxUID string         `json:"sandbox_uid"` // of this instance, random
	Created    time.Time      `json:"created"`
	Expires    time.Time      `json:"expires"`
	Idle       time.Duration  `json:"idle"`
	Persistent bool           `json:"persistent"`
	Remember   time.Duration  `json:"remember"`
	Retention  time.Duration  `json:"retention,omitempty"` // of a run, once its command has ended; 0 is until Expires
	Digest     string         `json:"digest,omitempty"`    // of a run's request, keyed
	Network    skerry.Network `json:"network"`
	Limits     skerry.Limits  `json:"limits"`
	Warnings   []string       `json:"warnings"`
	Recreated  bool           `json:"recreated,omitempty"`
	Lost       []string       `json:"lost,omitempty"`

	UID        int     `json:"uid"`    // the host's user that the sandbox runs as
	Subnet     int     `json:"subnet"` // of root's sandboxes with a network
	Supervisor Process `json:"supervisor"`
}

// Info gives what callers may know.
func (r Record) Info() skerry.SandboxInfo {
	return skerry.SandboxInfo{
		Ref: r.Ref, Backend: "local", Created: r.Created, Expires: r.Expires, Idle: r.Idle, Persistent: r.Persistent,
		Network: r.Network, Limits: r.Limits, Warnings: r.Warnings, Recreated: r.Recreated, Lost: r.Lost,
	}
}

// maxRecord bounds what is read back.
const maxRecord = 1 << 20

func writeJSON(path string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	tmp, err := writeTemporary(path, data)
	if err != nil {
		return err
	}
	return os.Rename(tmp, path)
}

// writeTemporary makes a private file beside path that nobody else writes to,
// not even another goroutine, and gives its name.
func writeTemporary(path string, data []byte) (string, error) {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp")
	if err != nil {
		return "", err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return f.Name(), nil
}

func readJSON(path string, v any) error {
	fi, err := os.Stat(path)
	if err != nil {
		return err
	}
	if fi.Size() > maxRecord {
		return fmt.Errorf("%s has %d bytes, more than a record can have", path, fi.Size())
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, v)
}

// validKey says whether name is what Ref.Key gives, so that nothing else in
// our folders is taken for a box.
func validKey(name string) bool {
	const digits = 32
	return len(name) == digits && strings.Trim(name, "0123456789abcdef") == ""
}

// keys lists the boxes that exist, alive or dead.
func (d Dirs) keys() ([]string, error) {
	entries, err := os.ReadDir(d.boxes())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		if validKey(e.Name()) {
			out = append(out, e.Name())
		}
	}
	return out, nil
}

// Find gives the record of a sandbox that is alive.
func (d Dirs) Find(key string) (Record, bool, error) {
	dir := filepath.Join(d.boxes(), key)
	alive, err := held(filepath.Join(dir, lockName))
	if err != nil || !alive {
		return Record{}, false, err
	}
	var r Record
	if err := readJSON(filepath.Join(dir, recordName), &r); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return Record{}, false, nil // just ended, or just being made
		}
		return Record{}, false, err
	}
	return r, true, nil
}

// List gives the records of all live sandboxes that are not ending, oldest
// first.
func (d Dirs) List() ([]Record, error) {
	keys, err := d.keys()
	if err != nil {
		return nil, err
	}
	var out []Record
	for _, k := range keys {
		r, alive, err := d.Find(k)
		if err != nil {
			return nil, err
		}
		if alive && !d.Ending(k) {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b Record) int { return a.Created.Compare(b.Created) })
	return out, nil
}

// Dead gives the keys of boxes whose supervisor is gone.
func (d Dirs) Dead() ([]string, error) {
	keys, err := d.keys()
	if err != nil {
		return nil, err
	}
	var out []string
	for _, k := range keys {
		alive, err := held(filepath.Join(d.boxes(), k, lockName))
		if err == nil && (!alive || d.orphaned(k)) {
			out = append(out, k)
		}
	}
	return out, nil
}

// orphaned says whether the supervisor of a box is gone although its lock is
// held: by a child that it had forked and that has not come to its exec, where
// it would let go, nor to its death.
func (d Dirs) orphaned(key string) bool {
	var r Record
	if err := readJSON(filepath.Join(d.boxes(), key, recordName), &r); err != nil {
		return false // being made, or just removed
	}
	// Another process under that number, or a record that is wrong, is no
	// proof of anything against a lock that is held.
	fd, err := unix.PidfdOpen(r.Supervisor.PID, 0)
	if err != nil {
		return errors.Is(err, unix.ESRCH)
	}
	defer unix.Close(fd)
	return WaitPidfd(fd, 0)
}

// Ending says whether the sandbox is on its way out: nothing can be started in
// it any more, and its name is free soon.
func (d Dirs) Ending(key string) bool {
	_, err := os.Lstat(filepath.Join(d.boxes(), key, endingName))
	return err == nil
}

// Socket gives the path of a sandbox's socket.
func (d Dirs) Socket(key string) string { return filepath.Join(d.boxes(), key, socketName) }

// Exists says whether there is a box of that key, alive or dead.
func (d Dirs) Exists(key string) bool {
	_, err := os.Lstat(filepath.Join(d.boxes(), key))
	return err == nil
}
