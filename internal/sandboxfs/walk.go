//go:build linux

package sandboxfs

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"

	"github.com/skerry-run/skerry"
)

// entry is one file or folder that a walk came to.
type entry struct {
	in    *folder // valid during the visit
	name  string
	path  string // relative to where the walk began
	st    *unix.Stat_t
	depth int // 0 at the top
}

func (e entry) isFolder() bool { return e.st.Mode&unix.S_IFMT == unix.S_IFDIR }

// walker goes through everything below a folder in the order of names, a folder
// before what is in it. It follows no links, skips what is being written and
// what vanishes on the way, and is bounded in depth and number.
type walker struct {
	fs     *FS
	ctx    context.Context
	visit  func(entry) error
	enter  func(entry) bool                   // whether to go into a folder; nil is always
	unread func(path string, err error) error // a folder that can't be read; nil passes over it

	visited int
}

func (w *walker) walk(d *folder) error { return w.folder(d, "", 0) }

func (w *walker) folder(d *folder, path string, depth int) error {
	names, err := d.names(maxFolderNames)
	if err != nil {
		return w.unreadable(path, err)
	}
	for _, name := range names {
		if err := w.ctx.Err(); err != nil {
			return err
		}
		if w.fs.isStaged(name) {
			continue
		}
		if w.visited++; w.visited > maxVisited {
			return errTooMany
		}
		st, err := d.stat(name)
		if errors.Is(err, unix.ENOENT) {
			continue
		}
		e := entry{in: d, name: name, path: join(path, name), st: st, depth: depth}
		if err == nil && len(e.path) > maxPathBytes {
			err = errTooDeep
		}
		if err != nil {
			if err := w.unreadable(e.path, err); err != nil {
				return err
			}
			continue
		}
		if err := w.visit(e); err != nil {
			return err
		}
		if !e.isFolder() || w.enter != nil && !w.enter(e) {
			continue
		}
		if err := w.below(e); err != nil {
			return err
		}
	}
	return nil
}

func (w *walker) below(e entry) error {
	if e.depth >= maxDepth {
		return w.unreadable(e.path, errTooDeep)
	}
	sub, err := e.in.openFolder(e.name)
	if err != nil {
		return w.unreadable(e.path, err)
	}
	defer sub.close()
	return w.folder(sub, e.path, e.depth+1)
}

// unreadable passes over a folder that can't be read, unless the caller wants
// to know. A folder that went, or became something else, is not worth a word;
// what ends the whole walk is.
func (w *walker) unreadable(path string, err error) error {
	kind, _ := kindOf(err)
	switch {
	case errors.Is(err, unix.ENOENT), path != "" && (errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)):
		return nil
	case path == "" || kind != skerry.Denied && w.unread == nil:
		return err
	case w.unread == nil:
		return nil
	}
	return w.unread(path, err)
}

func join(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}
