//go:build linux

package initd

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/skerry-run/skerry"
	"github.com/skerry-run/skerry/internal/shellstate"

	"github.com/skerry-run/skerry/internal/keep"
)

// shell is the state of the session's shell as the last script published it.
type shell struct {
	mu    sync.Mutex
	state shellstate.State
}

func (s *shell) current() shellstate.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

func (s *shell) publish(state shellstate.State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state = state
}

// capture is where one script leaves the state of its shell.
type capture struct {
	file   *os.File
	nonce  string
	before string // the session's folder when the script started
	asked  string // the folder that this command alone was to start in, or ""
}

// discard frees what was not used. It works on nil.
func (c *capture) discard() {
	if c != nil && c.file != nil {
		c.file.Close()
	}
}

// stateMemfd gives both ends of a capture: one file, opened for appending so
// that whoever else writes to it overwrites nothing.
func stateMemfd() (ours, theirs *os.File, err error) {
	ours, err = keep.Memfd("state", nil)
	if err != nil {
		return nil, nil, err
	}
	if _, err = unix.FcntlInt(uintptr(rawFD(ours)), unix.F_SETFL, unix.O_APPEND); err == nil {
		var fd int
		if fd, err = unix.FcntlInt(uintptr(rawFD(ours)), unix.F_DUPFD_CLOEXEC, 0); err == nil {
			return ours, os.NewFile(uintptr(fd), "state"), nil
		}
	}
	ours.Close()
	return nil, nil, fmt.Errorf("memfd: %w", err)
}

// captured takes the state of a shell that has ended. Without a good one, and
// when the shell did not end by itself, the last good state stays: bash writes
// its state also when TERM ends it. A shell whose program ran out of memory
// went on and has a state.
func (s *Server) captured(c *command, exit skerry.Exit) {
	if c.state == nil {
		return
	}
	defer c.state.discard()
	if !s.config.Session || exit.Outcome != skerry.Exited && exit.Outcome != skerry.OOM {
		return
	}
	frame, err := c.state.read()
	var state shellstate.State
	if err == nil {
		state, err = shellstate.Parse(frame, c.state.nonce)
	}
	switch {
	case errors.Is(err, shellstate.ErrNoFrame):
	case err != nil:
		c.note("%v", err)
	default:
		if state.Dir == c.state.asked {
			state.Dir = c.state.before // it was this command's alone
		}
		s.shell.publish(state)
	}
}

// maxStateRead holds the largest frame, which has everything twice, and what
// others may have written after it.
const maxStateRead = 3 * shellstate.MaxFrameBytes

// read gives the last that was written to the state file.
func (c *capture) read() ([]byte, error) {
	var st syscall.Stat_t
	fd := rawFD(c.file)
	if err := syscall.Fstat(fd, &st); err != nil {
		return nil, fmt.Errorf("read the shell's state: %w", err)
	}
	data := make([]byte, min(st.Size, maxStateRead))
	n, err := c.file.ReadAt(data, st.Size-int64(len(data)))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read the shell's state: %w", err)
	}
	return data[:n], nil
}
