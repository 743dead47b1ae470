//go:build linux

package sandboxfs

import (
	"context"
	"errors"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/skerry-run/skerry"
)

// Stat tells about path itself.
func (f *FS) Stat(ctx context.Context, path string) (skerry.FileInfo, error) {
	const op = "stat file"
	p, err := f.resolve(op, path)
	if err != nil {
		return skerry.FileInfo{}, err
	}
	fi, err := f.stat(p, path)
	return fi, failed(op, path, p.root, err)
}

func (f *FS) stat(p place, path string) (skerry.FileInfo, error) {
	if p.isRoot() {
		d, err := f.openFolder(p)
		if err != nil {
			return skerry.FileInfo{}, err
		}
		defer d.close()
		st, err := d.statSelf()
		return info(path, st), err
	}
	d, name, err := f.openParent(p)
	if err != nil {
		return skerry.FileInfo{}, err
	}
	defer d.close()
	st, err := d.stat(name)
	if err != nil {
		return skerry.FileInfo{}, err
	}
	return d.info(name, path, st)
}

// info is what is known of name, with a link's target.
func (d *folder) info(name, path string, st *unix.Stat_t) (skerry.FileInfo, error) {
	fi := info(path, st)
	if fi.Type != skerry.SymbolicLink {
		return fi, nil
	}
	target, err := d.readlink(name)
	fi.Target = target
	return fi, err
}

// List gives the entries of a folder, or of everything below it, sorted by the
// bytes of their paths.
func (f *FS) List(ctx context.Context, path string, opts skerry.ListOptions) ([]skerry.FileInfo, error) {
	const op = "list files"
	p, err := f.resolve(op, path)
	if err != nil {
		return nil, err
	}
	limit, err := limitOf(op, opts.Limit, defaultListLimit, maxListLimit)
	if err != nil {
		return nil, err
	}
	d, err := f.openFolder(p)
	if err != nil {
		return nil, failed(op, path, p.root, err)
	}
	defer d.close()
	var list []skerry.FileInfo
	w := walker{fs: f, ctx: ctx, enter: func(entry) bool { return opts.Recursive }}
	w.visit = func(e entry) error {
		if len(list) == limit {
			return skerry.Errorf(skerry.Busy, op, "%q has more than %d entries", path, limit).
				WithHint("list a folder below it, search with Glob, or raise the limit up to %d", maxListLimit)
		}
		fi, err := e.in.info(e.name, e.path, e.st)
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINVAL) {
			return nil // it went, or is no link any more
		}
		list = append(list, fi)
		return err
	}
	w.unread = func(path string, err error) error { return failed(op, path, p.root, err) }
	if err := w.walk(d); err != nil {
		return nil, failed(op, path, p.root, err)
	}
	slices.SortFunc(list, func(a, b skerry.FileInfo) int { return strings.Compare(a.Path, b.Path) })
	return list, nil
}

// limitOf gives the limit that holds for a caller's.
func limitOf(op string, asked, standard, most int) (int, error) {
	switch {
	case asked == 0:
		return standard, nil
	case asked < 0 || asked > most:
		return 0, skerry.Errorf(skerry.Invalid, op, "limit %d is not between 1 and %d", asked, most)
	}
	return asked, nil
}
