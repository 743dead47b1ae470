package main

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/skerry-run/skerry"
)

// Bounds on a folder that comes out of a sandbox.
const (
	maxTreeEntries = 1_000_000
	maxTreeBytes   = 64 * skerry.GiB
	maxTreeNotes   = 100
)

// receiveFolder unpacks what send writes into a folder of that name in root.
// It unpacks beside it first: when the stream is bad nothing appears. An
// existing folder is merged into, file by file. room may be nil.
func receiveFolder(ctx context.Context, root *os.Root, name string, room *room, send func(context.Context, io.Writer) error) (notes []string, err error) {
	if !isPlainPath(name) || strings.Contains(name, "/") {
		return nil, fmt.Errorf("%q is no name for a folder", name)
	}
	staging := ".skerry-" + randomID()
	if err := root.Mkdir(staging, 0o700); err != nil {
		return nil, err
	}
	defer func() {
		if e := root.RemoveAll(staging); err == nil && e != nil {
			err = e
		}
	}()
	inner, err := root.OpenRoot(staging)
	if err != nil {
		return nil, err
	}
	defer inner.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r, w := io.Pipe()
	sent := make(chan error, 1)
	go func() {
		err := send(ctx, w)
		w.CloseWithError(err)
		sent <- err
	}()
	u := &unpacker{root: inner, room: room}
	err = u.unpack(r)
	if err != nil {
		cancel()
	}
	r.CloseWithError(io.ErrClosedPipe)
	if e := <-sent; e != nil && !errors.Is(e, io.ErrClosedPipe) && (err == nil || !errors.Is(e, context.Canceled)) {
		err = e
	}
	if err != nil {
		return nil, err
	}
	const usual = 0o755 // the staging folder was for us alone
	if err := root.Chmod(staging, usual); err != nil {
		return nil, err
	}
	return u.notes, merge(root, staging, name)
}

// unpacker puts a tar stream into a folder that nobody else knows yet.
type unpacker struct {
	root    *os.Root
	room    *room
	entries int
	links   []*tar.Header // made last, so that nothing is written through one
	folders []*tar.Header // their permissions too
	notes   []string
}

func (u *unpacker) unpack(r io.Reader) error {
	tr := tar.NewReader(r)
	for {
		h, err := tr.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return fmt.Errorf("the stream is no tar: %w", err)
		}
		if u.entries++; u.entries > maxTreeEntries {
			return skerry.Errorf(skerry.Invalid, "", "more than %d entries", maxTreeEntries)
		}
		if err := u.entry(h, tr); err != nil {
			return err
		}
	}
	// What follows the end of the archive is read too, so that whoever sends
	// it is not left hanging.
	if _, err := io.Copy(io.Discard, io.LimitReader(r, int64(skerry.MiB))); err != nil {
		return err
	}
	for _, h := range u.links {
		if err := u.link(h); err != nil {
			return err
		}
	}
	for _, h := range slices.Backward(u.folders) {
		if err := u.root.Chmod(h.Name, fs.FileMode(h.Mode).Perm()|0o700); err != nil {
			return err
		}
	}
	return nil
}

func (u *unpacker) entry(h *tar.Header, r io.Reader) error {
	name := strings.TrimSuffix(h.Name, "/")
	name = strings.TrimPrefix(name, "./")
	if (name == "." || name == "") && h.Typeflag == tar.TypeDir && h.Name != "" {
		return nil
	}
	if !isPlainPath(name) {
		return skerry.Errorf(skerry.Denied, "", "the entry %q would leave the folder", h.Name).WithHint("nothing was copied; copy single files by their names")
	}
	h.Name = name
	switch h.Typeflag {
	case tar.TypeDir:
		u.folders = append(u.folders, h)
		return makeFolders(u.root, name)
	case tar.TypeReg:
		return u.file(h, r)
	case tar.TypeSymlink:
		u.links = append(u.links, h)
		return nil
	case tar.TypeLink:
		return skerry.Errorf(skerry.Denied, "", "the entry %q is a hard link to %q", h.Name, h.Linkname)
	}
	u.note("%s was left out: it is neither a file, a folder nor a link", name)
	return nil
}

func (u *unpacker) file(h *tar.Header, r io.Reader) error {
	for key := range h.PAXRecords {
		// A few bytes of a sparse file stand for any number of zeros.
		if strings.HasPrefix(key, "GNU.sparse.") {
			return skerry.Errorf(skerry.Denied, "", "the entry %q is a sparse file", h.Name)
		}
	}
	if err := makeFolders(u.root, path.Dir(h.Name)); err != nil {
		return err
	}
	f, err := u.root.OpenFile(h.Name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, fs.FileMode(h.Mode).Perm()|0o600)
	if err != nil {
		return fmt.Errorf("the entry %q: %w", h.Name, err)
	}
	content := sparseWriter{file: f, room: u.room}
	_, err = io.CopyN(&content, r, h.Size)
	if err == nil {
		err = content.finish()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		return fmt.Errorf("the entry %q: %w", h.Name, err)
	}
	return nil
}

// link makes a link that stays inside the folder, and notes any other.
func (u *unpacker) link(h *tar.Header) error {
	if !staysInside(h.Name, h.Linkname) {
		u.note("%s was left out: it is a link that leads out of the folder, to %s", h.Name, h.Linkname)
		return nil
	}
	if err := makeFolders(u.root, path.Dir(h.Name)); err != nil {
		return err
	}
	if err := u.root.Symlink(h.Linkname, h.Name); err != nil {
		return fmt.Errorf("the entry %q: %w", h.Name, err)
	}
	return nil
}

// staysInside says whether a link of that name and target can only lead below
// the folder. Steps up are allowed at the target's start alone: after the name
// of another link they would lead from where that one points.
func staysInside(name, target string) bool {
	if target == "" || path.IsAbs(target) || strings.ContainsAny(target, "\\\x00") {
		return false
	}
	rest := strings.TrimSuffix(target, "/")
	for rest == ".." || strings.HasPrefix(rest, "../") {
		rest = strings.TrimPrefix(strings.TrimPrefix(rest, ".."), "/")
	}
	for part := range strings.SplitSeq(rest, "/") {
		if part == ".." {
			return false
		}
	}
	inside := path.Join(path.Dir(name), target)
	return inside != ".." && !strings.HasPrefix(inside, "../")
}

func (u *unpacker) note(format string, args ...any) {
	if len(u.notes) < maxTreeNotes {
		u.notes = append(u.notes, fmt.Sprintf(format, args...))
	}
}

// merge moves what is in the folder from to the folder to, which may exist.
func merge(root *os.Root, from, to string) error {
	info, err := root.Lstat(to)
	if errors.Is(err, fs.ErrNotExist) {
		return root.Rename(from, to)
	}
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s exists and is a %s, not a folder", to, typeName(info.Mode().Type()))
	}
	dir, err := root.Open(from)
	if err != nil {
		return err
	}
	defer dir.Close()
	entries, err := dir.ReadDir(-1)
	if err != nil {
		return err
	}
	for _, e := range entries {
		f, t := path.Join(from, e.Name()), path.Join(to, e.Name())
		if e.IsDir() {
			if err := merge(root, f, t); err != nil {
				return err
			}
			continue
		}
		if err := root.Rename(f, t); err != nil {
			return err
		}
	}
	return nil
}
