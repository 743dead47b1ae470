package main

import (
	"context"
	"io"
)

// interruptible is a reader whose reads end with ctx, although the reader
// below may go on waiting: nothing can take back a read of a terminal. After
// that it must not be read any more.
type interruptible struct {
	ctx  context.Context
	from io.Reader
}

func (r *interruptible) Read(p []byte) (int, error) {
	type answer struct {
		data []byte
		err  error
	}
	got := make(chan answer, 1)
	go func() {
		// Its own memory: the caller has p back when ctx ends.
		buffer := make([]byte, len(p))
		n, err := r.from.Read(buffer)
		got <- answer{buffer[:n], err}
	}()
	select {
	case a := <-got:
		return copy(p, a.data), a.err
	case <-r.ctx.Done():
		return 0, context.Cause(r.ctx)
	}
}
