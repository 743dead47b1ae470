//go:build linux

package sandboxfs

import (
	"context"
	"errors"
	"io"

	"golang.org/x/sys/unix"

	"github.com/skerry-run/skerry"
)

// Move renames. Between two of the folders that are not on one file system the
// tree is copied, put in place whole, and only then removed where it was.
func (f *FS) Move(ctx context.Context, from, to string) error {
	const op = "move file"
	src, err := f.resolve(op, from)
	if err != nil {
		return err
	}
	dst, err := f.resolve(op, to)
	if err != nil {
		return err
	}
	for _, p := range []struct {
		place
		path string
	}{{src, from}, {dst, to}} {
		if p.isRoot() {
			return skerry.Errorf(skerry.Denied, op, "%q is one of the sandbox's own folders", p.path).WithHint("name something in it")
		}
	}
	a, name, err := f.openParent(src)
	if err != nil {
		return failed(op, from, src.root, err)
	}
	defer a.close()
	st, err := a.stat(name)
	if err != nil {
		return failed(op, from, src.root, err)
	}
	b, newName, err := f.openParent(dst)
	if err != nil {
		return failed(op, to, dst.root, err)
	}
	defer b.close()
	if sameFile(a, name, st, b, newName) {
		// A rename between two names of one file does nothing at all.
		return failed(op, from, src.root, a.remove(name))
	}
	err = a.rename(name, b, newName)
	if errors.Is(err, unix.EXDEV) {
		err = f.moveAcross(ctx, a, name, st, b, newName)
	}
	switch {
	case errors.Is(err, unix.EINVAL):
		err = &wrongType{skerry.Invalid, "a folder can't be moved into itself", ""}
	case errors.Is(err, unix.ENOTDIR):
		err = &wrongType{skerry.Conflict, "a file has that name", "remove it first, or choose another name"}
	}
	return failed(op, to, dst.root, err)
}

// sameFile says whether both are names of one file, and two names.
func sameFile(a *folder, name string, st *unix.Stat_t, b *folder, newName string) bool {
	old, err := b.stat(newName)
	if err != nil || old.Ino != st.Ino || old.Dev != st.Dev || st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return false
	}
	x, err1 := a.statSelf()
	y, err2 := b.statSelf()
	return err1 == nil && err2 == nil && (name != newName || x.Ino != y.Ino || x.Dev != y.Dev)
}

func (f *FS) moveAcross(ctx context.Context, a *folder, name string, st *unix.Stat_t, b *folder, newName string) error {
	// What a rename would refuse is refused before anything is copied.
	if old, err := b.stat(newName); err == nil {
		was, is := old.Mode&unix.S_IFMT == unix.S_IFDIR, st.Mode&unix.S_IFMT == unix.S_IFDIR
		switch {
		case was && !is:
			return unix.EISDIR
		case !was && is:
			return unix.ENOTDIR
		}
	}
	tmp := f.stageName()
	defer f.unstage(tmp)
	err := f.copyTree(ctx, a, name, b, tmp, 0)
	if err == nil {
		err = b.rename(tmp, b, newName)
	}
	if err != nil {
		_ = b.removeAll(tmp, nil)
		return err
	}
	return a.removeAll(name, nil)
}

// copyTree copies a file, link or folder to a new name, modes and times too.
func (f *FS) copyTree(ctx context.Context, a *folder, name string, b *folder, newName string, depth int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	st, err := a.stat(name)
	if err != nil {
		return err
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return f.copyFile(ctx, a, name, b, newName)
	case unix.S_IFLNK:
		target, err := a.readlink(name)
		if err != nil {
			return err
		}
		return b.symlink(target, newName)
	case unix.S_IFDIR:
		if depth > maxDepth {
			return errTooDeep
		}
		if err := f.copyFolder(ctx, a, name, b, newName, depth); err != nil {
			return err
		}
		if err := b.setTime(newName, timeOf(st.Mtim)); err != nil {
			return err
		}
		return b.chmod(newName, st.Mode&0o777)
	}
	return &wrongType{skerry.Invalid, "a " + kindName(st) + " can't be moved to another file system", "remove it first, or move the rest"}
}

func (f *FS) copyFolder(ctx context.Context, a *folder, name string, b *folder, newName string, depth int) error {
	if err := b.mkdir(newName, 0o700); err != nil {
		return err
	}
	from, err := a.openFolder(name)
	if err != nil {
		return err
	}
	defer from.close()
	to, err := b.openFolder(newName)
	if err != nil {
		return err
	}
	defer to.close()
	list, err := from.open(".", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer list.Close()
	for {
		const batch = 1024
		names, err := list.Readdirnames(batch)
		for _, n := range names {
			if err := f.copyTree(ctx, from, n, to, n, depth+1); err != nil {
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

func (f *FS) copyFile(ctx context.Context, a *folder, name string, b *folder, newName string) error {
	src, st, err := a.openRegular(name)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := b.create(newName)
	if err != nil {
		return err
	}
	defer dst.Close()
	if _, _, err := f.copyAll(ctx, dst, src); err != nil {
		return bare(err)
	}
	if err := unix.Fchmod(int(dst.Fd()), st.Mode&0o777); err != nil {
		return err
	}
	if err := dst.Close(); err != nil {
		return bare(err)
	}
	return b.setTime(newName, timeOf(st.Mtim))
}
