//go:build linux

package sandboxfs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/skerry-run/skerry"
)

// Read copies a range of a regular file to w. A file that grows meanwhile is
// read up to the size it had when it was opened.
func (f *FS) Read(ctx context.Context, path string, offset, length int64, w io.Writer) (skerry.FileInfo, error) {
	return f.ReadInfo(ctx, path, offset, length, w, nil)
}

// ReadInfo is Read that calls opened, when it is set, with what is known of the
// file before anything is written to w.
func (f *FS) ReadInfo(ctx context.Context, path string, offset, length int64, w io.Writer, opened func(skerry.FileInfo) error) (skerry.FileInfo, error) {
	const op = "read file"
	p, err := f.resolve(op, path)
	if err != nil {
		return skerry.FileInfo{}, err
	}
	if offset < 0 {
		return skerry.FileInfo{}, skerry.Errorf(skerry.Invalid, op, "%q: offset %d is negative", path, offset)
	}
	file, st, err := f.openRegular(p)
	if err != nil {
		return skerry.FileInfo{}, failed(op, path, p.root, err)
	}
	defer file.Close()
	fi := info(path, st)
	if opened != nil {
		if err := opened(fi); err != nil {
			return fi, err
		}
	}
	rest := max(0, st.Size-offset)
	if length < 0 || length > rest {
		length = rest
	}
	dst, sum := w, sha256.New()
	whole := offset == 0 && length == st.Size
	if whole {
		dst = io.MultiWriter(w, sum)
	}
	n, fromFile, err := f.copyAll(ctx, dst, io.NewSectionReader(file, offset, length))
	switch {
	case fromFile:
		return fi, failed(op, path, p.root, bare(err))
	case err != nil:
		return fi, foreign(op, path, "pass it on", err)
	case whole:
		fi.Size, fi.SHA256 = n, hex.EncodeToString(sum.Sum(nil)) // it may have shrunk
	}
	return fi, nil
}

// openRegular opens a regular file, through links that stay inside. A link
// that is swapped in again meanwhile is ELOOP.
func (f *FS) openRegular(p place) (*os.File, *unix.Stat_t, error) {
	if p.isRoot() {
		return nil, nil, notRegular("folder")
	}
	d, name, err := f.openParent(p)
	if err != nil {
		return nil, nil, err
	}
	defer d.close()
	file, st, err := d.openRegular(name)
	if !errors.Is(err, unix.ELOOP) {
		return file, st, err
	}
	at, err := f.follow(p, true)
	if err != nil {
		return nil, nil, err
	}
	if at.isRoot() {
		return nil, nil, notRegular("folder")
	}
	d2, name, err := f.openParent(at)
	if err != nil {
		return nil, nil, err
	}
	defer d2.close()
	return d2.openRegular(name)
}

// openRegular opens a regular file for reading and never another kind: opening
// a device or a FIFO does things to it, and reading may never end.
func (d *folder) openRegular(name string) (*os.File, *unix.Stat_t, error) {
	check := func(st *unix.Stat_t) error {
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFREG:
			return nil
		case unix.S_IFLNK:
			return unix.ELOOP
		}
		return notRegular(kindName(st))
	}
	st, err := d.stat(name)
	if err == nil {
		err = check(st)
	}
	if err != nil {
		return nil, nil, err
	}
	file, err := d.open(name, unix.O_RDONLY)
	if err != nil {
		return nil, nil, err
	}
	if st, err = fstat(file); err == nil {
		err = check(st) // it may be another one by now
	}
	if err != nil {
		_ = file.Close()
		return nil, nil, err
	}
	return file, st, nil
}
