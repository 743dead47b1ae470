//go:build linux

package sandboxfs

import (
	"context"
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"

	"github.com/skerry-run/skerry"
)

// failed makes the error of an operation on path out of what the system said.
// r names the limit that a full disk has; it may be nil.
func failed(op, path string, r *root, err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*skerry.Error](err); ok {
		return e
	}
	kind, hint := kindOf(err)
	limit := "the limit on files"
	if r != nil {
		limit = r.limit
	}
	e := skerry.Errorf(kind, op, "%s: %w", quoted(path), err)
	switch {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return e.WithHint("remove files that are not needed, or raise %s", limit)
	case hint != "":
		return e.WithHint("%s", hint)
	}
	return e
}

// wrongType is a path that is not what the operation needs.
type wrongType struct {
	kind skerry.Kind
	text string
	hint string
}

func (e *wrongType) Error() string { return e.text }

func notRegular(what string) error {
	return &wrongType{skerry.Invalid, "it is a " + what + ", only regular files can be read", ""}
}

func kindOf(err error) (kind skerry.Kind, hint string) {
	if e, ok := errors.AsType[*wrongType](err); ok {
		return e.kind, e.hint
	}
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return skerry.Unavailable, ""
	case errors.Is(err, errLeaves):
		return skerry.Denied, "use a path below the workspace, HOME or /tmp that no link leads out of"
	case errors.Is(err, errTooMany):
		return skerry.Busy, "look at a smaller folder, or use find or ls in a command"
	case errors.Is(err, errTooDeep):
		return skerry.Busy, "use a command in the sandbox for a tree this deep"
	case errors.Is(err, unix.ENOTEMPTY):
		return skerry.Conflict, "remove what is in the folder first, or remove it recursively"
	case errors.Is(err, fs.ErrNotExist):
		return skerry.NotFound, ""
	case errors.Is(err, fs.ErrExist):
		return skerry.Conflict, ""
	case errors.Is(err, unix.EROFS), errors.Is(err, fs.ErrPermission):
		return skerry.Denied, ""
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return skerry.Busy, ""
	case errors.Is(err, unix.EFBIG):
		return skerry.Busy, "write smaller files, or make the sandbox with a larger workspace"
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE), errors.Is(err, unix.ENOMEM):
		return skerry.Busy, "end what uses up the sandbox's memory or descriptors, then try again"
	case errors.Is(err, unix.EISDIR):
		return skerry.Conflict, "a folder has that name; choose another, or remove the folder first"
	case errors.Is(err, unix.ENOTDIR):
		return skerry.Invalid, "a part of the path is a file where a folder is needed"
	case errors.Is(err, unix.ENAMETOOLONG):
		return skerry.Invalid, "a name may have 255 bytes"
	case errors.Is(err, unix.ELOOP):
		return skerry.Invalid, "links point at each other in a circle"
	case errors.Is(err, unix.EINVAL):
		return skerry.Invalid, ""
	case errors.Is(err, fs.ErrClosed), errors.Is(err, unix.EBADF):
		return skerry.Unavailable, ""
	}
	return skerry.Internal, ""
}

// foreign makes the error of an operation out of one that the caller's reader
// or writer gave: it says nothing about the sandbox's files, so its kind is
// its own.
func foreign(op, path, doing string, err error) error {
	kind := skerry.KindOf(err)
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		kind = skerry.Unavailable
	}
	e := skerry.Errorf(kind, op, "%s: %s: %w", quoted(path), doing, err)
	e.Hint = skerry.HintOf(err)
	return e
}
