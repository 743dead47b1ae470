//go:build linux

package boxes

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/skerry-run/skerry"
)

// Volume is where the files of a persistent session are.
type Volume struct {
	Workspace, Home string
	UID             int // that they belong to
}

type volumeRecord struct {
	Ref skerry.Ref `json:"ref"`
	UID int        `json:"uid"`
}

const volumeName = "volume.json"

// VolumeUID gives the user that owns the volume of key, if there is one.
func (d Dirs) VolumeUID(key string) (int, bool, error) {
	var v volumeRecord
	err := readJSON(filepath.Join(d.volumes(), key, volumeName), &v)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	return v.UID, err == nil, err
}

// VolumeUIDs gives the users of all volumes.
func (d Dirs) VolumeUIDs() (map[int]bool, error) {
	entries, err := os.ReadDir(d.volumes())
	if err != nil {
		return nil, err
	}
	out := map[int]bool{}
	for _, e := range entries {
		if validKey(e.Name()) {
			if uid, ok, err := d.VolumeUID(e.Name()); err == nil && ok {
				out[uid] = true
			}
		}
	}
	return out, nil
}

// EnsureVolume makes the volume of ref, owned by uid, or finds it again. The
// caller holds the box of ref.
//
// User code may open its folders to everybody, and put setuid programs there.
// So what lies above them lets nobody but that user's group through.
func (d Dirs) EnsureVolume(ref skerry.Ref, uid int) (Volume, error) {
	dir := filepath.Join(d.volumes(), ref.Key())
	if err := ensureDir(dir, 0o700); err != nil {
		return Volume{}, fmt.Errorf("volume: %w", err)
	}
	if os.Geteuid() == 0 {
		const groupPasses = 0o710
		if err := errors.Join(os.Lchown(dir, 0, uid), os.Chmod(dir, groupPasses)); err != nil {
			return Volume{}, fmt.Errorf("volume: %w", err)
		}
	}
	v := Volume{Workspace: filepath.Join(dir, "workspace"), Home: filepath.Join(dir, "home"), UID: uid}
	for _, p := range []string{v.Workspace, v.Home} {
		if err := os.Mkdir(p, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return Volume{}, fmt.Errorf("volume: %w", err)
		}
		fi, err := os.Lstat(p)
		if err != nil {
			return Volume{}, fmt.Errorf("volume: %w", err)
		}
		st, ok := fi.Sys().(*syscall.Stat_t)
		if !fi.IsDir() || !ok {
			return Volume{}, fmt.Errorf("volume: %s is not a folder", p)
		}
		if int(st.Uid) != uid {
			if err := os.Lchown(p, uid, uid); err != nil {
				return Volume{}, fmt.Errorf("volume: %w", err)
			}
		}
	}
	return v, writeJSON(filepath.Join(dir, volumeName), volumeRecord{Ref: ref, UID: uid})
}

const purgePrefix = ".purge-"

// Purge removes the volume of key. It is out of reach at once; what a crash
// leaves of it is removed by Sweep.
func (d Dirs) Purge(key string) error {
	trash, err := os.MkdirTemp(d.volumes(), purgePrefix)
	if err != nil {
		return fmt.Errorf("purge volume: %w", err)
	}
	err = os.Rename(filepath.Join(d.volumes(), key), filepath.Join(trash, key))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, removeTree(trash))
}

// HasVolume says whether files of key are kept.
func (d Dirs) HasVolume(key string) bool {
	_, err := os.Lstat(filepath.Join(d.volumes(), key))
	return err == nil
}

func (d Dirs) sweepPurged() error {
	entries, err := os.ReadDir(d.volumes())
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), purgePrefix) {
			errs = append(errs, removeTree(filepath.Join(d.volumes(), e.Name())))
		}
	}
	return errors.Join(errs...)
}

// removeTree removes a tree in which user code may have taken rights away from
// its owner.
func removeTree(dir string) error {
	err := os.RemoveAll(dir)
	if err == nil || !errors.Is(err, fs.ErrPermission) {
		return err
	}
	root, err := os.OpenRoot(dir) // no link leads out of it
	if err != nil {
		return err
	}
	defer root.Close()
	openUp(root, ".")
	return os.RemoveAll(dir)
}

func openUp(root *os.Root, dir string) {
	_ = root.Chmod(dir, 0o700) // what stays closed fails the removal, which is reported
	f, err := root.Open(dir)
	if err != nil {
		return
	}
	entries, _ := f.ReadDir(-1)
	f.Close()
	for _, e := range entries {
		if e.IsDir() {
			openUp(root, filepath.Join(dir, e.Name()))
		}
	}
}
