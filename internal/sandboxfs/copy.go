//go:build linux

package sandboxfs

import (
	"context"
	"errors"
	"io"
)

// source marks the errors of a reader, so that they can be told from those of
// the writer it is copied to, and ends when ctx does.
type source struct {
	ctx context.Context
	r   io.Reader
}

type sourceError struct{ err error }

func (e *sourceError) Error() string { return e.err.Error() }
func (e *sourceError) Unwrap() error { return e.err }

func (s source) Read(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, &sourceError{err}
	}
	n, err := s.r.Read(p)
	if err != nil && err != io.EOF {
		err = &sourceError{err}
	}
	return n, err
}

// plain hides what else a writer can do, so that a copy uses our buffer.
type plain struct{ w io.Writer }

func (p plain) Write(b []byte) (int, error) { return p.w.Write(b) }

// copyAll copies src to dst in pieces. fromSource says that the error is one
// of src, or of ctx.
func (f *FS) copyAll(ctx context.Context, dst io.Writer, src io.Reader) (n int64, fromSource bool, err error) {
	buf, release := f.buffer()
	defer release()
	n, err = io.CopyBuffer(plain{dst}, source{ctx, src}, buf)
	if e, ok := errors.AsType[*sourceError](err); ok {
		return n, true, e.err
	}
	return n, false, bare(err)
}
