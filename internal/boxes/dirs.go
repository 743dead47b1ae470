//go:build linux

// Package boxes keeps what the local backend knows of its sandboxes in two
// folders: records of live ones, notes on ended ones, the files of persistent
// sessions, and the copy of skerry-init that sandboxes run.
//
// A sandbox is alive exactly as long as a process, its supervisor, holds the
// lock of its box. The kernel lets go of a lock when its holder dies, however
// it dies, so nothing has to be guessed from process ids.
package boxes

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/skerry-run/skerry"
)

// Dirs are the folders of one installation of the local backend.
type Dirs struct {
	State string `json:"state"` // on disk: volumes, notes, spools, the init's copy
	Run   string `json:"run"`   // of this boot: boxes and their sockets
}

// Locate gives the folders for state, which "" takes from the system: for root
// /var/lib/skerry/local and /run/skerry/local, for others $XDG_STATE_HOME or
// ~/.local/state, and $XDG_RUNTIME_DIR where there is one. These variables are
// all that is read from the environment, and only for the empty state.
func Locate(state string) (Dirs, error) {
	if state != "" {
		abs, err := filepath.Abs(state)
		if err != nil {
			return Dirs{}, skerry.Errorf(skerry.Invalid, "state folder", "%w", err)
		}
		return Dirs{State: abs, Run: filepath.Join(abs, "run")}, nil
	}
	if os.Geteuid() == 0 {
		return Dirs{State: "/var/lib/skerry/local", Run: "/run/skerry/local"}, nil
	}
	base := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(base) { // the specification of XDG: relative paths are ignored
		home, err := os.UserHomeDir()
		if err != nil || !filepath.IsAbs(home) {
			return Dirs{}, skerry.Errorf(skerry.Invalid, "state folder", "there is neither XDG_STATE_HOME nor HOME").WithHint("set one of them, or the state folder in the configuration")
		}
		base = filepath.Join(home, ".local", "state")
	}
	d := Dirs{State: filepath.Join(base, "skerry", "local")}
	d.Run = filepath.Join(d.State, "run")
	if run := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(run) {
		if usable(run) == nil {
			d.Run = filepath.Join(run, "skerry", "local")
		}
	}
	return d, nil
}

// usable refuses a folder that another user could put things into, or that is
// not ours.
func usable(dir string) error {
	fi, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !fi.IsDir() {
		return fmt.Errorf("%s is not a folder (a link is not followed)", dir)
	}
	if st, ok := fi.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to another user", dir)
	}
	if fi.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("%s can be written by others (mode %04o)", dir, fi.Mode().Perm())
	}
	return nil
}

// Names below the folders.
func (d Dirs) boxes() string   { return filepath.Join(d.Run, "boxes") }
func (d Dirs) ended() string   { return filepath.Join(d.State, "ended") }
func (d Dirs) volumes() string { return filepath.Join(d.State, "volumes") }
func (d Dirs) spool() string   { return filepath.Join(d.State, "spool") }
func (d Dirs) inits() string   { return filepath.Join(d.State, "init") }

// Ensure makes the folders, private to this user, and refuses ones that are
// not. For root some may be passed through, not listed, by the unprivileged
// users that sandboxes run as.
func (d Dirs) Ensure() error {
	through := fs.FileMode(0o700)
	if os.Geteuid() == 0 {
		through = 0o711
	}
	for _, f := range []struct {
		dir  string
		mode fs.FileMode
	}{
		{d.State, through}, {d.inits(), through}, {d.volumes(), through},
		{d.ended(), 0o700}, {d.spool(), 0o700}, {d.Run, 0o700}, {d.boxes(), 0o700},
	} {
		err := ensureDir(f.dir, f.mode)
		if err == nil {
			err = trustedAbove(f.dir)
		}
		if err != nil {
			return skerry.Errorf(skerry.Denied, "state folder", "%w", err).WithHint("choose a state folder of your own that no one else can write to")
		}
	}
	return nil
}

// trustedAbove refuses a folder that somebody else can replace by another one,
// because a folder above it is theirs. Where everybody may make files, only
// the sticky bit keeps them from renaming others' folders.
func trustedAbove(dir string) error {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	for _, p := range []string{dir, real} { // of a link: the way to it, and what it leads to
		for p != "/" {
			p = filepath.Dir(p)
			fi, err := os.Stat(p)
			if err != nil {
				return err
			}
			if st, ok := fi.Sys().(*syscall.Stat_t); !ok || st.Uid != 0 && int(st.Uid) != os.Geteuid() && !unmapped(st.Uid) {
				return fmt.Errorf("%s, above %s, belongs to another user", p, dir)
			}
			if fi.Mode().Perm()&0o002 != 0 && fi.Mode()&os.ModeSticky == 0 {
				return fmt.Errorf("%s, above %s, can be written by everybody (mode %04o)", p, dir, fi.Mode().Perm())
			}
		}
	}
	return nil
}

func ensureDir(dir string, mode fs.FileMode) error {
	if usable(dir) == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	err := os.Mkdir(dir, mode)
	if err == nil {
		err = os.Chmod(dir, mode) // the umask may have taken bits away
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return usable(dir)
}

// unmapped says whether uid stands for users that do not exist in our user
// namespace: in a container that is the machine's own root, too.
func unmapped(uid uint32) bool {
	const everybody = 1<<32 - 1
	overflow, err := os.ReadFile("/proc/sys/kernel/overflowuid")
	if err != nil || strings.TrimSpace(string(overflow)) != strconv.FormatUint(uint64(uid), 10) {
		return false
	}
	var first, outside, count uint64
	uidMap, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return false
	}
	_, err = fmt.Sscan(string(uidMap), &first, &outside, &count)
	return err == nil && count != everybody
}

// Passable refuses a state folder that a user without rights can't reach into,
// as the sandboxes of root have to.
func (d Dirs) Passable() error {
	for p := d.State; p != "/"; p = filepath.Dir(p) {
		fi, err := os.Stat(p)
		if err != nil {
			return err
		}
		if fi.Mode().Perm()&0o001 == 0 {
			return skerry.Errorf(skerry.Denied, "state folder", "%s can't be passed through by other users (mode %04o), which the users of sandboxes have to", p, fi.Mode().Perm()).
				WithHint("chmod o+x %s, or choose another state folder", p)
		}
	}
	return nil
}
