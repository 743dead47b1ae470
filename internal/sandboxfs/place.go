//go:build linux

package sandboxfs

import (
	"errors"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/skerry-run/skerry"
)

// place is a path that was found to lie below one of the roots; no elements
// mean the root itself. Elements are never empty, "." or "..".
type place struct {
	root  *root
	elems []string
}

func (p place) isRoot() bool { return len(p.elems) == 0 }

// rel is the path below the root, "." for the root itself.
func (p place) rel() string {
	if p.isRoot() {
		return "."
	}
	return strings.Join(p.elems, "/")
}

func (p place) parent() place { return place{p.root, p.elems[:len(p.elems)-1]} }
func (p place) name() string  { return p.elems[len(p.elems)-1] }

// splitPath gives the elements of a path without empty ones.
func splitPath(path string) []string {
	return slices.DeleteFunc(strings.Split(path, "/"), func(e string) bool { return e == "" })
}

// resolve finds the root of a path by its elements; ".." is taken away by the
// letter, before any link is looked at.
func (f *FS) resolve(op, path string) (place, error) {
	switch {
	case path == "":
		return place{}, skerry.Errorf(skerry.Invalid, op, "the path is empty").WithHint(`name a file, or "." for the workspace`)
	case strings.IndexByte(path, 0) >= 0:
		return place{}, skerry.Errorf(skerry.Invalid, op, "the path %q holds a NUL byte", path)
	}
	if len(path) > maxPathBytes {
		return place{}, skerry.Errorf(skerry.Invalid, op, "the path has %d bytes, at most %d", len(path), maxPathBytes)
	}
	var elems []string
	if path[0] != '/' {
		elems = append(elems, f.roots[0].elems...)
	}
	floor := len(elems)
	for _, e := range splitPath(path) {
		switch e {
		case ".":
		case "..":
			if len(elems) <= floor {
				return place{}, f.outside(op, path)
			}
			elems = elems[:len(elems)-1]
		default:
			elems = append(elems, e)
		}
	}
	p, ok := f.within(elems)
	if !ok {
		return place{}, f.outside(op, path)
	}
	if len(p.elems) > maxDepth {
		return place{}, skerry.Errorf(skerry.Invalid, op, "the path goes through %d folders, at most %d", len(p.elems), maxDepth)
	}
	return p, nil
}

// within finds the root that absolute elements lie below; the longest one
// counts when one root lies in another.
func (f *FS) within(elems []string) (place, bool) {
	var best *root
	for _, r := range f.roots {
		if len(elems) >= len(r.elems) && slices.Equal(elems[:len(r.elems)], r.elems) && (best == nil || len(r.elems) > len(best.elems)) {
			best = r
		}
	}
	if best == nil {
		return place{}, false
	}
	return place{best, slices.Clone(elems[len(best.elems):])}, true
}

func (f *FS) outside(op, path string) error {
	return skerry.Errorf(skerry.Denied, op, "%q is outside the sandbox's folders", path).
		WithHint("use a path relative to the workspace, or one below %s, %s or %s", f.roots[0].name, f.roots[1].name, f.roots[2].name)
}

// errLeaves is a link that ends outside the roots.
var errLeaves = errors.New("a link on the way leads out of the sandbox's folders")

// follow replaces the links in p, also the last one when final, by what they
// point to. It decides nothing about safety: whatever opens the result does so
// inside a root again.
func (f *FS) follow(p place, final bool) (place, error) {
	done := slices.Clone(p.root.elems)
	todo := slices.Clone(p.elems)
	for links := 0; len(todo) > 0; {
		e := todo[0]
		todo = todo[1:]
		switch e {
		case ".":
			continue
		case "..":
			done = done[:max(0, len(done)-1)]
			continue
		}
		at, ok := f.within(append(slices.Clone(done), e))
		if !ok || at.isRoot() || len(todo) == 0 && !final {
			done = append(done, e)
			continue
		}
		target, err := f.readlink(at)
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) { // not a link
			done = append(done, e)
			continue
		}
		if err != nil {
			return place{}, err
		}
		if links++; links > maxLinks {
			return place{}, unix.ELOOP
		}
		if strings.HasPrefix(target, "/") {
			done = nil
		}
		todo = append(splitPath(target), todo...)
	}
	at, ok := f.within(done)
	if !ok {
		return place{}, errLeaves
	}
	return at, nil
}

// readlink reads a link whose parents are no links.
func (f *FS) readlink(p place) (string, error) {
	d, err := openIn(p.root, p.parent().rel())
	if err != nil {
		return "", err
	}
	defer d.close()
	return d.readlink(p.name())
}

// openFolder opens p, which must be a folder or a link to one.
func (f *FS) openFolder(p place) (*folder, error) {
	d, err := openIn(p.root, p.rel())
	if err == nil {
		return d, nil
	}
	if errno := unix.Errno(0); errors.As(err, &errno) && errno != unix.ELOOP {
		return nil, err
	}
	// os.Root follows no absolute link and none that passes through another
	// root. Those that end inside are fine.
	at, err := f.follow(p, true)
	if err != nil {
		return nil, err
	}
	d, err = openIn(at.root, at.rel())
	if errno := unix.Errno(0); err != nil && !errors.As(err, &errno) {
		return nil, errLeaves
	}
	return d, err
}

// makeFolder opens p as openFolder does, and makes it and its parents when they
// do not exist.
func (f *FS) makeFolder(p place) (*folder, error) {
	d, err := f.openFolder(p)
	if err == nil || p.isRoot() || !errors.Is(err, unix.ENOENT) {
		return d, err
	}
	parent, err := f.makeFolder(p.parent())
	if err != nil {
		return nil, err
	}
	defer parent.close()
	err = parent.mkdir(p.name(), 0o755)
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return nil, err
	}
	if d, err = parent.openFolder(p.name()); !errors.Is(err, unix.ENOTDIR) {
		return d, err
	}
	// It may be a link to a folder that does not exist yet.
	at, err := f.follow(p, true)
	if err != nil {
		return nil, err
	}
	if at.root == p.root && slices.Equal(at.elems, p.elems) {
		return nil, unix.ENOTDIR
	}
	return f.makeFolder(at)
}

// openParent opens the folder that p is in.
func (f *FS) openParent(p place) (*folder, string, error) {
	d, err := f.openFolder(p.parent())
	return d, p.name(), err
}
