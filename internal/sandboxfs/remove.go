//go:build linux

package sandboxfs

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"

	"github.com/skerry-run/skerry"
)

// Remove deletes path itself, never what a link points to.
func (f *FS) Remove(ctx context.Context, path string, recursive bool) error {
	const op = "remove file"
	p, err := f.resolve(op, path)
	if err != nil {
		return err
	}
	if p.isRoot() {
		return skerry.Errorf(skerry.Denied, op, "%q is one of the sandbox's own folders", path).WithHint("remove what is in it instead")
	}
	d, name, err := f.openParent(p)
	if err != nil {
		return failed(op, path, p.root, err)
	}
	defer d.close()
	st, err := d.stat(name)
	switch {
	case err != nil:
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		err = d.remove(name)
	case recursive:
		err = d.removeAll(name, ctx.Err)
	default:
		err = d.removeEmpty(name)
	}
	if errors.Is(err, unix.EBUSY) {
		err = &wrongType{skerry.Denied, "something is mounted there", "remove what is in it instead"}
	}
	return failed(op, path, p.root, err)
}
