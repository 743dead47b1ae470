//go:build linux

package supervise

import (
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/skerry-run/skerry/internal/boxes"
	"github.com/skerry-run/skerry/internal/control"
)

// accept hands the connections of our own user, and of root, in to the init.
// It ends when the socket is closed.
func (s *supervisor) accept() {
	for {
		c, err := s.socket.AcceptUnix()
		if err != nil {
			return
		}
		f, err := c.File() // a duplicate, in blocking mode; the init makes of it what it likes
		c.Close()
		if err != nil {
			continue
		}
		if mayConnect(f) {
			// An init that is gone can't take it; then the client sees the end
			// of the stream, and we see the end of bwrap.
			_ = s.line.Send(control.Message{Type: control.Conn}, f)
		}
		f.Close()
	}
}

// mayConnect says whether the other end is the sandbox's owner or root. The
// folder's mode keeps others out already; this holds when someone changed it.
func mayConnect(f *os.File) bool {
	cred, err := unix.GetsockoptUcred(int(f.Fd()), unix.SOL_SOCKET, unix.SO_PEERCRED)
	return err == nil && (cred.Uid == 0 || int(cred.Uid) == os.Geteuid())
}

// listen hears what the init says until the line ends.
func (s *supervisor) listen() {
	for {
		m, file, err := s.line.Receive()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.begun = true
		s.mu.Unlock()
		switch m.Type {
		case control.Begun:
			if err := s.limitTerminals(); err != nil {
				s.mu.Lock()
				s.box.Record.Warnings = append(s.box.Record.Warnings, "a sandbox can take all of the machine's pseudo-terminals: "+err.Error())
				_ = s.box.Update() // the next one writes it
				s.mu.Unlock()
			}
		case control.Spool:
			s.giveSpool()
		case control.Keeper:
			s.scoreKeeper(file)
		case control.Expires:
			s.setExpiry(m.ExpiresUnixMS)
		case control.Ended:
			s.mu.Lock()
			s.said = endReason(m.Reason)
			s.mu.Unlock()
		}
		if file != nil {
			file.Close()
		}
	}
}

// endReason takes no word that is not one of ours.
func endReason(said string) string {
	switch said {
	case "ttl":
		return boxes.EndedTTL
	case "idle":
		return boxes.EndedIdle
	case "shutdown":
		return boxes.EndedShutdown
	case "lifeline":
		return boxes.EndedOwner
	}
	return boxes.EndedLost
}

// setExpiry believes the init only up to the latest time that the backend
// allows: user code may have taken it over. What it says is of this moment, so
// only the time until then counts: the machine's clock may have been set since
// the sandbox was made.
func (s *supervisor) setExpiry(unixMS int64) {
	at := steady(time.UnixMilli(unixMS))
	if unixMS <= 0 || at.After(s.latest) {
		at = s.latest
	}
	s.mu.Lock()
	s.box.Record.Expires = at
	err := s.box.Update()
	s.mu.Unlock()
	if err != nil {
		return // the old time stays in the record; the init keeps the new one
	}
	s.armExpiry(at)
}

// spoolGuard bounds how many spool files a sandbox may ask for in its life.
// How large each is, is bounded by RLIMIT_FSIZE of the init, and how many are
// there at once by its RLIMIT_NOFILE.
type spoolGuard struct{ given int }

const maxSpools = 1_000_000

func (s *supervisor) giveSpool() {
	var f *os.File
	if s.spool.given < maxSpools {
		s.spool.given++
		var err error
		if f, err = s.order.Dirs.Spool(); err != nil {
			f = nil // the init is told that there is none
		}
	}
	_ = s.line.Send(control.Message{Type: control.Spool}, f)
	if f != nil {
		f.Close()
	}
}
