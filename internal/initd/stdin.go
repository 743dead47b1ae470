//go:build linux

package initd

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/skerry-run/skerry"
)

// stdin is the input of one command: a pipe or its terminal. What arrives is
// counted, so that a client whose stream broke goes on where it was. The init
// holds nothing back: a program that does not read blocks the client.
type stdin struct {
	terminal bool
	turn     chan struct{} // holds one token: who has it may write

	mu     sync.Mutex
	file   *os.File // nil when closed
	offset int64    // bytes taken so far
	closed bool
}

// endOfTransmission is what a terminal takes for the end of input.
const endOfTransmission = 4

func newStdin(f *os.File, terminal bool) *stdin {
	s := &stdin{file: f, terminal: terminal, turn: make(chan struct{}, 1)}
	s.turn <- struct{}{}
	return s
}

// state gives the next offset that is wanted, and whether more is pointless.
func (s *stdin) state() (int64, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.offset, s.closed
}

// write takes data that starts at offset off of the input; what was taken
// already is skipped, a hole is an error.
func (s *stdin) write(ctx context.Context, off int64, data []byte) error {
	select {
	case <-s.turn:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { s.turn <- struct{}{} }()
	s.mu.Lock()
	at, file, closed := s.offset, s.file, s.closed
	s.mu.Unlock()
	if off > at {
		return skerry.Errorf(skerry.Invalid, "stdin", "offset %d leaves a hole, %d bytes were taken so far", off, at)
	}
	if skip := at - off; skip >= int64(len(data)) {
		return nil
	} else {
		data = data[skip:]
	}
	if closed {
		return nil // a program that does not read any more is no error
	}
	n, err := put(ctx, file, data)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.offset += int64(n)
	switch {
	case err == nil:
	case ctx.Err() != nil && errors.Is(err, os.ErrDeadlineExceeded):
		return ctx.Err()
	default: // EPIPE, or closed meanwhile: nobody reads any more
		s.closeLocked()
	}
	return nil
}

// put writes to the program until ctx ends.
func put(ctx context.Context, file *os.File, data []byte) (int, error) {
	interrupted := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = file.SetWriteDeadline(time.Unix(1, 0))
		close(interrupted)
	})
	n, err := file.Write(data)
	if !stop() {
		<-interrupted // else the deadline could be set after it was taken back, and hit the next write
		_ = file.SetWriteDeadline(time.Time{})
	}
	return n, err
}

// end is the end of the input. On a terminal it is a character, and more may
// not follow either.
func (s *stdin) end(ctx context.Context) error {
	select {
	case <-s.turn:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { s.turn <- struct{}{} }()
	s.mu.Lock()
	file, closed := s.file, s.closed
	s.mu.Unlock()
	if closed {
		return nil
	}
	if s.terminal {
		_, _ = put(ctx, file, []byte{endOfTransmission})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closeLocked()
	return nil
}

func (s *stdin) closeLocked() {
	s.closed = true
	if s.file != nil && !s.terminal {
		s.file.Close()
	}
	s.file = nil
}

// programEnded closes the input; a write that waits ends. It works on nil.
func (s *stdin) programEnded() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closeLocked()
}
