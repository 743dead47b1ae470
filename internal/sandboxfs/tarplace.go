//go:build linux

package sandboxfs

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/skerry-run/skerry"
)

// place moves what was unpacked to p. What can be told in advance is refused
// before the first move.
func (u *unpacking) place(p place) error {
	if d, err := u.fs.openFolder(p); err == nil {
		err = u.check(d, u.stage, "", 0)
		d.close()
		if err != nil {
			return err
		}
	} else if !errors.Is(err, unix.ENOENT) {
		return err
	}
	d, err := u.fs.makeFolder(p)
	if err != nil {
		return err
	}
	defer d.close()
	if err := u.merge(d, u.stage, "", 0); err != nil {
		return fmt.Errorf("a part was unpacked, then: %w", err)
	}
	return u.finish(d)
}

// check looks for names that can't be taken: a folder where there is a file or
// a link, or the other way round, and folders that can't be written to.
func (u *unpacking) check(d, stage *folder, path string, depth int) error {
	if depth > maxDepth {
		return errTooDeep
	}
	if err := unix.Faccessat(d.fd, ".", unix.W_OK|unix.X_OK, 0); err != nil {
		return skerry.Errorf(skerry.Denied, opTarIn, "folder %q can't be written to: %w", orDot(path), err).WithHint("nothing was unpacked; change its mode first")
	}
	return eachName(stage, func(name string) error {
		if err := u.ctx.Err(); err != nil {
			return err
		}
		st, err := stage.stat(name)
		if err != nil {
			return err
		}
		old, err := d.stat(name)
		if errors.Is(err, unix.ENOENT) {
			return nil
		}
		if err != nil {
			return err
		}
		at := join(path, name)
		isFolder, wasFolder := st.Mode&unix.S_IFMT == unix.S_IFDIR, old.Mode&unix.S_IFMT == unix.S_IFDIR
		switch {
		case isFolder && old.Mode&unix.S_IFMT == unix.S_IFLNK:
			return skerry.Errorf(skerry.Invalid, opTarIn, "entry %q would go through a link that is there", at).WithHint("nothing was unpacked; unpack below the folder that the link points to")
		case isFolder != wasFolder:
			return skerry.Errorf(skerry.Conflict, opTarIn, "entry %q is a %s, and there is a %s of that name", at, kindName(st), kindName(old)).WithHint("nothing was unpacked; remove the one that is there first")
		case !isFolder:
			return nil
		}
		oldDir, newDir, err := openBoth(d, stage, name)
		if err != nil {
			return err
		}
		defer oldDir.close()
		defer newDir.close()
		return u.check(oldDir, newDir, at, depth+1)
	})
}

// merge moves entries in place: a whole tree at once where nothing has its
// name, files over files, and folders into folders. It does not stop when ctx
// ends: half of an archive helps nobody.
func (u *unpacking) merge(d, stage *folder, path string, depth int) error {
	if depth > maxDepth {
		return errTooDeep
	}
	return eachName(stage, func(name string) error {
		st, err := stage.stat(name)
		if err != nil {
			return err
		}
		old, err := d.stat(name)
		if err != nil && !errors.Is(err, unix.ENOENT) {
			return err
		}
		if err != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR || old.Mode&unix.S_IFMT != unix.S_IFDIR {
			return stage.rename(name, d, name)
		}
		oldDir, newDir, err := openBoth(d, stage, name)
		if err != nil {
			return err
		}
		defer oldDir.close()
		defer newDir.close()
		return u.merge(oldDir, newDir, join(path, name), depth+1)
	})
}

// finish gives the folders that the archive names their modes and times, the
// inner ones first.
func (u *unpacking) finish(d *folder) error {
	paths := make([]string, 0, len(u.folders))
	for p := range u.folders {
		paths = append(paths, p)
	}
	slices.Sort(paths)
	for _, p := range slices.Backward(paths) {
		meta := u.folders[p]
		if err := setFolder(d, strings.Split(p, "/"), meta); err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENOTDIR) {
			return fmt.Errorf("all was unpacked, but not the mode of %q set: %w", p, err)
		}
	}
	return nil
}

func setFolder(d *folder, elems []string, meta folderMeta) error {
	for i, e := range elems[:len(elems)-1] {
		sub, err := d.openFolder(e)
		if i > 0 {
			d.close()
		}
		if err != nil {
			return err
		}
		d = sub
	}
	if len(elems) > 1 {
		defer d.close()
	}
	name := elems[len(elems)-1]
	if err := d.setTime(name, meta.modified); err != nil {
		return err
	}
	return d.chmod(name, meta.mode)
}

func openBoth(a, b *folder, name string) (*folder, *folder, error) {
	x, err := a.openFolder(name)
	if err != nil {
		return nil, nil, err
	}
	y, err := b.openFolder(name)
	if err != nil {
		x.close()
		return nil, nil, err
	}
	return x, y, nil
}

// eachName calls fn for what is in a folder that nobody else writes to; fn may
// take names away.
func eachName(d *folder, fn func(name string) error) error {
	names, err := d.names(maxTarEntries)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := fn(name); err != nil {
			return err
		}
	}
	return nil
}

func orDot(path string) string {
	if path == "" {
		return "."
	}
	return path
}
