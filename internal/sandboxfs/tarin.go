//go:build linux

package sandboxfs

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/skerry-run/skerry"
)

const opTarIn = "unpack tar"

// maxTarPadding is what may follow the end mark: tar pads to its record size.
const maxTarPadding = 1 << 20

// TarIn unpacks a tar stream below dir, which is made. Everything is unpacked
// into a hidden folder first and checked against what is there; only then it is
// moved in place. Files replace files of the same name, folders are merged.
// Special bits of modes are dropped, owners ignored.
func (f *FS) TarIn(ctx context.Context, dir string, r io.Reader) (skerry.TarResult, error) {
	p, err := f.resolve(opTarIn, dir)
	if err != nil {
		return skerry.TarResult{}, err
	}
	// The hidden folder is at the top of the same root: beside dir, on the same
	// file system, and where New finds it should the init be killed.
	at, err := f.follow(p, true)
	if err != nil {
		return skerry.TarResult{}, failed(opTarIn, dir, p.root, err)
	}
	if err := f.checkTarget(at); err != nil {
		return skerry.TarResult{}, failed(opTarIn, dir, p.root, err)
	}
	top, err := openIn(at.root, ".")
	if err != nil {
		return skerry.TarResult{}, failed(opTarIn, dir, p.root, err)
	}
	defer top.close()
	name := f.stageName()
	defer f.unstage(name)
	if err := top.mkdir(name, 0o700); err != nil {
		return skerry.TarResult{}, failed(opTarIn, dir, p.root, err)
	}
	defer func() { _ = top.removeAll(name, nil) }()
	stage, err := top.openFolder(name)
	if err != nil {
		return skerry.TarResult{}, failed(opTarIn, dir, p.root, err)
	}
	defer stage.close()

	u := &unpacking{fs: f, ctx: ctx, stage: stage, folders: map[string]folderMeta{}}
	if err := u.unpack(r); err != nil {
		return skerry.TarResult{}, failed(opTarIn, dir, p.root, err)
	}
	if err := u.place(at); err != nil {
		return skerry.TarResult{}, failed(opTarIn, dir, p.root, err)
	}
	u.result.Skipped = u.skipped.list()
	return u.result, nil
}

// checkTarget refuses a target that exists and is no folder before anything is
// read.
func (f *FS) checkTarget(p place) error {
	d, err := f.openFolder(p)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err == nil {
		d.close()
	}
	return err
}

// unpacking is one TarIn under way.
type unpacking struct {
	fs      *FS
	ctx     context.Context
	stage   *folder
	folders map[string]folderMeta // that the archive names, by path
	entries int64
	result  skerry.TarResult
	skipped notes
}

type folderMeta struct {
	mode     uint32
	modified time.Time
}

// refused is an entry that no archive may have.
func refused(name, format string, args ...any) error {
	return skerry.Errorf(skerry.Invalid, opTarIn, "entry %s: %s", quoted(name), fmt.Sprintf(format, args...)).
		WithHint("nothing was unpacked; make the archive without that entry")
}

func (u *unpacking) unpack(r io.Reader) error {
	end := &endMark{r: source{u.ctx, r}}
	tr := tar.NewReader(end)
	for {
		h, err := tr.Next()
		if err == io.EOF {
			return end.check()
		}
		if err != nil {
			return u.broken(err)
		}
		if err := u.ctx.Err(); err != nil {
			return err
		}
		if h.Typeflag == tar.TypeXGlobalHeader {
			continue
		}
		if u.entries++; u.entries > u.fs.tarEntries {
			return skerry.Errorf(skerry.Busy, opTarIn, "the archive has more than %d entries", u.fs.tarEntries).WithHint("write it as a file and unpack it with a command")
		}
		if err := u.entry(h, tr); err != nil {
			return err
		}
	}
}

// broken is a stream that is no archive, or ended early.
func (u *unpacking) broken(err error) error {
	if e, ok := errors.AsType[*sourceError](err); ok {
		return foreign(opTarIn, "archive", "take its contents", e.err)
	}
	return skerry.Errorf(skerry.Invalid, opTarIn, "the archive is damaged or cut: %w", err).WithHint("nothing was unpacked; send an uncompressed tar archive")
}

func (u *unpacking) entry(h *tar.Header, r io.Reader) error {
	elems, err := entryElems(h.Name, h.Name)
	if err != nil {
		return err
	}
	if len(elems) == 0 { // "./" is the folder itself
		if h.Typeflag != tar.TypeDir {
			return refused(h.Name, "it has no name")
		}
		return nil
	}
	if len(elems) > maxDepth {
		return refused(h.Name, "it is nested too deeply, at most %d folders", maxDepth)
	}
	switch h.Typeflag {
	case tar.TypeReg, 0, tar.TypeGNUSparse, tar.TypeCont: // 0 stands for a file in old archives
		return u.file(h, elems, r)
	case tar.TypeDir:
		return u.dir(h, elems)
	case tar.TypeSymlink:
		return u.symlink(h, elems)
	case tar.TypeLink:
		return u.hardlink(h, elems)
	case tar.TypeChar, tar.TypeBlock:
		u.skipped.add(h.Name, "a device")
		return nil
	case tar.TypeFifo:
		u.skipped.add(h.Name, "a FIFO")
		return nil
	}
	return refused(h.Name, "it is of the unknown type %q", h.Typeflag)
}

// entryElems gives the elements of a path in an archive; entry is whose it is.
func entryElems(entry, path string) ([]string, error) {
	switch {
	case path == "":
		return nil, refused(entry, "it has no name")
	case strings.IndexByte(path, 0) >= 0:
		return nil, refused(entry, "its name holds a NUL byte")
	case path[0] == '/':
		return nil, refused(entry, "it has an absolute name")
	case len(path) > maxPathBytes:
		return nil, refused(entry, "its path has %d bytes, at most %d", len(path), maxPathBytes)
	}
	var elems []string
	for _, e := range splitPath(path) {
		switch {
		case e == ".":
			continue
		case e == "..":
			return nil, refused(entry, `its name has ".." in it`)
		case len(e) > unix.NAME_MAX:
			return nil, refused(entry, "a name in it has %d bytes, at most %d", len(e), unix.NAME_MAX)
		}
		elems = append(elems, e)
	}
	return elems, nil
}

// within opens the staged folder that the entry goes to and makes it. A link
// on the way is one that the archive brought.
func (u *unpacking) within(entry string, elems []string) (*folder, string, error) {
	d, err := u.stage.openFolder(".")
	if err != nil {
		return nil, "", err
	}
	for _, e := range elems[:len(elems)-1] {
		sub, err := d.openFolder(e)
		if errors.Is(err, unix.ENOENT) {
			if err = d.mkdir(e, 0o755); err == nil {
				sub, err = d.openFolder(e)
			}
		}
		if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
			err = refused(entry, "%q on its way is not a folder in this archive", e)
		}
		d.close()
		if err != nil {
			return nil, "", err
		}
		d = sub
	}
	return d, elems[len(elems)-1], nil
}

// makeRoom clears the way for an entry: the last one of a name counts, but a folder
// that has become something else is a trick or a mistake.
func makeRoom(d *folder, entry, name string) error {
	st, err := d.stat(name)
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil
	case err != nil:
		return err
	case st.Mode&unix.S_IFMT == unix.S_IFDIR:
		return refused(entry, "the archive has a folder of the same name")
	}
	return d.remove(name)
}

func (u *unpacking) file(h *tar.Header, elems []string, r io.Reader) error {
	if h.Size < 0 || h.Size > u.fs.tarBytes-u.result.Bytes {
		return skerry.Errorf(skerry.Busy, opTarIn, "the contents of the archive have more than %d bytes, up to %q", u.fs.tarBytes, h.Name).
			WithHint("write it as a file and unpack it with a command")
	}
	d, name, err := u.within(h.Name, elems)
	if err != nil {
		return err
	}
	defer d.close()
	if err := makeRoom(d, h.Name, name); err != nil {
		return err
	}
	file, err := d.create(name)
	if err != nil {
		return err
	}
	defer file.Close()
	n, fromArchive, err := u.fs.copyAll(u.ctx, file, r)
	u.result.Bytes += n
	if fromArchive {
		return u.broken(err)
	}
	if err != nil {
		return err
	}
	u.result.Files++
	if err := unix.Fchmod(int(file.Fd()), uint32(h.Mode)&0o777); err != nil {
		return err
	}
	return d.setTime(name, tarTime(h.ModTime))
}

func (u *unpacking) dir(h *tar.Header, elems []string) error {
	d, name, err := u.within(h.Name, elems)
	if err != nil {
		return err
	}
	defer d.close()
	if err := d.mkdir(name, 0o755); errors.Is(err, unix.EEXIST) {
		st, err := d.stat(name)
		if err != nil {
			return err
		}
		if st.Mode&unix.S_IFMT != unix.S_IFDIR {
			return refused(h.Name, "the archive has something else of the same name")
		}
	} else if err != nil {
		return err
	}
	// Modes come last: a folder that we may not write to can't be filled.
	u.folders[strings.Join(elems, "/")] = folderMeta{uint32(h.Mode) & 0o777, tarTime(h.ModTime)}
	return nil
}

// symlink takes a link only when its target stays below dir whatever else the
// archive or the folder holds: ".." may only lead it, where it climbs over
// folders of the archive, which are real ones.
func (u *unpacking) symlink(h *tar.Header, elems []string) error {
	target := h.Linkname
	switch {
	case target == "":
		return refused(h.Name, "it is a link without a target")
	case strings.IndexByte(target, 0) >= 0:
		return refused(h.Name, "its target holds a NUL byte")
	case target[0] == '/':
		return refused(h.Name, "it is a link to the absolute path %q", target)
	case len(target) >= unix.PathMax:
		return refused(h.Name, "it is a link to a path of %d bytes", len(target))
	}
	up, named := 0, false
	for _, e := range splitPath(target) {
		switch {
		case e == "." && !named:
		case e == ".." && named:
			return refused(h.Name, `its target %q has ".." behind a name`, target)
		case e == "..":
			up++
		default:
			named = true
		}
	}
	if up > len(elems)-1 {
		return refused(h.Name, "it is a link to %q, which leaves the folder", target)
	}
	d, name, err := u.within(h.Name, elems)
	if err != nil {
		return err
	}
	defer d.close()
	if err := makeRoom(d, h.Name, name); err != nil {
		return err
	}
	if err := d.symlink(target, name); err != nil {
		return err
	}
	u.result.Files++
	return d.setTime(name, tarTime(h.ModTime))
}

func (u *unpacking) hardlink(h *tar.Header, elems []string) error {
	source, err := entryElems(h.Name, h.Linkname)
	if err != nil {
		return err
	}
	if len(source) == 0 {
		return refused(h.Name, "it is a link to the folder itself")
	}
	from, oldName, err := u.existing(source)
	if err != nil {
		return refused(h.Name, "it is a hard link to %q, which is not a file before it in the archive", h.Linkname)
	}
	defer from.close()
	st, err := from.stat(oldName)
	if err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return refused(h.Name, "it is a hard link to %q, which is not a file before it in the archive", h.Linkname)
	}
	d, name, err := u.within(h.Name, elems)
	if err != nil {
		return err
	}
	defer d.close()
	if old, err := d.stat(name); err == nil && old.Ino == st.Ino && old.Dev == st.Dev {
		return nil // a link to itself
	}
	if err := makeRoom(d, h.Name, name); err != nil {
		return err
	}
	if err := from.link(oldName, d, name); err != nil {
		return err
	}
	u.result.Files++
	return nil
}

// existing opens the staged folder of a path without making anything.
func (u *unpacking) existing(elems []string) (*folder, string, error) {
	d, err := u.stage.openFolder(".")
	if err != nil {
		return nil, "", err
	}
	for _, e := range elems[:len(elems)-1] {
		sub, err := d.openFolder(e)
		d.close()
		if err != nil {
			return nil, "", err
		}
		d = sub
	}
	return d, elems[len(elems)-1], nil
}

// tarTime keeps times that file systems can hold.
func tarTime(t time.Time) time.Time {
	const last = 1<<33 - 1 // what ext4 can hold, in the year 2242
	if t.Unix() < 0 || t.Unix() > last {
		return time.Unix(0, 0)
	}
	return t
}

// endMark passes a stream on and remembers whether its last block was empty, as
// the end of every archive is. Without it a stream that was cut between two
// entries would look whole.
type endMark struct {
	r     io.Reader
	zeros int64 // at the end of what was read
	total int64
}

func (e *endMark) Read(p []byte) (int, error) {
	n, err := e.r.Read(p)
	e.total += int64(n)
	last := n
	for last > 0 && p[last-1] == 0 {
		last--
	}
	if last > 0 {
		e.zeros = 0
	}
	e.zeros += int64(n - last)
	return n, err
}

// check reads the stream to its end.
func (e *endMark) check() error {
	const block = 512
	marked := e.zeros >= block
	n, err := io.Copy(io.Discard, io.LimitReader(e, maxTarPadding+1))
	switch s, ok := errors.AsType[*sourceError](err); {
	case ok:
		return foreign(opTarIn, "archive", "take its contents", s.err)
	case err != nil:
		return err
	case !marked:
		return skerry.Errorf(skerry.Invalid, opTarIn, "the archive ends without its end mark after %d bytes", e.total).WithHint("nothing was unpacked; it was cut, or is no tar archive")
	case n > maxTarPadding:
		return skerry.Errorf(skerry.Invalid, opTarIn, "more than %d bytes follow the end of the archive", maxTarPadding).WithHint("nothing was unpacked; send one archive")
	}
	return nil
}
