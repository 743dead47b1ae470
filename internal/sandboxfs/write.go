//go:build linux

package sandboxfs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/skerry-run/skerry"
)

// Write puts r in a file that appears under its name only when it is whole.
// Special bits of the mode are dropped. A link that ends inside is written
// through, as an editor would.
func (f *FS) Write(ctx context.Context, path string, r io.Reader, opts skerry.WriteOptions) (skerry.FileInfo, error) {
	const op = "write file"
	p, err := f.resolve(op, path)
	if err != nil {
		return skerry.FileInfo{}, err
	}
	if p.isRoot() || strings.HasSuffix(path, "/") {
		return skerry.FileInfo{}, skerry.Errorf(skerry.Invalid, op, "%q names a folder", path)
	}
	d, name, err := f.openTarget(p, opts.Create)
	if err != nil {
		return skerry.FileInfo{}, failed(op, path, p.root, err)
	}
	defer d.close()

	tmp := f.stageName()
	defer f.unstage(tmp)
	file, err := d.create(tmp)
	if err != nil {
		return skerry.FileInfo{}, failed(op, path, p.root, err)
	}
	placed := false
	defer func() {
		_ = file.Close()
		if !placed {
			_ = d.remove(tmp)
		}
	}()
	sum := sha256.New()
	n, fromSource, err := f.copyAll(ctx, io.MultiWriter(file, sum), r)
	if fromSource {
		return skerry.FileInfo{}, foreign(op, path, "take its contents", err)
	}
	mode := opts.Mode & 0o777
	if mode == 0 {
		mode = skerry.DefaultFileMode
	}
	if err == nil {
		err = unix.Fchmod(int(file.Fd()), mode)
	}
	var st *unix.Stat_t
	if err == nil {
		st, err = fstat(file)
	}
	if err == nil {
		err = file.Close() // a network file system may only now say that it is full
	}
	if err == nil {
		err = ctx.Err()
	}
	if err == nil && opts.Create {
		err = d.renameNew(tmp, d, name)
	} else if err == nil {
		err = d.rename(tmp, d, name)
	}
	if err != nil {
		return skerry.FileInfo{}, failed(op, path, p.root, err)
	}
	placed = true
	fi := info(path, st)
	fi.Size, fi.SHA256 = n, hex.EncodeToString(sum.Sum(nil))
	return fi, nil
}

// openTarget opens, and makes, the folder that the file p goes to, and refuses
// the name of a folder.
func (f *FS) openTarget(p place, create bool) (*folder, string, error) {
	d, err := f.makeFolder(p.parent())
	if err != nil {
		return nil, "", err
	}
	name := p.name()
	st, err := d.stat(name)
	switch {
	case errors.Is(err, unix.ENOENT):
		return d, name, nil
	case err != nil:
	case create:
		err = unix.EEXIST
	case st.Mode&unix.S_IFMT == unix.S_IFLNK:
		d.close()
		at, err := f.follow(p, true)
		if err != nil {
			return nil, "", err
		}
		if at.isRoot() {
			return nil, "", unix.EISDIR
		}
		if d, err = f.makeFolder(at.parent()); err != nil {
			return nil, "", err
		}
		// Should it be a link again by now, the rename replaces it.
		if st, err := d.stat(at.name()); err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
			d.close()
			return nil, "", unix.EISDIR
		}
		return d, at.name(), nil
	case st.Mode&unix.S_IFMT == unix.S_IFDIR:
		err = unix.EISDIR
	default:
		return d, name, nil // the file takes the place of the FIFO, socket or device
	}
	d.close()
	return nil, "", err
}

// Mkdir makes a folder and its parents.
func (f *FS) Mkdir(ctx context.Context, path string) error {
	const op = "make folder"
	p, err := f.resolve(op, path)
	if err != nil {
		return err
	}
	d, err := f.makeFolder(p)
	if errors.Is(err, unix.ENOTDIR) {
		err = &wrongType{skerry.Conflict, "a part of the path is a file", "choose another name, or remove the file first"}
	}
	if err != nil {
		return failed(op, path, p.root, err)
	}
	d.close()
	return nil
}
