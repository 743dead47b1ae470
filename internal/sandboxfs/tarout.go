//go:build linux

package sandboxfs

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"

	"golang.org/x/sys/unix"

	"github.com/skerry-run/skerry"
)

const opTarOut = "pack tar"

// TarOut writes the tree below path as a tar stream: the entries of a folder
// with paths relative to it, or the one file or link by its name. What can't be
// read, and what is neither file, folder nor link, is left out and listed. A
// file that changes while it is read has the size that it had at first: what is
// missing is filled with zeros and listed.
func (f *FS) TarOut(ctx context.Context, path string, w io.Writer) (skerry.TarResult, error) {
	p, err := f.resolve(opTarOut, path)
	if err != nil {
		return skerry.TarResult{}, err
	}
	k := &packing{fs: f, ctx: ctx, out: tar.NewWriter(sink{w})}
	if err := k.pack(p); err != nil {
		if s, ok := errors.AsType[*sinkError](err); ok {
			return skerry.TarResult{}, foreign(opTarOut, path, "pass it on", s.err)
		}
		return skerry.TarResult{}, failed(opTarOut, path, p.root, err)
	}
	k.result.Skipped = k.skipped.list()
	return k.result, nil
}

// packing is one TarOut under way.
type packing struct {
	fs      *FS
	ctx     context.Context
	out     *tar.Writer
	result  skerry.TarResult
	skipped notes
}

func (k *packing) pack(p place) error {
	if !p.isRoot() {
		d, name, err := k.fs.openParent(p)
		if err != nil {
			return err
		}
		defer d.close()
		st, err := d.stat(name)
		if err != nil {
			return err
		}
		if st.Mode&unix.S_IFMT != unix.S_IFDIR {
			if typeOf(st) == skerry.OtherFile {
				return &wrongType{skerry.Invalid, "it is a " + kindName(st) + ", which no archive can bring along", ""}
			}
			if err := k.entry(entry{in: d, name: name, path: name, st: st}); err != nil {
				return err
			}
			return k.out.Close()
		}
	}
	d, err := k.fs.openFolder(p)
	if err != nil {
		return err
	}
	defer d.close()
	w := walker{fs: k.fs, ctx: k.ctx, visit: k.entry}
	w.unread = func(path string, err error) error {
		k.skipped.add(path, fmt.Sprintf("what is in it can't be read: %v", err))
		return nil
	}
	if err := w.walk(d); err != nil {
		return err
	}
	return k.out.Close()
}

func (k *packing) entry(e entry) error {
	h := &tar.Header{
		Name: e.path, Mode: int64(e.st.Mode & 0o777), ModTime: timeOf(e.st.Mtim),
		Format: tar.FormatUnknown, // the simplest that holds the name
	}
	switch typeOf(e.st) {
	case skerry.RegularFile:
		return k.file(h, e)
	case skerry.Directory:
		h.Typeflag, h.Name = tar.TypeDir, h.Name+"/"
		return k.header(h, e)
	case skerry.SymbolicLink:
		target, err := e.in.readlink(e.name)
		if err != nil {
			return k.skip(e, err)
		}
		h.Typeflag, h.Linkname = tar.TypeSymlink, target
		if err := k.header(h, e); err != nil {
			return err
		}
		k.result.Files++
		return nil
	}
	k.skipped.add(e.path, "a "+kindName(e.st))
	return nil
}

// skip leaves an entry out, unless it is gone, which is as if it had never been.
func (k *packing) skip(e entry, err error) error {
	if !errors.Is(err, unix.ENOENT) {
		k.skipped.add(e.path, err.Error())
	}
	return nil
}

func (k *packing) header(h *tar.Header, e entry) error {
	err := k.out.WriteHeader(h)
	if errors.Is(err, tar.ErrHeader) || errors.Is(err, tar.ErrFieldTooLong) {
		k.skipped.add(e.path, err.Error())
		return nil
	}
	return err
}

func (k *packing) file(h *tar.Header, e entry) error {
	file, st, err := e.in.openRegular(e.name)
	if err != nil {
		return k.skip(e, err)
	}
	defer file.Close()
	h.Typeflag, h.Size = tar.TypeReg, st.Size
	if err := k.out.WriteHeader(h); err != nil {
		return err
	}
	n, fromFile, err := k.fs.copyAll(k.ctx, k.out, io.NewSectionReader(file, 0, st.Size))
	if err != nil && (!fromFile || k.ctx.Err() != nil) {
		return err
	}
	if err != nil {
		k.skipped.add(e.path, fmt.Sprintf("its last %d bytes can't be read and are zeros here: %v", st.Size-n, err))
	} else if n < st.Size {
		k.skipped.add(e.path, fmt.Sprintf("it shrank while it was read, its last %d bytes are zeros here", st.Size-n))
	}
	k.result.Files++
	k.result.Bytes += st.Size
	return k.fill(st.Size - n)
}

// fill writes the zeros that stand for what could not be read.
func (k *packing) fill(n int64) error {
	if n == 0 {
		return nil
	}
	_, _, err := k.fs.copyAll(k.ctx, k.out, io.LimitReader(zeros{}, n))
	return err
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// sink marks the errors of the caller's writer.
type sink struct{ w io.Writer }

type sinkError struct{ err error }

func (e *sinkError) Error() string { return e.err.Error() }
func (e *sinkError) Unwrap() error { return e.err }

func (s sink) Write(p []byte) (int, error) {
	n, err := s.w.Write(p)
	if err != nil {
		err = &sinkError{err}
	}
	return n, err
}
